"""The state of one engine, made from its events in their order, and its metric samples."""

import math
from collections.abc import Callable, Iterator, Sequence

from exporter.capacity import Capacity
from exporter.clock import EventClock
from exporter.counters import Counters, Digest, Sample
from exporter.evidence.engine_side import EngineWitnesses
from exporter.faults import Faults
from exporter.format_drift import Seen, hearing
from exporter.gateway import GATEWAYS, Gateway, series_of
from exporter.history import Portrait
from exporter.interval import IntervalGauges, drafts
from exporter.jit import JitLedger
from exporter.jit_incidents import PERIODS, JitIncidents
from exporter.known_bad import matches, version_of
from exporter.lifecycle import KNOWN_BAD, LifeCycle
from exporter.pair import PairHandlers
from exporter.pd_evidence import PdEvidence
from exporter.settings import Settings
from exporter.sglang import SGLANG, SglangHandlers
from exporter.standing import Standing
from exporter.verdict import UNCONFIGURED, PairSettings
from parsers import events
from parsers.header import Head
from parsers.matching import Found
from parsers.nixl.native import EMITS
from parsers.rules import Series, registry
from parsers.units import label

UNKNOWN_RUNTIME = "unknown"
LOG_LEVEL_TOO_HIGH = "log_level_too_high"
_ENOUGH_ANSWERS = 20
# The first vLLM that may print a field, for logs whose start lines are lost.
_NIXL_TELLS_FAILURES = (0, 31)
_TELLS_OF_FETCHES = (0, 27)
_TELLS_OF_DEFERRED = (0, 19)


