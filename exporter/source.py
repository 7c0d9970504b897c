"""One source: its files as streams, its engine, and all samples of the two."""

from collections import Counter
from collections.abc import Iterator, Mapping

from exporter.clock import EventClock
from exporter.counters import Sample
from exporter.engine import UNKNOWN_RUNTIME, Engine
from exporter.faults import Faults
from parsers.matching import Found
from parsers.resume import ResumableStream
from parsers.stream import LogStream

_LINES_OF_NOBODY = 1000
"""A log that says so much and not of which engine it is will never tell."""


def _line_counts(stream: LogStream) -> dict[str, Mapping[str, int]]:
    """What a stream counted, by family and label."""
    return {
        "log_lines_total": stream.levels,
        "unrecognised_lines_total": stream.unrecognised,
        "rule_errors_total": stream.rule_errors,
        "cut_lines_total": {"": stream.cut_lines},
    }


class Source:
    """What the user names: one log or several, and the engine that writes them."""

    STATE = ("clock", "faults", "engine", "runtime", "_past", "_last_time", "_last_arrival", "_time_is_new")

    def __init__(
        self,
        name: str,
        *,
        year: int,
        month: int = 12,
        pd_role: str | None = None,
        pd_expect: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`year` and `month` are those of the last line, for headers without a year; `labels` are static."""
        self.name = name
        self.labels = dict(labels or {})
        self.clock = EventClock()
        self.faults = Faults(name)
        self.engine = Engine(self.faults, pd_role=pd_role, pd_expect=pd_expect)
        self.runtime = UNKNOWN_RUNTIME
        """The engine that writes the log, as soon as a line tells."""
        self._written = (year, month)
        self._files: dict[str, ResumableStream] = {}
        self._past: dict[str, dict[str, int]] = {}
        self._last_time: float | None = None
        self._last_arrival: float | None = None
        self._time_is_new = False

    def configure(self, labels: Mapping[str, str], *, pd_role: str | None, pd_expect: str | None, zone: float | None) -> None:
        """Take settings while it runs; `zone` is seconds east of UTC, None to learn it."""
        self.labels = dict(labels)
        self.clock.given = zone
        self.engine.pd_role, self.engine.pd_expect = pd_role, pd_expect

    def file(self, name: str) -> ResumableStream:
        """What is known of a file."""
        log = self._files.get(name)
        if log is None:
            log = self._files[name] = ResumableStream(*self._written)
        return log

    def feed(self, data: bytes, arrival: float | None = None, file: str = "") -> list[Found]:
        """Read bytes of a file and take their events. `arrival` as in `apply`."""
        return self.apply(self.parse(data, arrival, file), arrival)

    def end_of_file(self, file: str = "") -> list[Found]:
        """Another file takes a file's place: its last line is complete without a line break."""
        return self.apply(self.parse_end(file), None)

    def parse(self, data: bytes, arrival: float | None, file: str) -> list[Found]:
        """The events of bytes of a file, not applied yet."""
        log = self.file(file)
        clock = log.stream.clock
        before = clock.last
        found = log.feed(data)
        self._time_is_new = clock.last != before
        if self._time_is_new:
            self._last_time, self._last_arrival = clock.last, arrival
        return self._known(log, found)

    def parse_end(self, file: str) -> list[Found]:
        """The events of a last line, not applied yet."""
        log = self._files.get(file)
        return self._known(log, log.close()) if log else []

    def _known(self, log: ResumableStream, found: list[Found]) -> list[Found]:
        if self.runtime == UNKNOWN_RUNTIME:
            self.runtime = log.stream.runtime or UNKNOWN_RUNTIME
        return found

    def apply(self, found: list[Found], arrival: float | None) -> list[Found]:
        """Take events in their order. `arrival` is when they were written at the latest (epoch), None for a saved log."""
        self.engine.apply(found, arrival, self.runtime)
        if found and self.engine.may_be_terse:
            self.engine.judge_log_level(set().union(*(each.stream.own_levels for each in self._files.values())))
        return found

    def learn_zone(self, now: float) -> None:
        """What was parsed last was written just now (epoch)."""
        if self._time_is_new:
            self.clock.learn(self._last_time, now)

    def forget_file(self, file: str) -> None:
        """A file is followed no more: what was counted in it stays."""
        self.end_of_file(file)
        if log := self._files.pop(file, None):
            for family, counts in _line_counts(log.stream).items():
                total = Counter(self._past.get(family, {}))
                total.update(counts)
                self._past[family] = dict(total)

    def _log_time(self, now: float | None) -> float | None:
        """The time by the log's clock: the last that it printed, and what has passed since that was written."""
        if self._last_time is None or now is None or self._last_arrival is None:
            return self._last_time
        return self._last_time + max(0.0, now - self._last_arrival)

    def samples(self, now: float | None) -> Iterator[Sample]:
        """All series of this source. `now` (epoch) expires gauges of periodic lines, None keeps them."""
        yield from self.own_samples()
        lines = list(self._line_samples())
        known = self.runtime != UNKNOWN_RUNTIME
        # A series that is shown keeps its labels: while the log is new, its next line may tell whose it is.
        if not known and now is not None and sum(each.value for each in lines) < _LINES_OF_NOBODY:
            return
        yield from lines
        if known or self.engine.seen:
            yield from self.engine.samples(self.clock, now, self._log_time(now))

    def own_samples(self) -> Iterator[Sample]:
        """What inferlog could not take."""
        yield Sample("source_faults_total", (), self.faults.count)
        yield Sample("series_dropped_total", (), self.engine.dropped_series)

    def _line_samples(self) -> Iterator[Sample]:
        """Over the files that are followed and those that were."""
        totals = {family: Counter(counts) for family, counts in self._past.items()}
        for log in self._files.values():
            for family, counts in _line_counts(log.stream).items():
                totals.setdefault(family, Counter()).update(counts)
        for family, total in totals.items():
            for label, count in total.items():
                yield Sample(family, (label,) if label else (), count)
