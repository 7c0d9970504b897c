"""Looks at engines while they take the events of a saved log: what the daemon counts, with the places where it came about."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter.analysis.marks import FAILURE, PHASE, READY, STOP, TRANSFER, VERDICT, WORDS, Mark, Place, told
from exporter.analysis.plots import Plots
from exporter.analysis.timeline import Timeline
from exporter.clock import EventClock
from exporter.engine import Engine
from exporter.pages.lanes import BAD, GOOD, NEUTRAL, NOTE, Tone
from exporter.source import Source
from exporter.startup import UNTOLD
from parsers import events
from parsers.header import Head
from parsers.log import CONTAINERS
from parsers.numbered import SERVER_ERRORS, NumberedHead, NumberedLog
from parsers.resume import ResumableLog

_TRANSFERS = {events.KvTransferInterval, events.KvTransferIntervals, events.KvMoved}
_FREQUENT = frozenset({
    events.IntervalStats, events.PrefillBatch, events.DecodeBatch, events.SpecInterval, events.SpecTotals, events.PrefixHits,
    events.KvRequestMoved, events.HttpResponses, events.HealthAnswered,
})  # fmt: skip
"""Too many to look at every counter after each, and they raise none that makes a mark."""

_PERIODIC = _FREQUENT | _TRANSFERS
"""Those after which gauges may be others."""

ANSWERED_5XX = "requests answered 5xx"

VERDICTS_KEPT = 1000
"""Changes of the verdict; of a log that has more of them the rest is on the timeline."""

_GOOD_VERDICTS = frozenset({"proven"})
_QUIET_VERDICTS = frozenset({"not_disaggregated", "not_judged", "idle", "unproven"})
_STATES: dict[str, tuple[str, Tone, str]] = {
    "serving": (READY, GOOD, "ready"),
    "worker": (READY, NEUTRAL, "a headless node: it is never ready by itself"),
    "stalled": (FAILURE, BAD, "stalled"),
    "stopped": (STOP, NEUTRAL, "orderly stop"),
    "failed": (FAILURE, BAD, "ended by a failure"),
}  # fmt: skip


class VerdictPeriod(NamedTuple):
    """A P/D verdict, where it began, and the checks that failed when it did."""

    verdict: str
    since: Place
    failing: tuple[str, ...]


class Watch:
    """One engine's past."""

    def __init__(self, engine: Engine, clock: EventClock) -> None:
        self.engine, self._clock = engine, clock
        self.timeline = Timeline()
        self.plots = Plots()
        self.marks: dict[tuple[str, tuple[str, ...]], Mark] = {}
        self.verdicts: list[VerdictPeriod] = []
        self.errors: Mark | None = None
        """Answers of class 5xx."""
        self.answered: Mark | None = None
        self.transfers: Mark | None = None
        self.first: Place | None = None
        self.ended: Place | None = None
        self._series = [(family, engine.counters.family(family)) for family in WORDS]
        self._moved = engine.counters.family("kv_transfers_total")
        self._state, self._phase, self._verdict = engine.life.state, UNTOLD, ""

    def verdict_periods(self) -> Iterator[tuple[VerdictPeriod, Place]]:
        """The verdicts in their order, each with its end."""
        ends = [each.since for each in self.verdicts[1:]] + [self.ended or Place(None, 0)]
        yield from zip(self.verdicts, ends, strict=False)

    def after(self, event: Any, head: Head) -> None:
        """The engine has taken an event."""
        place = self.place(head)
        kind = type(event)
        if kind is events.HttpResponses:
            place = Place(place.time, 0)  # several lines, told behind the last of them
            self._responses(event.counts, place, head)
        self._look_at_life(place)
        self._look_at_verdict()
        due = kind in _PERIODIC and self.plots.due(place.time)
        if due or kind not in _FREQUENT:
            self._look_at_counters(place)
        if due and place.time is not None:
            self._look_at_transfers(place)
            self.plots.take(place.time, self.engine.gauges.samples(None))

    def finish(self) -> None:
        """The log is at its end."""
        self.engine.settle()
        self._look_at_verdict()
        if self.ended:
            self._look_at_counters(self.ended)
            self._look_at_transfers(self.ended)

    def place(self, head: Head) -> Place:
        """Where a line stands."""
        return Place(self._clock.epoch(head), head.line if isinstance(head, NumberedHead) else 0)

    def _look_at_life(self, place: Place) -> None:
        if place.line or not self.ended:
            self.first, self.ended = self.first or place, place
        life = self.engine.life
        if life.startup.name != self._phase:
            self._phase = life.startup.name
            if self._phase != UNTOLD and life.state == "starting":
                self.timeline.add(PHASE, NEUTRAL, self._phase, place)
        if life.state != self._state:
            self._state = life.state
            if told_state := _STATES.get(life.state):
                kind, tone, text = told_state
                if kind == READY and not life.ready_observed and life.state == "serving":
                    text = "serving, as traffic tells: the log has no ready line"
                self.timeline.add(kind, tone, text, place)

    def _look_at_verdict(self) -> None:
        standing = self.engine.standing
        if standing.verdict == self._verdict or not standing.verdict or standing.since is None:
            return
        since = self.place(standing.since)
        self._verdict = standing.verdict
        period = VerdictPeriod(standing.verdict, since, tuple(standing.failing))
        if len(self.verdicts) < VERDICTS_KEPT:
            self.verdicts.append(period)
        tone: Tone = GOOD if period.verdict in _GOOD_VERDICTS else NEUTRAL if period.verdict in _QUIET_VERDICTS else BAD
        if period.verdict != "not_disaggregated":
            self.timeline.add(VERDICT, tone, f"P/D verdict: {period.verdict}", since)

    def _look_at_counters(self, place: Place) -> None:
        for family, values in self._series:
            for labels, value in values.items():
                if value:
                    mark = self.marks.get((family, labels))
                    rise = value - mark.count if mark else value
                    if rise:
                        self._rose(family, labels, rise, place)

    def _rose(self, family: str, labels: tuple[str, ...], by: float, place: Place) -> None:
        mark = self.marks.get((family, labels))
        if mark:
            mark.rise(by, place)
        else:
            self.marks[family, labels] = Mark(by, place, place)
        if words := told(family, labels):
            self.timeline.add(*words, place, by)

    def _look_at_transfers(self, place: Place) -> None:
        moved = sum(self._moved.values())
        before = self.transfers.count if self.transfers else 0.0
        if moved > before:
            if self.transfers is None:
                self.transfers = Mark(moved, place, place)
                self.timeline.add(TRANSFER, GOOD, "first KV transfers", place)
            else:
                self.transfers.rise(moved - before, place)
            if place.time is not None:
                self.plots.add("kv_transfers", place.time, moved - before)

    def _responses(self, counts: Mapping[str, int], place: Place, head: Head) -> None:
        if failed := counts.get(SERVER_ERRORS, 0):
            lines = head.errors if isinstance(head, NumberedHead) else None
            first, last = map(self.place, lines) if lines else (place, place)
            self.errors = _risen(self.errors, failed, first, last)
            self.timeline.add(FAILURE, NOTE, ANSWERED_5XX, first, failed, until=last)
        if answered := counts.get("2xx", 0):
            self.answered = _risen(self.answered, answered, place, place)