class Engine(PairHandlers, SglangHandlers):
    """One engine of one source."""

    STATE = (
        "counters",
        "life",
        "jit",
        "capacity",
        "settings",
        "gauges",
        "evidence",
        "standing",
        "dropped_series",
        "seen",
        "_runtime",
        "_expired",
        "_late_reads",
        "_observed",
        "_dp_rank",
        "_totals",
        "_answered_since_ready",
        "_told",
        "gateway",
        "witnesses",
    )

    def __init__(self, faults: Faults, digest: Digest, pair: PairSettings = UNCONFIGURED) -> None:
        self._faults = faults
        self.pair = pair
        """What the configuration says of the engine's part in a pair."""
        self._runtime = UNKNOWN_RUNTIME
        self.counters = Counters()
        self.digest = digest
        self.life = LifeCycle(self.counters, self.digest)
        self.jit = JitLedger(self.counters, JitIncidents(self.counters, self.life))
        self.capacity = Capacity()
        self.gateway = Gateway(self.counters, self.digest)
        self.witnesses = EngineWitnesses(self.counters)
        self.dropped_series = 0
        self.seen = False
        super().__init__()
        self._born: dict[str, str] = {}
        self._arrival: float | None = None
        self._forget()
        family = self.counters.family
        self._spec_counters = [family(f"spec_{name}_total") for name in ("accepted_tokens", "draft_tokens", "drafts")]
        self._transfer_counters = [family(f"kv_transfer{name}_total") for name in ("s", "_bytes", "_seconds", "_post_seconds")]
        self._response_counter = family("http_responses_total")
        self._handlers = hearing(lambda: self.life.drift, self.life.history.noting(self._make_handlers()))

    def _forget(self) -> None:
        """Another process takes the place of the one before: only counters go on."""
        self.settings = Settings()
        self.capacity.forget()
        self.gauges = IntervalGauges()
        self.gauges.arrival = self._arrival
        self.evidence = PdEvidence(self.digest)
        self.standing = Standing()
        self.jit.restart()
        self.witnesses.restart()
        self._observed: dict[str, str] = {}
        self._dp_rank: dict[str, str] = {}
        self._totals: dict[str, float] = {}
        self._answered_since_ready = -math.inf
        self.life.startup.began.clear()
        self._told.judged.clear()

    def _make_handlers(self) -> dict[type[object], Callable[..., None]]:
        return {
            events.EngineStarted: self._started,
            events.ContainerStarted: self._container_started,
            events.EngineSettings: self._told_settings,
            events.EngineReady: self._ready,
            events.EngineStopping: lambda event, head: self.life.stop(),
            events.EngineFailure: self._failed,
            events.AddressInUse: self._address_in_use,
            events.UncaughtException: lambda event, head: self.life.uncaught(head),
            events.Hazard: self.life.hazard,
            events.PhaseFinished: self._phase_finished,
            events.PhaseBegan: lambda event, head: self.life.startup.begin(event.phase, head),
            events.DraftCaptureBegan: lambda event, head: self.life.startup.begin_untimed("graph_capture_draft", head),
            events.Component: self._component,
            events.MemoryReport: self.capacity.memory_report,
            events.KvCacheBytes: self.capacity.kv_cache_bytes,
            events.KvCacheSize: self._kv_cache_size,
            events.KvTransferPlan: self.capacity.kv_transfer_plan,
            events.KvTransports: self.capacity.kv_transports,
            events.IntervalStats: self._interval,
            events.PrefixHits: lambda event, head: self.gauges.prefix_hits(event),
            events.SpecInterval: self._spec_interval,
            events.SpecTotals: self._spec_totals,
            events.Preempted: self._preempted,
            events.KvTransferInterval: self._kv_transfers,
            events.KvMoved: self._kv_moved,
            events.KvTransferIntervals: self._kv_transfers_of_several,
            **self._pair_handlers(),
            events.TransportError: lambda event, head: self.counters.add("transport_errors_total", event.library),
            events.Unread: self._unread,
            events.Compiled: lambda event, head: self.jit.compiled(event, head, self.life.phase),
            events.CompileBegan: self._compile_began,
            events.CompileEnded: self._compile_ended,
            events.CompileFailed: self.jit.failed,
            events.CompilerSeen: lambda event, head: self.jit.seen(self.life.phase),
            events.CompileTook: self.jit.took,
            events.CompileCache: self.jit.cache,
            events.HttpResponses: self._responses,
            **self._sglang_handlers(),
            **self.gateway.handlers(),
        }

    def watched_by(self, after: Callable[[events.Event, Head], None]) -> None:
        """Let `after` look at the engine behind each event that it takes; nobody does so in a daemon."""

        def watched(handle: Callable[..., None]) -> Callable[..., None]:
            def handle_and_show(event: events.Event, head: Head) -> None:
                handle(event, head)
                after(event, head)

            return handle_and_show

        self._handlers = {kind: watched(handle) for kind, handle in self._handlers.items()}

    def apply(self, found: Sequence[Found], arrival: float | None, runtime: str) -> None:
        """Take events in order. `arrival` is when they were written at the latest (epoch), None when reading a saved log."""
        self._runtime = runtime
        self._arrival = self.gauges.arrival = arrival
        self.seen = self.seen or bool(found)
        handlers, life, jit = self._handlers, self.life, self.jit
        for event, head in found:
            if jit.awaited is None or jit.awaited or life.state != "serving":  # the most frequent answer of is_up without a call
                jit.follow(head.time, up=life.is_up)
            try:
                unjudged = self.standing.unjudged
                if unjudged and head.time != unjudged.time:
                    self._settle_before(head)
                handlers[type(event)](event, head)
                if self.evidence.changed:
                    self.evidence.changed, self.standing.unjudged = False, head
            except Exception as error:  # noqa: BLE001 - one event that we cannot take must not cost the others
                self._faults.note(error)
        if found:
            jit.follow(found[-1][1].time, up=life.is_up)
        self._bear()
        self.dropped_series += self.counters.trim() + self.capacity.trim() + self.gauges.trim()

    def _bear(self) -> None:
        """Let the counters that this runtime's rules can raise exist at 0, as far as their labels are known."""
        if self._runtime == UNKNOWN_RUNTIME:
            return
        if self._runtime in GATEWAYS:
            for series in () if self._born else series_of(self._runtime):
                self.counters.create(series.family, series.labels)
            self._born = {"runtime": self._runtime}
            return
        connector, version = self.settings.connector, self.settings.values.get("version", "")
        known = {"dp_rank": "0", "connector": connector, "method": self.settings.method, "version": version}
        if known == self._born:
            return
        self._born = known
        emits = [series for rule in registry() if rule.runtime in (self._runtime, "") for series in rule.emits]
        emits += [Series("http_responses_total", {"code": code}) for code in ("2xx", "3xx", "4xx", "5xx")]
        emits += [Series("jit_observed_total", {"seen_by": "log", "phase": phase}) for phase in ("startup", "serving")]
        emits += [Series("jit_incidents_total", {"period": period}) for period in PERIODS]
        emits += [Series("config_hazards_total", {"kind": kind}) for kind in (KNOWN_BAD, LOG_LEVEL_TOO_HIGH)]
        for series in (*emits, *EMITS):
            printed = not series.since or (version_of(version) or (0, 0)) >= (version_of(series.since) or (0, 0))
            if printed and series.labels.get("connector", connector) == connector:
                self.counters.create(series.family, {k: v for k, v in {**known, **series.labels}.items() if v})

    def _unread(self, event: events.Unread, head: Head) -> None:
        self.life.drift.note(event, head)  # of this process: the next one has another

    # -- settings and start-up -----------------------------------------------------------------------------------------

    def _started(self, event: events.EngineStarted, head: Head) -> None:
        before = self.portrait()
        if self.life.begin(event, head):
            self.life.history.ended(before)
            self._forget()
        self.settings.started(event)
        self._settings_changed()

    def _container_started(self, event: events.ContainerStarted, head: Head) -> None:
        before = self.portrait()
        if self.life.container_started():
            self.life.history.ended(before)
            self._forget()

    def portrait(self) -> Portrait:
        """The process as it is now, for comparing it with others."""
        settings = {key: label(value) for key, value in self.settings.values.items() if key != "version"}
        version = self.settings.values.get("version", "")
        return Portrait(version, settings, self.capacity.pools(), self.life.phase_seconds(), self.life.state)

    def _ready(self, event: events.EngineReady, head: Head) -> None:
        if self.life.warmup_failed:
            return  # printed all the same, while health checks are refused
        if self.life.state in ("stopped", "failed"):  # another process says so, whose start lines are not in the log
            self.evidence, self.standing = PdEvidence(self.digest), Standing()
            self.witnesses.restart()
            self._pair_settings_changed()
        self.life.is_ready(head)
        self.evidence.ready(head)
        self._answered_since_ready = 0.0

    def _failed(self, event: events.EngineFailure, head: Head) -> None:
        if event.kind == "hang" and self.jit.open(head.time):
            return  # the complaint itself says that a compile is such a time; it comes again each minute if it was something else
        self.life.fail(event, head)

    def _address_in_use(self, event: events.AddressInUse, head: Head) -> None:
        if self.life.phase == "startup":
            self.life.fail(events.EngineFailure("startup_failed"), head)

    def _told_settings(self, event: events.EngineSettings, head: Head) -> None:
        self.settings.told(event)
        if event.values.get("stats") == "off":
            self.life.hazard(events.Hazard("stats_disabled"), head)
        self._settings_changed()

    def _phase_finished(self, event: events.PhaseFinished, head: Head) -> None:
        self.jit.goes_on(head)
        if event.phase.startswith("graph_capture") and self.life.phase == "serving" and self._runtime == SGLANG:
            self.jit.compiled(events.Compiled("cudagraph", "capture", event.phase, event.seconds), head, "serving")
            return
        self.life.finished(event, head, alone=self.settings.alone)
        if event.phase == "graph_capture":
            self._end_phase("graph_capture_draft", head)
        self.capacity.free_memory(event.free, head)
        if event.memory:
            self.capacity.phase_memory(event.memory, head, alone=self.settings.alone)

    def _component(self, event: events.Component, head: Head) -> None:
        self.capacity.component(event, head)
        if event.component == "model_runner":
            self.life.startup.begin("load_weights", head)  # the second runner says no more before it loads

    def _end_phase(self, phase: str, head: Head) -> None:
        seconds = self.life.startup.end_untimed(phase, head)
        if seconds is not None:
            self.life.finished(events.PhaseFinished(phase, seconds), head, alone=self.settings.alone)

    def _compile_began(self, event: events.CompileBegan, head: Head) -> None:
        self.jit.began(event, head, self.life.phase)
        if event.event == "autotune" and self.life.phase == "startup":
            self.life.startup.begin_untimed("autotune", head)

    def _compile_ended(self, event: events.CompileEnded, head: Head) -> None:
        self.jit.ended(event, head, self.life.phase)
        if event.event == "autotune" and self.life.phase == "startup":
            self._end_phase("autotune", head)

    def _kv_cache_size(self, event: events.KvCacheSize, head: Head) -> None:
        self.capacity.kv_cache_size(event, head)
        self.settings.kv_cache(event)

    def _settings_changed(self) -> None:
        self.jit.ranks = self.settings.ranks
        self._pair_settings_changed()
        self._look_for_known_bad()

    @property
    def may_be_terse(self) -> bool:
        """Whether enough was answered to judge by; asked first, as a source may have thousands of files."""
        return self._answered_since_ready >= _ENOUGH_ANSWERS and self.life.ready is not None

    def judge_log_level(self, levels: set[str]) -> None:
        """Look for an engine that serves and never said a word at INFO, which most signals are. `levels` are those it used."""
        if self._answered_since_ready >= _ENOUGH_ANSWERS and self.life.ready and self._is_terse(levels):
            self._answered_since_ready = -math.inf  # once a process
            self.life.hazard(events.Hazard(LOG_LEVEL_TOO_HIGH), self.life.ready)

    def _is_terse(self, levels: set[str]) -> bool:
        """Whether an engine that used these levels keeps silent about what it does; SGLang then says nothing at all."""
        return bool(levels or self._runtime == SGLANG) and not levels & {"INFO", "DEBUG"}

    def _look_for_known_bad(self) -> None:
        """Compare what is known of the process by now with the known-bad combinations."""
        for combination in matches(self._runtime, {**self.settings.values, **self._observed}):
            self.life.combination(combination)

    # -- intervals -----------------------------------------------------------------------------------------------------

    def _interval(self, event: events.IntervalStats, head: Head) -> None:
        self._dp_rank[head.origin.who] = event.engine
        if event.generation_rate > 0:
            self.witnesses.tokens_at = self._arrival
        before = self.gauges.stats(event, head)
        if event.kv_fetch is not None or event.deferred is not None:
            self.settings.is_since(_TELLS_OF_DEFERRED if event.kv_fetch is None else _TELLS_OF_FETCHES)
        self._wake(head)
        self.evidence.interval(event, head)
        if self.evidence.closed and self.evidence.closed[-1].skipped:
            self._look_for_uncaught_loads()
        state = self.life.state
        # An idle engine prints none, so that any such line tells of an engine at work.
        if state != "serving" and (event.generation_rate > 0 or event.running > 0 or state == "unknown"):
            self.life.traffic(head, tokens=event.generation_rate > 0, before=before)

    def _follows(self, head: Head) -> str:
        """The engine of the periodic line before: lines that follow it carry no number."""
        return self._dp_rank.get(head.origin.who) or head.origin.dp_rank

    def _spec_interval(self, event: events.SpecInterval, head: Head) -> None:
        labels = (self._follows(head), self.settings.method or "unknown")
        accepted, drafted, steps = self._spec_counters
        accepted[labels] += event.accepted
        drafted[labels] += event.drafted
        steps[labels] += drafts(event)
        self.gauges.spec(event, labels)

    def _spec_totals(self, event: events.SpecTotals, head: Head) -> None:
        labels = (self._follows(head), self.settings.method or "unknown")
        accepted, drafted, _ = self._spec_counters
        accepted[labels] += self._since("accepted", event.accepted)
        drafted[labels] += self._since("drafted", event.drafted)
        self.gauges.spec(events.SpecInterval(event.accepted, event.drafted, None, event.ratio), labels)

    def _preempted(self, event: events.Preempted, head: Head) -> None:
        self.counters.add("requests_preempted_total", self._follows(head), by=self._since("preempted", event.total))

    def _since(self, what: str, total: float) -> float:
        """What a total of the engine's rose by; a fall is a reset, and the first value counts from 0."""
        before = self._totals.get(what, 0.0)
        self._totals[what] = total
        return total - before if total >= before else total

    def _kv_transfers(self, event: events.KvTransferInterval, head: Head) -> None:
        labels = (self._follows(head), event.connector)
        transfers = event.transfers
        if transfers > 0:
            number, size, seconds, post_seconds = self._transfer_counters
            number[labels] += transfers
            size[labels] += transfers * event.mean_bytes
            self.witnesses.rdma.moved(head.time, transfers * event.mean_bytes)
            seconds[labels] += transfers * event.mean_seconds
            if event.mean_post_seconds is not None:
                post_seconds[labels] += transfers * event.mean_post_seconds
            self.gauges.transfers(event, labels)
        else:
            self.counters.add("kv_transfer_empty_intervals_total", *labels)
        if event.failed is not None:
            self.counters.add("kv_transfer_reported_failures_total", *labels, by=event.failed)
            if event.connector == "nixl":
                self.settings.is_since(_NIXL_TELLS_FAILURES)
        self.evidence.transfers(event, labels[0])
        if self.life.state == "unknown":
            self.life.traffic(head, tokens=False)  # printed by an engine that has served

    def _kv_transfers_of_several(self, event: events.KvTransferIntervals, head: Head) -> None:
        for part in event.parts:
            if isinstance(part, events.KvMoved):
                self._kv_moved(part, head)
            else:
                self._kv_transfers(part, head)

    def _kv_moved(self, event: events.KvMoved, head: Head) -> None:
        """A store's interval: no evidence of a pair."""
        labels = (self._follows(head), event.connector)
        for family, value in (
            ("kv_transfers_total", event.transfers),
            ("kv_transfer_seconds_total", event.seconds),
            ("kv_transfer_bytes_total", event.bytes),
            ("kv_transfer_reported_failures_total", event.failed),
        ):
            if value is not None:
                self.counters.add(family, *labels, by=value)

    def _responses(self, event: events.HttpResponses, head: Head) -> None:
        for code, count in event.counts.items():
            self._response_counter[(code,)] += count
        answered = event.counts.get("2xx", 0)
        self._wake(head)
        self.evidence.responses(event.generated, head.time)
        self._answered_since_ready += answered
        if self._runtime == SGLANG:
            self._told.probes.requests()
            if self.life.state == "starting" and not (self.life.warmup_failed and answered):
                return  # the engine's own first request
            if self.life.state == "unknown":
                self._answered_since_ready = answered  # nothing tells when it was ready
        tokens = answered > 0 and not self.gauges.last  # without periodic lines, answers are all there is
        if tokens:
            self.witnesses.tokens_at = self._arrival
        if tokens or self.life.state != "serving":  # else there is nothing to learn from it
            self.life.traffic(head, tokens=tokens)

    # -- samples -------------------------------------------------------------------------------------------------------

    def samples(self, clock: EventClock, now: float | None, log_now: float | None) -> Iterator[Sample]:
        """All series. `now` (epoch) expires gauges of periodic lines, None keeps them; `log_now` is the log's last time."""
        if self._runtime in GATEWAYS:
            yield from self.counters.samples()
            yield from self.gateway.samples(log_now, mixed=self.pair.expect == "mixed")
            return
        seen = self._seen(log_now)
        yield from seen.take(self._engine_samples(clock, now, log_now))
        yield from self.life.drift.samples(seen, log_now)

    def _seen(self, log_now: float | None) -> Seen:
        """What decides which signals were due."""
        ready = self.life.ready.time if self.life.ready and self.life.is_up else None
        return Seen(
            runtime=self._runtime,
            version=self.settings.version,
            started=self.life.started is not None,
            observed=self.life.ready_observed,
            core=self.life.core_started,
            role=self.settings.role(self.pair.role),
            connector=self.settings.connector,
            method=self.settings.method,
            answers=self._answered_since_ready,
            served=log_now - ready if log_now is not None and ready is not None else 0.0,
            heard=self.life.drift.heard,
        )

    def _engine_samples(self, clock: EventClock, now: float | None, log_now: float | None) -> Iterator[Sample]:
        yield from self.counters.samples()
        yield from self.life.samples()
        yield from self.jit.samples(log_now)
        yield from self.jit.incidents.samples(log_now)
        yield from self.gauges.samples(now)
        yield from self.capacity.samples()
        yield from self.settings.samples()
        yield from self._verdict_samples(clock, now, log_now)
        yield from self._time_samples(clock)

    def _time_samples(self, clock: EventClock) -> Iterator[Sample]:
        times: list[tuple[str, tuple[str, ...], Head | None]] = [
            ("engine_start_timestamp_seconds", (), self.life.started),
            ("engine_ready_timestamp_seconds", (), self.life.ready),
            ("engine_phase_start_timestamp_seconds", (), self.life.startup.since if self.life.state == "starting" else None),
            *(("stats_timestamp_seconds", (dp_rank,), head) for dp_rank, head in self.gauges.last.items()),
            *(("jit_incident_timestamp_seconds", (period,), head) for period, head in self.jit.incidents.last.items()),
        ]
        for family, labels, head in times:
            if head is not None and (at := clock.epoch(head)) is not None:
                yield Sample(family, labels, at)
        compiles = {labels: at for labels, head in self.jit.last.items() if (at := clock.epoch(head)) is not None}
        yield from self.witnesses.last_compiles(compiles)
