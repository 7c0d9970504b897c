"""One source: its log as a stream, its engine, and all samples of the two."""

from collections.abc import Iterator, Mapping

from exporter.clock import EventClock
from exporter.counters import Sample
from exporter.engine import Engine
from parsers.stream import Found, LogStream

UNKNOWN_RUNTIME = "unknown"


class Source:
    """What the user names: a log, and the engine that writes it."""

    def __init__(
        self,
        name: str,
        *,
        year: int,
        pd_role: str | None = None,
        pd_expect: str | None = None,
        labels: Mapping[str, str] | None = None,
        clock: EventClock | None = None,
    ) -> None:
        """`year` is that of the log's first line; `labels` are static."""
        self.name = name
        self.labels = dict(labels or {})
        self.clock = clock or EventClock()
        self.engine = Engine(pd_role=pd_role, pd_expect=pd_expect)
        self._stream = LogStream(year)

    @property
    def runtime(self) -> str:
        """The engine that writes the log, as soon as a line tells."""
        return self._stream.runtime or UNKNOWN_RUNTIME

    def feed(self, data: bytes, arrival: float | None = None) -> list[Found]:
        """Read bytes of the log. `arrival` is when they were written at the latest (epoch), None for a saved log."""
        return self._apply(self._stream.feed(data), arrival)

    def learn_zone(self, now: float) -> None:
        """The log's last time was printed just now (epoch)."""
        self.clock.learn(self._stream.clock.last, now)

    def end_of_file(self) -> list[Found]:
        """Another file takes the log's place: a line without a line break is complete."""
        return self._apply(self._stream.close(), None)

    def _apply(self, found: list[Found], arrival: float | None) -> list[Found]:
        self.engine.apply(found, arrival)
        return found

    def samples(self, now: float | None) -> Iterator[Sample]:
        """All series of this source. `now` (epoch) expires gauges of periodic lines, None keeps them."""
        stream = self._stream
        self.engine.born(self.runtime)
        self.engine.judge_settings(self.runtime)
        for level, count in stream.levels.items():
            yield Sample("log_lines_total", (level,), count)
        for level, count in stream.unrecognised.items():
            yield Sample("unrecognised_lines_total", (level,), count)
        for rule, count in stream.rule_errors.items():
            yield Sample("rule_errors_total", (rule,), count)
        yield Sample("cut_lines_total", (), stream.cut_lines)
        if self.runtime != UNKNOWN_RUNTIME or self.engine.seen:
            yield from self.engine.samples(self.clock, now, stream.clock.last)