def _risen(mark: Mark | None, by: float, first: Place, last: Place) -> Mark:
    if mark is None:
        return Mark(by, first, last)
    mark.rise(by, last)
    return mark


class WatchedSource(Source):
    """A source whose engines are watched, and whose events know their lines."""

    def __init__(self, name: str, *, year: int, month: int = 12, **settings: Any) -> None:
        self.watches: dict[int, Watch] = {}
        """By the identity of the engine."""
        super().__init__(name, year=year, month=month, **settings)

    def file(self, name: str) -> ResumableLog:
        known = name in self._files
        log = super().file(name)
        if not known:
            log.log = NumberedLog(*self._written)
        return log

    @property
    def numbered(self) -> NumberedLog:
        """Its only file."""
        log = self.file("").log
        assert isinstance(log, NumberedLog)
        return log

    def watch_of(self, engine: Engine) -> Watch:
        """How an engine fared."""
        return self.watches.get(id(engine)) or Watch(engine, self.clock)

    def _new_engine(self) -> Engine:
        engine = super()._new_engine()
        if len(self.watches) > 2 * CONTAINERS:  # of containers that were forgotten, as their names may be words of a user's
            there = {id(each) for each in self.engines.values()}
            self.watches = {key: each for key, each in self.watches.items() if key in there}
        watch = self.watches[id(engine)] = Watch(engine, self.clock)
        engine.watched_by(watch.after)
        return engine
