"""A saved log as OpenMetrics with the times of its lines: what would have been scraped, for `promtool tsdb create-blocks-from openmetrics`."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, Self, TextIO

from exporter.analysis.inputs import DamagedError, SavedLog, Tick, Written, chunks
from exporter.clock import zone_between
from exporter.exposition import SourceSnapshot
from exporter.families import FAMILIES, PREFIX
from exporter.source import Source
from exporter.source_names import STDIN
from parsers.log import Log
from parsers.matching import Found

LONGEST_GAP_SECONDS = 86_400.0
"""Over a longer one, as a line with a wrong year makes it, nothing is written."""

_TOTAL = "_total"
_TIME = "_timestamp_seconds"
_NEWLINE = b"\n"
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")


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
        self._ahead = Log(written.year, written.month)
        """Tells a line's time before the line counts."""
        self._clock = b""
        self._due: float | None = None
        self._before: float | None = None
        self.scrapes = 0

    def read(self, line: bytes) -> None:
        """A line: at an interval that ended before it was written it has not been counted yet."""
        clock = _CLOCK.search(line)
        if clock and clock[0] != self._clock:
            self._clock = clock[0]
            self._go_on(self._time_of(line))
        self.take(self._source.parse(line, None, ""))

    def _time_of(self, line: bytes) -> float | None:
        clock = self._source.clock
        times = [at for _, head in self._ahead.feed(line) if (at := clock.epoch(head)) is not None]
        if times or self._ahead.last_time is None:
            return times[0] if times else None
        return self._ahead.last_time - clock.zone

    def take(self, found: list[Found]) -> None:
        """The events of a line, or none; the line's time counts either way."""
        source, clock = self._source, self._source.clock
        for each in found:
            head = each[1]
            at = clock.epoch(head)
            if at is not None and head.wrapped_time:
                clock.learn(head.time, at)
            self._go_on(at)
            source.apply([each], self._due if at is None else at)
        time = source.log_time(None)
        if not found and self._due is not None and time is not None and time != self._before:
            self._before = time
            self._go_on(time - clock.zone)

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


def guessed_zone(log: SavedLog) -> float | None:
    """The zone of a log's times, where its last line and the file's last change are of one moment; None where they are not."""
    if log.path == STDIN or log.changed is None:
        return None
    plain = Log(log.written.year, log.written.month)
    try:
        for data in chunks(log.path):
            plain.feed(data)
    except DamagedError:
        return None  # the last line is not there
    plain.close()
    return zone_between(plain.last_time, log.changed)


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
                for line in _lines(chunks(path, tick)):
                    past.read(line)
            except DamagedError as error:
                damages.append(f"{path}: damaged, the rest could not be read ({error})")
            past.take(source.parse_end(""))
        past.end()
        return Filled(log.name, past.scrapes, tuple(damages))

    def scrape(self, source: Source, at: float) -> None:
        """Everything as it is. A series that is gone just ends, which Prometheus sees five minutes later: the format has no mark for an end.

        A value that is no number would be one, but blanks every sum that it is in. Nobody adds up times, and min and max pass over it: a
        time that no longer holds gets one, as it would make dashboards tell of an incident that is over.
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


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Line by line, so that what is counted is counted at its time; a line without end comes in pieces."""
    for block in blocks:
        start = 0
        while (end := block.find(_NEWLINE, start)) >= 0:
            yield block[start : end + 1]
            start = end + 1
        if start < len(block):
            yield block[start:]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def assumed(log: SavedLog, zone: float | None, guess: float | None) -> str:
    """What is assumed of a log's times, in words."""
    year = f"the year, where lines have none, is taken from the file's last change ({log.written.year})" if log.written.guessed else ""
    if zone is not None:
        return year
    if guess is not None:
        hours, minutes = divmod(abs(guess) // 60, 60)
        sign = "-" if guess < 0 else "+"
        text = f"times without a zone are taken for UTC{sign}{hours:02.0f}:{minutes:02.0f}, as the file's last change is of that moment"
    else:
        text = "times without a zone are taken for UTC, as nothing tells their zone"
    return "; ".join(filter(None, (text, year)))


def pieces_read(log: SavedLog) -> str:
    """That several files are read as one log, in words; empty where it is one file."""
    return f"read as one rotated log, oldest first by {log.order}: {', '.join(log.pieces)}" if len(log.pieces) > 1 else ""
