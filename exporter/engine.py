"""The state of one engine, made from its events in their order, and its metric samples."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.clock import EventClock
from exporter.counters import Counters, RequestSet, Sample
from exporter.interval import IntervalGauges, drafts
from exporter.jit import JitLedger
from exporter.known_bad import matches, version_of
from exporter.lifecycle import KNOWN_BAD, LifeCycle
from exporter.pd_evidence import PdEvidence
from exporter.verdict import BLOCK_TOKENS, ROLES, STATUSES, VERDICTS, PdSettings, judge, role_of, uncaught_load
from parsers import events
from parsers.header import Head
from parsers.nixl.native import EMITS
from parsers.rules import Series, registry
from parsers.stream import Found

_INFO = ("version", "model", "kv_connector", "kv_role", "kv_load_failure_policy", "spec_method", "kv_cache_dtype")
_CEILINGS = {
    "max_model_len": "max_model_len_tokens",
    "max_batched_tokens": "max_batched_tokens",
    "max_running_requests": "max_running_requests",
}
_DIMENSIONS = ("tp", "pp", "dp", "ep")
UNKNOWN_RUNTIME = "unknown"
_UNSET = frozenset({"", "auto", "None"})


class Engine:
    """One engine of one source."""

    def __init__(self, *, pd_role: str | None = None, pd_expect: str | None = None) -> None:
        """`pd_role` and `pd_expect` as configured for the source, None to learn the role from the log."""
        self._pd_role, self._pd_expect = pd_role, pd_expect
        self.counters = Counters()
        self.life = LifeCycle(self.counters)
        self.jit = JitLedger(self.counters)
        self.evidence = PdEvidence()
        self.gauges = IntervalGauges()
        self.settings: dict[str, str] = {}
        self._settings_complete = False
        self._observed: dict[str, str] = {}
        self._start_gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self._memory: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._compatible_ranks: dict[str, set[str]] = {}
        self._expired, self._late_reads = RequestSet(), RequestSet()
        self._dp_rank: dict[str, str] = {}
        self._totals: dict[str, float] = {}
        self._born: dict[str, str] = {}
        self.seen = False
        self._arrival: float | None = None
        family = self.counters.family
        self._spec_counters = [family(f"spec_{name}_total") for name in ("accepted_tokens", "draft_tokens", "drafts")]
        self._transfer_counters = [family(f"kv_transfer{name}_total") for name in ("s", "_bytes", "_seconds", "_post_seconds")]
        self._handlers = self._make_handlers()

    def _make_handlers(self) -> dict[type[object], Callable[..., None]]:
        return {
            events.EngineStarted: self._started,
            events.EngineSettings: self._set,
            events.EngineReady: self._ready,
            events.EngineStopping: lambda event, head: self.life.stop(),
            events.EngineFailure: self.life.fail,
            events.UncaughtException: lambda event, head: self.life.uncaught(head),
            events.Component: lambda event, head: self._at_start("component_info", 1, event.component, event.value),
            events.Hazard: self.life.hazard,
            events.PhaseFinished: self._phase_finished,
            events.MemoryReport: self._memory_report,
            events.KvCacheBytes: lambda event, head: self._at_start("kv_cache_size_bytes", event.bytes, head.origin.rank),
            events.KvCacheSize: self._kv_cache_size,
            events.IntervalStats: self._interval,
            events.PrefixHits: lambda event, head: self.gauges.prefix_hits(event),
            events.SpecInterval: self._spec_interval,
            events.SpecTotals: self._spec_totals,
            events.Preempted: self._preempted,
            events.KvTransferInterval: self._kv_transfers,
            events.KvTransferFailure: self._kv_failure,
            events.KvCompatibility: self._kv_compatibility,
            events.KvTransferPlan: lambda event, head: self._at_start("kv_transfer_plan_info", 1, *event),
            events.KvExpired: self._kv_expired,
            events.KvLateRead: self._kv_read_late,
            events.KvRecomputed: self._kv_recomputed,
            events.KvLoadFailed: self._kv_load_failed,
            events.KvLoadSkipped: self._kv_load_skipped,
            events.KvParamsRefused: self._kv_params_refused,
            events.KvPeerChanged: lambda event, head: self.evidence.peer_changed(),
            events.HybridKvCache: self._hybrid_kv_cache,
            events.TransportError: lambda event, head: self.counters.add("transport_errors_total", event.library),
            events.Compiled: lambda event, head: self.jit.compiled(event, head, self.life.phase),
            events.CompileBegan: lambda event, head: self.jit.began(event, head, self.life.phase),
            events.CompileEnded: lambda event, head: self.jit.ended(event, head, self.life.phase),
            events.CompileTook: self.jit.took,
            events.CompileCache: self.jit.cache,
            events.HttpResponses: self._responses,
        }

    def apply(self, found: Sequence[Found], arrival: float | None) -> None:
        """Take events in order. `arrival` is when they were written at the latest (epoch), None when reading a saved log."""
        self._arrival = self.gauges.arrival = arrival
        self.seen = self.seen or bool(found)
        handlers = self._handlers
        for event, head in found:
            handlers[type(event)](event, head)

    def judge_settings(self, runtime: str) -> None:
        """Look for known-bad combinations in what is known of the engine by now."""
        version = self.pd_settings().version
        if any(uncaught_load(self.evidence, version, period) for period in self.evidence.window()):
            self._observed["hybrid_kv_failed_load"] = "yes"
        for combination in matches(runtime, {**self.settings, **self._observed}):
            self.life.combination(combination)

    def born(self, runtime: str) -> None:
        """Let the counters that this runtime's rules can raise exist at 0, as far as their labels are known."""
        if runtime == UNKNOWN_RUNTIME:
            return
        known = {"dp_rank": "0", "connector": self._connector, "method": self._method, "version": self.settings.get("version", "")}
        if known == self._born:
            return
        self._born = known
        emits = [series for rule in registry() if rule.runtime in (runtime, "") for series in rule.emits]
        emits += [Series("http_responses_total", {"code": code}) for code in ("2xx", "3xx", "4xx", "5xx")]
        emits += [Series("jit_observed_total", {"seen_by": "log", "phase": phase}) for phase in ("startup", "serving")]
        for series in (*emits, *EMITS, Series("config_hazards_total", {"kind": KNOWN_BAD})):
            printed = not series.since or (version_of(known["version"]) or (0, 0)) >= (version_of(series.since) or (0, 0))
            if printed and series.labels.get("connector", self._connector) == self._connector:
                self.counters.create(series.family, {k: v for k, v in {**known, **series.labels}.items() if v})

    # -- settings and start-up -----------------------------------------------------------------------------------------

    @property
    def _connector(self) -> str:
        return connector_label(self.settings.get("kv_connector", ""))

    @property
    def _method(self) -> str:
        return self.settings.get("spec_method", "")

    def _started(self, event: events.EngineStarted, head: Head) -> None:
        if self.life.begin(event, head):
            self.settings.clear()
            self._settings_complete = False
            self._observed.clear()
            self._start_gauges.clear()
            self._memory.clear()
            self._compatible_ranks.clear()
            self._dp_rank.clear()
            self._totals.clear()
            self.gauges = IntervalGauges()
            self.gauges.arrival = self._arrival
            self.evidence = PdEvidence()
            self.jit.restart()
        self.settings["version"] = event.version
        for key, value in event.settings.items():
            if value not in _UNSET or key not in self.settings:
                self.settings[key] = value

    def _ready(self, event: events.EngineReady, head: Head) -> None:
        self.life.is_ready(head)
        self.evidence.ready(head)

    def _set(self, event: events.EngineSettings, head: Head) -> None:
        """The first word counts: later ones are about the draft model."""
        for key, value in event.values.items():
            if event.overrides or key not in self.settings:
                self.settings[key] = value
        self._settings_complete = self._settings_complete or event.complete

    def _at_start(self, family: str, value: float, *labels: str) -> None:
        self._start_gauges[family, labels] = value

    def _phase_finished(self, event: events.PhaseFinished, head: Head) -> None:
        self.life.finished(event, head)
        if event.memory:
            mine = self._memory.setdefault((head.origin.rank, event.memory.part), {}).setdefault(head.origin.who, [])
            if not head.origin.who:
                mine.clear()  # without a process name a second line may be another rank's
            mine.append(event.memory.bytes)

    def _memory_report(self, event: events.MemoryReport, head: Head) -> None:
        """A summary replaces what single phases told."""
        for part in event.parts:
            self._memory.setdefault((head.origin.rank, part.part), {})[head.origin.who] = [part.bytes]
        if event.kv_bytes is not None:
            self._at_start("kv_cache_size_bytes", event.kv_bytes, head.origin.rank)

    def _kv_cache_size(self, event: events.KvCacheSize, head: Head) -> None:
        if event.tokens is not None:
            self._at_start("kv_cache_size_tokens", event.tokens, head.origin.dp_rank, event.pool)
        if event.concurrency is not None and event.request_tokens is not None:
            self._at_start("kv_cache_max_concurrency", event.concurrency, head.origin.dp_rank)
            self.settings["max_model_len"] = f"{event.request_tokens:.0f}"

    # -- intervals -----------------------------------------------------------------------------------------------------

    def _interval(self, event: events.IntervalStats, head: Head) -> None:
        self._dp_rank[head.origin.who] = event.engine
        self.gauges.stats(event, head)
        self.evidence.interval(event, head)
        if event.generation_rate > 0 or event.running > 0:
            self.life.traffic(head, tokens=event.generation_rate > 0)

    def _follows(self, head: Head) -> str:
        """The engine of the periodic line before: lines that follow it carry no number."""
        return self._dp_rank.get(head.origin.who) or head.origin.dp_rank

    def _spec_interval(self, event: events.SpecInterval, head: Head) -> None:
        labels = (self._follows(head), self._method or "unknown")
        accepted, drafted, steps = self._spec_counters
        accepted[labels] += event.accepted
        drafted[labels] += event.drafted
        steps[labels] += drafts(event)
        self.gauges.spec(event, labels)

    def _spec_totals(self, event: events.SpecTotals, head: Head) -> None:
        labels = (self._follows(head), self._method or "unknown")
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
            seconds[labels] += transfers * event.mean_seconds
            if event.mean_post_seconds is not None:
                post_seconds[labels] += transfers * event.mean_post_seconds
            self.gauges.transfers(event, labels)
        else:
            self.counters.add("kv_transfer_empty_intervals_total", *labels)
        if event.failed is not None:
            self.counters.add("kv_transfer_reported_failures_total", *labels, by=event.failed)
        self.evidence.transfers(event)

    def _responses(self, event: events.HttpResponses, head: Head) -> None:
        for code, count in event.counts.items():
            self.counters.add("http_responses_total", code, by=count)
        self.evidence.responses(event.counts.get("2xx", 0))
        self.life.traffic(head, tokens=False)

    # -- prefill/decode ------------------------------------------------------------------------------------------------

    def _kv_failure(self, event: events.KvTransferFailure, head: Head) -> None:
        self.counters.add("kv_transfer_failures_total", event.connector, event.reason)
        self.evidence.failure(event)
        if event.loopback and event.reason == "handshake" and not self.evidence.succeeded:
            self._observed["nixl_side_channel"] = "loopback"

    def _kv_compatibility(self, event: events.KvCompatibility, head: Head) -> None:
        cause = head.parent
        if isinstance(cause, events.KvTransferFailure) and cause.reason != "handshake_setup":
            return  # the same text stands again in the record of each request that shared the handshake
        self.counters.add("kv_compatibility_checks_total", event.connector, event.result)
        if event.result == "passed":
            self._compatible_ranks.setdefault(event.connector, set()).add(head.origin.who)
        self.evidence.check(event, head)

    def _kv_expired(self, event: events.KvExpired, head: Head) -> None:
        if self._expired.is_new(event.request, head.time):
            self.counters.add("kv_expired_requests_total", event.connector)
            self.evidence.open.expired += 1

    def _kv_read_late(self, event: events.KvLateRead, head: Head) -> None:
        if self._late_reads.is_new(event.request, head.time):
            self.counters.add("kv_reads_after_expiry_total", event.connector)
            self.evidence.open.late_reads += 1

    def _kv_recomputed(self, event: events.KvRecomputed, head: Head) -> None:
        self.counters.add("kv_recomputed_requests_total", by=event.requests)
        self.counters.add("kv_recomputed_tokens_total", by=event.tokens)
        self.evidence.open.recomputed += event.requests

    def _kv_load_failed(self, event: events.KvLoadFailed, head: Head) -> None:
        self.counters.add("kv_load_failed_requests_total", by=event.requests)
        self.evidence.open.load_failed += event.requests

    def _kv_load_skipped(self, event: events.KvLoadSkipped, head: Head) -> None:
        self.evidence.skipped(event, head)

    def _kv_params_refused(self, event: events.KvParamsRefused, head: Head) -> None:
        self.evidence.open.params_refused += 1

    def _hybrid_kv_cache(self, event: events.HybridKvCache, head: Head) -> None:
        self.evidence.hybrid = True

    def pd_settings(self) -> PdSettings:
        """What the verdict needs to know of this engine."""
        kv_role = self.settings.get("kv_role")
        no_connector = self._settings_complete and not self.settings.get("kv_connector")
        role = role_of(self._pd_role, kv_role, no_connector=no_connector)
        expect = self._pd_expect or ("mixed" if kv_role == "kv_both" else "all")
        return PdSettings(
            role=role,
            expect_all=expect == "all",
            version=version_of(self.settings.get("version", "")),
            fails_on_load_error=self.settings.get("kv_load_failure_policy") == "fail",
            block_tokens=max(BLOCK_TOKENS, float(self.settings.get("block_size", "0"))),
            ranks=int(self.settings.get("tp", "1")),
            compares_hashes=self.settings.get("handshake_compat") != "off",
        )

    # -- samples -------------------------------------------------------------------------------------------------------

    def samples(self, clock: EventClock, now: float | None, log_now: float | None) -> Iterator[Sample]:
        """All series. `now` (epoch) expires gauges of periodic lines, None keeps them; `log_now` is the log's last time."""
        yield from self.counters.samples()
        yield from self.life.samples()
        yield from self.jit.samples(log_now)
        yield from self.gauges.samples(now)
        for (family, labels), value in self._start_gauges.items():
            yield Sample(family, labels, value)
        for (rank, part), processes in self._memory.items():
            yield Sample("engine_memory_bytes", (rank, part), max(map(sum, processes.values())))
        for connector, ranks in self._compatible_ranks.items():
            yield Sample("kv_compatible_ranks", (connector,), len(ranks))
        yield from self._settings_samples()
        yield from self._verdict_samples(log_now)
        yield from self._time_samples(clock)

    def _settings_samples(self) -> Iterator[Sample]:
        settings = self.settings
        model = settings.get("model") or settings.get("model_path", "")
        if settings.get("version") or model or settings.get("kv_connector"):
            values = {**settings, "model": model}
            yield Sample("engine_info", (*(values.get(name, "") for name in _INFO), settings_hash(settings)), 1)
        for key, family in _CEILINGS.items():
            if key in settings:
                yield Sample(family, (), float(settings[key]))
        for dimension in _DIMENSIONS:
            if dimension in settings:
                yield Sample("engine_parallel_size", (dimension,), float(settings[dimension]))
        if "draft_length" in settings and self._method:
            yield Sample("spec_draft_length", (self._method,), float(settings["draft_length"]))

    def _verdict_samples(self, log_now: float | None) -> Iterator[Sample]:
        settings = self.pd_settings()
        verdict, checks = judge(self.evidence, settings, log_now)
        for role in ROLES:
            yield Sample("pd_role", (role,), role == settings.role)
        for each in VERDICTS:
            yield Sample("pd_verdict", (each,), each == verdict)
        for check, status in checks.items():
            for each in STATUSES:
                yield Sample("pd_evidence", (check, each), each == status)

    def _time_samples(self, clock: EventClock) -> Iterator[Sample]:
        times: list[tuple[str, tuple[str, ...], Head | None]] = [
            ("engine_start_timestamp_seconds", (), self.life.started),
            ("engine_ready_timestamp_seconds", (), self.life.ready),
            *(("stats_timestamp_seconds", (dp_rank,), head) for dp_rank, head in self.gauges.last.items()),
            *(("jit_last_event_timestamp_seconds", labels, head) for labels, head in self.jit.last.items()),
        ]
        for family, labels, head in times:
            if head is not None and (at := clock.epoch(head)) is not None:
                yield Sample(family, labels, at)


def connector_label(name: str) -> str:
    """The `connector` label of a configured connector; empty for one that holds others."""
    short = re.match(r"(?!Multi)(Nixl|Mooncake|MoRIIO|LMCache|Offloading|HF3FS|P2pNccl)", name)
    return short[1].lower() if short else ""


def settings_hash(settings: Mapping[str, str]) -> str:
    """Eight hexadecimal digits that differ when a known setting does; the version and the model's name are labels already."""
    text = "\n".join(f"{key}={value}" for key, value in sorted(settings.items()) if key not in ("version", "model", "model_path"))
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
