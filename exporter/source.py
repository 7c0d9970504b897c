"""One source: its files as streams, its engine, and all samples of the two."""

from collections import Counter
from collections.abc import Iterator, Mapping

from exporter.clock import EventClock
from exporter.counters import Sample
from exporter.engine import UNKNOWN_RUNTIME, Engine
from exporter.faults import Faults
from parsers.stream import Found, LogStream


class Source:
    """What the user names: one log or several, and the engine that writes them."""

    def __init__(
        self,
        name: str,
        *,
        year: int,
        month: int = 12,
        pd_role: str | None = None,
        pd_expect: str | None = None,
        labels: Mapping[str, str] | None = None,
        clock: EventClock | None = None,
    ) -> None:
        """`year` and `month` are those of the last line, for headers without a year; `labels` are static."""
        self.name = name
        self.labels = dict(labels or {})
        self.clock = clock or EventClock()
        self.faults = Faults(name)
        self.engine = Engine(self.faults, pd_role=pd_role, pd_expect=pd_expect)
        self._written = (year, month)
        self._streams: dict[str, LogStream] = {}
        self._last_time: float | None = None
        self._last_arrival: float | None = None
        self._time_is_new = False

    @property
    def runtime(self) -> str:
        """The engine that writes the log, as soon as a line tells."""
        return next((stream.runtime for stream in self._streams.values() if stream.runtime), UNKNOWN_RUNTIME)

    def feed(self, data: bytes, arrival: float | None = None, file: str = "") -> list[Found]:
        """Read bytes of a file. `arrival` is when they were written at the latest (epoch), None for a saved log."""
        stream = self._streams.get(file)
        if stream is None:
            stream = self._streams[file] = LogStream(*self._written)
        before = stream.clock.last
        found = stream.feed(data)
        self._time_is_new = stream.clock.last != before
        if self._time_is_new:
            self._last_time, self._last_arrival = stream.clock.last, arrival
        return self._apply(found, arrival)

    def learn_zone(self, now: float) -> None:
        """What was fed last was written just now (epoch)."""
        if self._time_is_new:
            self.clock.learn(self._last_time, now)

    def end_of_file(self, file: str = "") -> list[Found]:
        """Another file takes a file's place: its last line is complete without a line break."""
        stream = self._streams.get(file)
        return self._apply(stream.close(), None) if stream else []

    def _apply(self, found: list[Found], arrival: float | None) -> list[Found]:
        self.engine.apply(found, arrival, self.runtime)
        if found:
            self.engine.judge_log_level(set().union(*(stream.own_levels for stream in self._streams.values())))
        return found

    def _log_time(self, now: float | None) -> float | None:
        """The time by the log's clock: the last that it printed, and what has passed since that was written."""
        if self._last_time is None or now is None or self._last_arrival is None:
            return self._last_time
        return self._last_time + max(0.0, now - self._last_arrival)

    def samples(self, now: float | None) -> Iterator[Sample]:
        """All series of this source. `now` (epoch) expires gauges of periodic lines, None keeps them."""
        yield from self.own_samples()
        yield from self._line_samples()
        if self.runtime != UNKNOWN_RUNTIME or self.engine.seen:
            yield from self.engine.samples(self.clock, now, self._log_time(now))

    def own_samples(self) -> Iterator[Sample]:
        """What inferlog could not take."""
        yield Sample("source_faults_total", (), self.faults.count)
        yield Sample("series_dropped_total", (), self.engine.dropped_series)

    def _line_samples(self) -> Iterator[Sample]:
        streams = self._streams.values()
        for family, counts in (
            ("log_lines_total", [stream.levels for stream in streams]),
            ("unrecognised_lines_total", [stream.unrecognised for stream in streams]),
            ("rule_errors_total", [stream.rule_errors for stream in streams]),
        ):
            total: Counter[str] = Counter()
            for each in counts:
                total.update(each)
            for label, count in total.items():
                yield Sample(family, (label,), count)
        yield Sample("cut_lines_total", (), sum(stream.cut_lines for stream in streams))
