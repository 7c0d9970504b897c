"""A saved log as OpenMetrics with the times of its lines: what would have been scraped, for `promtool tsdb create-blocks-from openmetrics`."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Self, TextIO

from exporter.analysis.inputs import DamagedError, SavedLog, Tick, Written, chunks, lines
from exporter.analysis.line_times import LineTimes
from exporter.clock import zone_between
from exporter.exposition import SourceSnapshot
from exporter.families import FAMILIES, PREFIX
from exporter.source import Source
from parsers.log import Log
from parsers.matching import Found

LONGEST_GAP_SECONDS = 86_400.0
"""Over a longer one, as a line with a wrong year makes it, nothing is written."""

_TOTAL = "_total"
_TIME = "_timestamp_seconds"


@dataclass(frozen=True)
class Filled:
    """What was written of one log."""

    source: str
    scrapes: int
    damages: tuple[str, ...]
    """Of which files something is missing, in words."""


class _Past:
    """Goes through a log and looks at its source at each interval's end."""

    def __init__(self, source: Source, fill: "Backfill", written: Written) -> None:
        self._source, self._fill = source, fill
        self._times = LineTimes(written, source.clock)
        self._due: float | None = None
        self.scrapes = 0

    def read(self, line: bytes) -> None:
        """A line: at an interval that ended before it was written it has not been counted yet."""
        self._go_on(self._times.of(line))
        self.take(self._source.parse(line, None, ""))

    def take(self, found: list[Found]) -> None:
        """The events of a line."""
        source, clock = self._source, self._source.clock
        for each in found:
            head = each[1]
            at = clock.epoch(head)
            if at is not None and head.wrapped_time:
                clock.learn(head.time, at)
            self._go_on(at)
            source.apply([each], self._due if at is None else at)

    def _go_on(self, at: float | None) -> None:
        """Look as often as it was time before this moment."""
        if at is None:
            return
        interval = self._fill.interval
        if self._due is None or at - self._due > LONGEST_GAP_SECONDS:
            self._due = at - at % interval + interval
        while self._due <= at:
            self._look()

    def _look(self) -> None:
        assert self._due is not None
        self._fill.scrape(self._source, self._due)
        self.scrapes, self._due = self.scrapes + 1, self._due + self._fill.interval

    def end(self) -> None:
        """Look once more behind the last line."""
        if self._due is not None:
            self._look()


class _PastSource(Source):
    """A source that is looked at as of a time while its log is read."""

    def log_time(self, now: float | None) -> float | None:
        """The log's clock goes as the real one does."""
        return self._last_time if now is None else now + self.clock.zone


class Guess(NamedTuple):
    """The zone of a log's times, None where it is not known, and what is to be told of that."""

    zone: float | None
    words: str


def guessed_zone(log: SavedLog) -> Guess:
    """Told by the file's last change, where its last line is of the same moment; a container runtime's times need none. Raises OSError."""
    unknown = Guess(None, "times without a zone are taken for UTC, as nothing tells their zone")
    plain = Log(log.written.year, log.written.month)
    try:
        for data in () if log.changed is None else chunks(log.path):
            if any(head.wrapped_time for _, head in plain.feed(data)):
                return Guess(None, "times are those of the container runtime")
    except DamagedError:
        return unknown  # the last line is not there
    plain.close()
    zone = None if log.changed is None else zone_between(plain.last_time, log.changed)
    if zone is None:
        return unknown
    hours, minutes = divmod(abs(zone) // 60, 60)
    name = f"UTC{'-' if zone < 0 else '+'}{hours:02.0f}:{minutes:02.0f}"
    return Guess(zone, f"times without a zone are taken for {name}, as the file's last change is of that moment")


class Backfill:
    """Writes logs, one after the other, and puts the families together at the end, as the format wants them."""

    def __init__(self, interval: float, labels: Mapping[str, str]) -> None:
        """`interval` in seconds; `labels` are those that a scrape would have added."""
        self.interval, self._labels = interval, dict(labels)
        self._files = ExitStack()
        self._spools: dict[str, IO[str]] = {}
        self._times: dict[str, str] = {}
        """The series of the last look at the log that is read whose values are times, with their families."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    def read(self, log: SavedLog, *, zone: float | None, tick: Tick = lambda read: None, **settings: Any) -> Filled:
        """Take one log; without a `zone` a container runtime's times tell it, or none. Raises OSError."""
        source = _PastSource(log.name, year=log.written.year, month=log.written.month, **settings)
        source.clock.given = zone
        past, damages = _Past(source, self, log.written), []
        self._times = {}
        for path in log.pieces:
            try:
                for line in lines(chunks(path, tick)):
                    past.read(line)
            except DamagedError as error:
                damages.append(str(error))
            past.take(source.parse_end(""))
        past.end()
        return Filled(log.name, past.scrapes, tuple(damages))

    def scrape(self, source: Source, at: float) -> None:
        """Everything as it is. A series that is gone just ends, as the format has no mark for an end.

        A value that is no number would be one, but blanks every sum that it is in. Nobody adds up times, and min and max pass over it:
        one that holds no longer gets it, lest dashboards tell of a failure that is over for as long as Prometheus looks back.
        """
        times: dict[str, str] = {}
        for snapshot in source.snapshots(at):
            for family, labels, value in snapshot.samples:
                series = self._series(snapshot, family, labels)
                if family.endswith(_TIME):
                    times[series] = family
                self._spool(family).write(f"{series} {float(value)!r} {at:.3f}\n")
        for series, family in self._times.items():
            if series not in times:
                self._spool(family).write(f"{series} NaN {at:.3f}\n")
        self._times = times

    def _series(self, snapshot: SourceSnapshot, family: str, labels: tuple[str, ...]) -> str:
        names = FAMILIES[family]
        common = [snapshot.common[name] for name in names.common]
        pairs = {**self._labels, **dict(zip((*names.common, *names.labels), (*common, *labels), strict=True))}
        text = ",".join(f'{name}="{_escaped(label)}"' for name, label in pairs.items())
        return f"{PREFIX}{family}{{{text}}}"

    def _spool(self, family: str) -> IO[str]:
        spool = self._spools.get(family)
        if spool is None:
            spool = self._spools[family] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the others
            self._files.callback(spool.close)
        return spool

    def write(self, to: TextIO) -> None:
        """All families with their series together, and the mark of the end."""
        for name, family in FAMILIES.items():
            spool = self._spools.get(name)
            if spool is None:
                continue
            exposed = f"{PREFIX}{name.removesuffix(_TOTAL) if family.kind == 'counter' else name}"
            to.write(f"# HELP {exposed} {_escaped(family.help)}\n# TYPE {exposed} {family.kind}\n")
            for samples in _by_series(spool):
                to.writelines(samples)
        to.write("# EOF\n")


def _by_series(spool: IO[str]) -> Iterator[Sequence[str]]:
    """One family's samples, each series' together; no more than one family is held."""
    spool.seek(0)
    series: dict[str, list[str]] = {}
    for sample in spool:
        series.setdefault(sample[: sample.rindex("}")], []).append(sample)
    yield from series.values()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def assumed(log: SavedLog, guess: Guess | None) -> str:
    """What is assumed of a log, in words: its pieces, the zone and the year of its times."""
    year = f"the year, where lines have none, is taken from the file's last change ({log.written.year})" if log.written.guessed else ""
    return "; ".join(filter(None, (log.told, guess.words if guess else "", year)))
