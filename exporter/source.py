"""One source: its files as logs, the engines that write them, and all samples of the two."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from exporter.clock import EventClock
from exporter.counters import Digest, Sample
from exporter.engine import UNKNOWN_RUNTIME, Engine
from exporter.evidence.engine_side import Finding
from exporter.exposition import SourceSnapshot
from exporter.faults import Faults
from exporter.gateway import GATEWAYS
from exporter.jit_incidents import WARMUP_GRACE_SECONDS
from exporter.patterns import Patterns
from exporter.verdict import PairSettings
from exporter.worker_files import origin_of, told_by
from parsers.log import CONTAINERS, Counts, added
from parsers.matching import Found
from parsers.resume import ResumableLog

_LINES_OF_NOBODY = 1000
"""A log that says so much and not of which engine it is will never tell."""

_BARE = "bare"
"""The suffix of an engine without a container's name beside others that have one."""


_HEAD, _CONTAINER = itemgetter(1), attrgetter("container")


class NamedEngine(NamedTuple):
    """An engine by the name that its series have as `source`."""

    name: str
    runtime: str
    engine: Engine


class Source:
    """What the user names: one log or several, and the engine that writes them.

    Where a log's prefixes name several containers with engines, each of these is a sub-source with a suffix to the name.
    """

    STATE = (
        "clock",
        "faults",
        "digest",
        "known_engines",
        "runtime",
        "_runtimes",
        "_names",
        "_past",
        "_last_time",
        "_last_arrival",
        "_time_is_new",
    )

    def __init__(
        self,
        name: str,
        *,
        year: int,
        month: int = 12,
        pd_role: str | None = None,
        pd_expect: str | None = None,
        warmup_grace: float = WARMUP_GRACE_SECONDS,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`year` and `month` are those of the last line, for headers without a year; `labels` are static."""
        self.name = name
        self.labels = dict(labels or {})
        self.clock = EventClock()
        self.faults = Faults(name)
        self.digest = Digest()
        """Hides what users wrote from everything that outlives the line."""
        self.engines: defaultdict[str, Engine] = defaultdict(self._new_engine)
        """By container, `""` where no prefix names one."""
        self.runtime = UNKNOWN_RUNTIME
        """The engine that spoke first, as soon as a line tells."""
        self._runtimes: dict[str, str] = {}
        """By container, as soon as a line tells."""
        self._names: dict[str, str] = {}
        """What the name of a container's sub-source ends in. Once shown, it stays."""
        self._pair, self._warmup_grace = PairSettings(pd_role, pd_expect), warmup_grace
        self._written = (year, month)
        self.patterns = Patterns()
        self._files: dict[str, ResumableLog] = {}
        self._past: Counts = {}
        self._last_time: float | None = None
        self._last_arrival: float | None = None
        self._time_is_new = False

    def configure(
        self, labels: Mapping[str, str], *, pair: PairSettings, zone: float | None, warmup_grace: float = WARMUP_GRACE_SECONDS
    ) -> None:
        """Take settings while it runs; `zone` is seconds east of UTC, None to learn it."""
        self.labels = dict(labels)
        self.clock.given = zone
        self._pair, self._warmup_grace = pair, warmup_grace
        for engine in self.engines.values():
            engine.configure(pair)
            engine.jit.incidents.grace_seconds = warmup_grace

    def _new_engine(self) -> Engine:
        engine = Engine(self.faults, self.digest, self._pair)
        engine.jit.incidents.grace_seconds = self._warmup_grace
        return engine

    @property
    def engine(self) -> Engine:
        """The engine of lines that name no container."""
        return self.engines[""]

    @property
    def known_engines(self) -> defaultdict[str, Engine]:
        """Those that outlive the process: what stands in the place of a container's name may be a word of a user's."""
        known = {container: engine for container, engine in self.engines.items() if not container or container in self._runtimes}
        return defaultdict(self._new_engine, known)

    @known_engines.setter
    def known_engines(self, engines: defaultdict[str, Engine]) -> None:
        self.engines = engines

    def file(self, name: str) -> ResumableLog:
        """What is known of a file."""
        log = self._files.get(name)
        if log is None:
            log = self._files[name] = ResumableLog(*self._written, self.patterns)
        return log

    def feed(self, data: bytes, arrival: float | None = None, file: str = "") -> list[Found]:
        """Read bytes of a file and take their events. `arrival` as in `apply`."""
        return self.apply(self.parse(data, arrival, file), arrival)

    def end_of_file(self, file: str = "") -> list[Found]:
        """Another file takes a file's place: its last line is complete without a line break."""
        return self.apply(self.parse_end(file), None)

    def parse(self, data: bytes, arrival: float | None, file: str) -> list[Found]:
        """The events of bytes of a file, not applied yet."""
        resumable = self.file(file)
        before = resumable.log.last_time
        found = resumable.feed(data)
        time = resumable.log.last_time
        self._time_is_new = time != before
        if self._time_is_new:
            self._last_time, self._last_arrival = time, arrival
        self._learn_runtimes(resumable)
        return told_by(origin_of(file), found)

    def parse_end(self, file: str) -> list[Found]:
        """The events of a last line, not applied yet."""
        resumable = self._files.get(file)
        if resumable is None:
            return []
        found = resumable.close()
        self._learn_runtimes(resumable)
        return told_by(origin_of(file), found)

    def _learn_runtimes(self, resumable: ResumableLog) -> None:
        for container, stream in resumable.log.streams.items():
            if stream.runtime and container not in self._runtimes and (engine := self._engine(container)):
                self._runtimes[container] = stream.runtime
                engine.apply([], None, stream.runtime)  # what it can count is there from now on
        if self.runtime == UNKNOWN_RUNTIME:
            self.runtime = next(iter(self._runtimes.values()), UNKNOWN_RUNTIME)

    def apply(self, found: list[Found], arrival: float | None) -> list[Found]:
        """Take events in their order. `arrival` is when they were written at the latest (epoch), None for a saved log."""
        for container, run in _runs(found):
            engine = self._engine(container)
            if engine is None:
                continue
            engine.apply(run, arrival, self._runtimes.get(container, UNKNOWN_RUNTIME))
            if engine.may_be_terse:
                streams = [log.log.streams[container] for log in self._files.values() if container in log.log.streams]
                engine.judge_log_level(set().union(*(stream.own_levels for stream in streams)))
        return found

    def _engine(self, container: str) -> Engine | None:
        """The engine of a container, None where there are too many: several files may name others each."""
        if container not in self.engines and len(self.engines) > CONTAINERS:
            gone = next((each for each in self.engines if each and each not in self._runtimes), None)
            if gone is None:
                return None
            del self.engines[gone]
        return self.engines[container]

    def witness(self, found: Sequence[Finding], seen_by: Iterable[str], now: float | None = None) -> None:
        """Take what other witnesses found about the engine, if there is just one; `seen_by` are those that look for compiles.

        A gateway beside it is none that they could mean: it has no figures, caches or compilers.
        """
        engines = [self.engines[each] for each, runtime in self._runtimes.items() if each in self.engines and runtime not in GATEWAYS]
        if len(engines) != 1:
            return
        for each in seen_by:
            engines[0].witnesses.silent_jit.born(each)
        if found:
            engines[0].witness(found, self.clock, now, self.log_time(now))

    def learn_zone(self, now: float) -> None:
        """What was parsed last was written just now (epoch)."""
        if self._time_is_new:
            self.clock.learn(self._last_time, now)

    def forget_file(self, file: str) -> None:
        """A file is followed no more: what was counted in it stays."""
        self.end_of_file(file)
        if log := self._files.pop(file, None):
            self._past = added(self._past, log.log.counts())

    def log_time(self, now: float | None) -> float | None:
        """The time by the log's clock: the last that it printed, and what has passed since that was written."""
        if self._last_time is None or now is None or self._last_arrival is None:
            return self._last_time
        return self._last_time + max(0.0, now - self._last_arrival)

    def named_engines(self) -> list[NamedEngine]:
        """The engines that there are; the one that is expected while none has said a word."""
        self._name_engines()
        return [
            NamedEngine(
                f"{self.name}/{suffix}" if suffix else self.name, self._runtimes.get(container, UNKNOWN_RUNTIME), self.engines[container]
            )
            for container, suffix in self._names.items()
        ] or [NamedEngine(self.name, self.runtime, self._new_engine())]

    def snapshots(self, now: float | None) -> list[SourceSnapshot]:
        """All series, by name. `now` (epoch) expires gauges of periodic lines, None keeps them."""
        found = [SourceSnapshot(self.name, self.runtime, self.labels, self.samples(now))]
        for container, suffix in self._names.items():
            if suffix:
                samples = self.engines[container].samples(self.clock, now, self.log_time(now))
                found.append(SourceSnapshot(f"{self.name}/{suffix}", self._runtimes.get(container, UNKNOWN_RUNTIME), self.labels, samples))
        return found

    def samples(self, now: float | None) -> Iterator[Sample]:
        """The series under the source's own name: its lines', and an engine's unless there are several."""
        self._name_engines()
        yield from self.own_samples()
        lines = list(self._line_samples())
        known = self.runtime != UNKNOWN_RUNTIME
        # A series that is shown keeps its labels: while the log is new, its next line may tell whose it is.
        if not known and now is not None and sum(each.value for each in lines) < _LINES_OF_NOBODY:
            return
        yield from lines
        for container, suffix in self._names.items():
            if not suffix:
                yield from self.engines[container].samples(self.clock, now, self.log_time(now))

    @property
    def names_given(self) -> int:
        """How many engines have a name: one that was shown must be saved."""
        return len(self._names)

    def _name_engines(self) -> None:
        """The only engine needs no suffix."""
        seen = [container for container, engine in self.engines.items() if engine.seen]
        new = [container for container in self._runtimes if container not in self._names] or [each for each in seen if not self._names]
        if "" in new and len(self._runtimes) > 1 and not self.engines[""].life.started:
            new.remove("")  # lines of the others that lost their prefix
        alone = not self._names and len(new) == 1
        for container in new:
            self._names[container] = "" if alone else container or _BARE

    def own_samples(self) -> Iterator[Sample]:
        """What inferlog could not take."""
        yield Sample("source_faults_total", (), self.faults.count)
        yield Sample("series_dropped_total", (), sum(engine.dropped_series for engine in self.engines.values()))

    def _line_samples(self) -> Iterator[Sample]:
        """Over the files that are followed and those that were."""
        total = self._past
        for log in self._files.values():
            total = added(total, log.log.counts())
        for family, counts in total.items():
            for label, count in counts.items():
                yield Sample(family, (label,) if label else (), count)


def _runs(found: list[Found]) -> Iterator[tuple[str, list[Found]]]:
    """Events in their order, those in a row that are of the same container together."""
    containers = set(map(_CONTAINER, map(_HEAD, found)))
    if len(containers) == 1:  # nearly always, and a question for each event costs as much as some of them
        yield containers.pop(), found
        return
    for container, run in groupby(found, lambda each: each[1].container):
        yield container, list(run)
