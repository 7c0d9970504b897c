"""What an engine does with the events about its part in a prefill/decode pair, and the verdict on it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from exporter.capacity import Capacity
from exporter.clock import EventClock
from exporter.counters import Counters, Digest, RequestSet, Sample
from exporter.evidence.engine_metrics import EngineReading
from exporter.evidence.engine_side import EngineWitnesses, Finding
from exporter.evidence.sightings import Sighting
from exporter.faults import Faults
from exporter.history import moment_of
from exporter.jit import JitLedger
from exporter.lifecycle import LifeCycle
from exporter.pd_evidence import PdEvidence
from exporter.settings import Settings
from exporter.standing import Standing
from exporter.verdict import (
    IDLE,
    NOT_DISAGGREGATED,
    SAY_LITTLE,
    Judgement,
    PairSettings,
    PdSettings,
    judge,
    local_prefill_ratio,
    uncaught_load,
)
from parsers import events
from parsers.header import NOBODY, UNKNOWN_LEVEL, Head


class PairHandlers(ABC):
    """The part of an engine that takes evidence."""

    counters: Counters
    digest: Digest
    life: LifeCycle
    jit: JitLedger
    capacity: Capacity
    evidence: PdEvidence
    settings: Settings
    standing: Standing
    witnesses: EngineWitnesses
    pair: PairSettings
    _faults: Faults
    _observed: dict[str, str]
    _totals: dict[str, float]

    def __init__(self) -> None:
        """The engine has its digest already."""
        super().__init__()
        self._expired, self._late_reads = RequestSet(self.digest), RequestSet(self.digest)

    @abstractmethod
    def _look_for_known_bad(self) -> None:
        """What the engine does when something of a known-bad combination was observed."""

    def _pair_handlers(self) -> dict[type[object], Callable[..., None]]:
        return {
            events.KvTransferFailure: self._kv_failure,
            events.KvCompatibility: self._kv_compatibility,
            events.KvExpired: self._kv_expired,
            events.KvLateRead: self._kv_read_late,
            events.KvRecomputed: self._kv_recomputed,
            events.KvLoadFailed: self._kv_load_failed,
            events.KvLoadSkipped: self._kv_load_skipped,
            events.KvParamsRefused: self._kv_params_refused,
            events.KvPeerChanged: lambda event, head: self.evidence.peer_changed(),
            events.HybridKvCache: self._hybrid_kv_cache,
        }

    def configure(self, pair: PairSettings) -> None:
        """Take other settings while it runs."""
        if pair != self.pair:
            self.pair = pair
            self._pair_settings_changed()

    def _pair_settings_changed(self) -> None:
        settings = self.pd_settings
        self.evidence.block_tokens, self.evidence.ranks = settings.block_tokens, settings.ranks
        self.evidence.changed = self.evidence.changed or bool(self.standing.verdict)

    @property
    def pd_settings(self) -> PdSettings:
        """What the verdict needs to know of this engine."""
        # The bytes of a hybrid pool's token depend on its group, so that they say nothing about tokens.
        bytes_per_token = None if self.evidence.hybrid else self.capacity.bytes_per_token
        from_start = self.life.started is not None and "stats_disabled" not in self.life.hazards
        return self.settings.pd(self.pair, bytes_per_token, from_start=from_start)

    def judgement(self, log_now: float | None) -> Judgement:
        """The verdict with its checks at this time of the log's clock."""
        settings = self.pd_settings
        if recalled := self.witnesses.recalled(settings):
            self.evidence.witness(recalled)  # the first lines after a restart must not be judged without it
        return judge(self.evidence, settings, log_now)

    def _settle_before(self, head: Head) -> None:
        """Judge what was not yet unless this line is of the same second: a failure on each rank, or an interval and its connector's line."""
        judged = self.standing.unjudged.time if self.standing.unjudged else None
        if judged is None or head.time is None or int(judged) != int(head.time):
            self.settle()

    def settle(self) -> None:
        """Judge what was not yet."""
        head, self.standing.unjudged = self.standing.unjudged, None
        if head:
            self._judge(head)

    def _judge(self, head: Head) -> None:
        if self.standing.verdict == NOT_DISAGGREGATED and self.settings.role(self.pair.role) == "none":
            return  # whatever the evidence
        before = self.standing.verdict
        self.standing.take(self.judgement(head.time), head)
        if self.standing.verdict != before and not {before, self.standing.verdict} <= SAY_LITTLE:
            self.life.history.judged(self.standing.verdict, moment_of(head))

    def _wake(self, head: Head) -> None:
        """Behind an idle time: what the verdict is from this line on, it is since this line."""
        if self.evidence.is_idle(head.time):
            if self.standing.verdict != IDLE:
                self._judge(head)
            self.evidence.look_again()

    def witness(self, found: Sequence[Finding], clock: EventClock, now: float | None, log_now: float | None) -> None:
        """Take what other witnesses than the log found, `now` (epoch) or at `log_now` by the log's clock."""
        compiles = bool(self.jit.open(log_now))
        for finding in found:
            try:
                if isinstance(finding, Sighting):
                    self.witnesses.compiled(finding, self.life, self.jit, clock)
                else:
                    self.witnesses.take(finding, self.evidence, counts_preemptions="preempted" not in self._totals)
                    if isinstance(finding, EngineReading) and not compiles and self.witnesses.are_of_a_stall(finding):
                        self.life.stall()
            except Exception as error:  # noqa: BLE001 - as with events
                self._faults.note(error)
        self._witnessed(now, log_now)
        self.evidence.changed, self.standing.unjudged = False, None
        self._judge(Head(NOBODY, UNKNOWN_LEVEL, log_now))

    def _witnessed(self, now: float | None, log_now: float | None) -> None:
        """Let the verdict know what other witnesses say by now; their word grows old."""
        self.evidence.witness(self.witnesses.witnessed(now, log_now, self.capacity.transports, self.pd_settings))

    # -- evidence ------------------------------------------------------------------------------------------------------

    def _kv_failure(self, event: events.KvTransferFailure, head: Head) -> None:
        connector = event.connector or self.settings.whose_handshake(head.where)
        self.counters.add("kv_transfer_failures_total", connector, event.reason)
        self.evidence.failure(event)
        self._look_for_uncaught_loads()
        if event.loopback and event.reason == "handshake" and not self.evidence.succeeded:
            self._observed["nixl_side_channel"] = "loopback"
            self._look_for_known_bad()

    def _kv_compatibility(self, event: events.KvCompatibility, head: Head) -> None:
        cause = head.parent
        if isinstance(cause, events.KvTransferFailure) and cause.reason != "handshake_setup":
            return  # the same text stands again in the record of each request that shared the handshake
        connector = event.connector or self.settings.connector
        self.counters.add("kv_compatibility_checks_total", connector, event.result)
        if event.result == "passed":
            self.capacity.compatible(connector, head)
        self.evidence.check(event, head)

    def _kv_expired(self, event: events.KvExpired, head: Head) -> None:
        if self._expired.is_new(event.request, head.time):
            self.counters.add("kv_expired_requests_total", event.connector)
            self.evidence.expired()

    def _kv_read_late(self, event: events.KvLateRead, head: Head) -> None:
        if self._late_reads.is_new(event.request, head.time):
            self.counters.add("kv_reads_after_expiry_total", event.connector)
            self.evidence.read_late()

    def _kv_recomputed(self, event: events.KvRecomputed, head: Head) -> None:
        self.counters.add("kv_recomputed_requests_total", by=event.requests)
        self.counters.add("kv_recomputed_tokens_total", by=event.tokens)
        self.evidence.recomputed(event.requests)

    def _kv_load_failed(self, event: events.KvLoadFailed, head: Head) -> None:
        self.counters.add("kv_load_failed_requests_total", by=event.requests)
        self.evidence.load_failed(event.requests)

    def _kv_load_skipped(self, event: events.KvLoadSkipped, head: Head) -> None:
        self.evidence.skipped(event, head)
        self._look_for_uncaught_loads()

    def _kv_params_refused(self, event: events.KvParamsRefused, head: Head) -> None:
        self.evidence.params_refused()

    def _hybrid_kv_cache(self, event: events.HybridKvCache, head: Head) -> None:
        self.evidence.hybrid = True
        self._look_for_uncaught_loads()

    def _look_for_uncaught_loads(self) -> None:
        if any(uncaught_load(self.evidence, self.settings.version, period) for period in self.evidence.window()):
            self._observed["hybrid_kv_failed_load"] = "yes"
            self._look_for_known_bad()

    # -- samples -------------------------------------------------------------------------------------------------------

    def _verdict_samples(self, clock: EventClock, now: float | None, log_now: float | None) -> Iterator[Sample]:
        self.settle()
        self._witnessed(now, log_now)
        settings = self.pd_settings
        yield from self.standing.samples(self.evidence, settings, clock, log_now)
        told = self.evidence.witnessed.local_ratio
        if told is not None and settings.role in ("decode", "both"):
            yield Sample("pd_local_prefill_ratio", ("engine_metrics",), told)
        ratio = local_prefill_ratio(self.evidence, settings, settings.bytes_per_token)
        if ratio is not None:
            yield Sample("pd_local_prefill_ratio", ("log",), ratio)
