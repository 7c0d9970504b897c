"""What only SGLang says: batches, pools by name, failures by bootstrap room."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from exporter.batches import Probes, decode_samples, first_stage, prefill_samples
from exporter.capacity import Capacity
from exporter.counters import Counters, Digest, Folds, RequestSet
from exporter.evidence.engine_side import EngineWitnesses
from exporter.format_drift import CACHED, RATE
from exporter.interval import IntervalGauges
from exporter.jit import JitLedger
from exporter.lifecycle import LifeCycle
from exporter.pd_evidence import PdEvidence
from exporter.settings import Settings
from parsers import events
from parsers.header import Head

SGLANG = "sglang"
_JUDGED_SECONDS = 10.0


class Told:
    """What the lines before told, where that decides what the next one means."""

    STATE = ("rooms", "notices", "probes", "judged")

    def __init__(self, counters: Counters, digest: Digest) -> None:
        self.rooms = RequestSet(digest)
        """Requests that failed."""
        self.notices = Folds()
        """What all ranks say."""
        self.probes = Probes(counters)
        self.judged: dict[str, float] = {}
        """By engine, when its decode batches last counted as an interval."""


class SglangHandlers(ABC):
    """The part of an engine that takes SGLang's events."""

    counters: Counters
    digest: Digest
    life: LifeCycle
    jit: JitLedger
    capacity: Capacity
    gauges: IntervalGauges
    evidence: PdEvidence
    settings: Settings
    witnesses: EngineWitnesses
    _arrival: float | None

    def __init__(self) -> None:
        """The engine has its counters already."""
        super().__init__()
        self._told = Told(self.counters, self.digest)

    @abstractmethod
    def _told_settings(self, event: events.EngineSettings, head: Head) -> None:
        """What the engine does with settings of any runtime."""

    @abstractmethod
    def _wake(self, head: Head) -> None:
        """What the engine does when it may have been idle until this line."""

    @abstractmethod
    def _kv_load_failed(self, event: events.KvLoadFailed, head: Head) -> None:
        """What the engine does with requests that end without their KV."""

    def _sglang_handlers(self) -> dict[type[object], Callable[..., None]]:
        return {
            events.CompiledLate: self._compiled_late,
            events.CompileSession: lambda event, head: self.jit.session(event, head, self.life.phase),
            events.WarmupFailed: self._warmup_failed,
            events.StartupTimings: lambda event, head: self.life.summary(event),
            events.KvPools: self.capacity.kv_pools,
            events.StateCacheSlots: self.capacity.state_cache,
            events.DraftMismatch: self._draft_mismatch,
            events.CeilingsTold: self._ceilings,
            events.PrefillBatch: self._prefill_batch,
            events.DecodeBatch: self._decode_batch,
            events.HealthAnswered: self._health_answered,
            events.HealthCheckFailed: lambda event, head: self.counters.add("health_check_failures_total"),
            events.Retracted: self._retracted,
            events.Truncated: self._truncated,
            events.KvRoomFailed: self._kv_room_failed,
            events.KvRoomMixedUp: self._kv_room_mixed_up,
            events.KvRequestMoved: self._kv_request_moved,
        }

    def _compiled_late(self, event: events.CompiledLate, head: Head) -> None:
        phase = self.life.phase
        self.jit.compiled(events.Compiled(*event), head, "serving" if phase == "unknown" else phase)

    def _warmup_failed(self, event: events.WarmupFailed, head: Head) -> None:
        self.life.warmup_failed = True
        self.life.hazard(events.Hazard("warmup_incomplete"), head)

    def _ceilings(self, event: events.CeilingsTold, head: Head) -> None:
        self.capacity.ceilings(event, head)
        self._told_settings(events.EngineSettings(event.settings, overrides=True), head)

    def _draft_mismatch(self, event: events.DraftMismatch, head: Head) -> None:
        self.life.hazard(events.Hazard("draft_length_mismatch"), head)
        self._told_settings(
            events.EngineSettings({"spec_method": "dspark", "draft_length": event.length, "draft_block": event.block}), head
        )

    def _prefill_batch(self, event: events.PrefillBatch, head: Head) -> None:
        if not first_stage(head):
            return
        dp_rank = head.origin.dp_rank
        self.jit.goes_on(head)
        self.counters.add("prefill_tokens_total", dp_rank, "computed", by=event.computed or 0.0)
        self.counters.add("prefill_tokens_total", dp_rank, "cached", by=event.cached or 0.0)
        if event.cached is None and event.running is not None:  # told behind it: the line is not torn
            self.life.drift.lacks(CACHED)
        self.gauges.values(prefill_samples(event, dp_rank), dp_rank, head)
        self.witnesses.tokens_at = self._arrival  # a long prompt is prefilled in many batches, and generates nothing meanwhile
        if event.queues.keys() & {"bootstrap", "inflight"}:
            self.settings.pair_seen("prefill")
        if self.life.state in ("unknown", "stalled"):
            self.life.traffic(head, tokens=True)
        if self.life.state != "starting":  # the warm-up's is no probe
            self._told.probes.batch(event, head, self.settings.page)

    def _decode_batch(self, event: events.DecodeBatch, head: Head) -> None:
        if not first_stage(head):
            return
        dp_rank = head.origin.dp_rank
        self.jit.goes_on(head)
        last = self.gauges.last.get(dp_rank)
        self.gauges.values(decode_samples(event, dp_rank, self.settings.method or "unknown"), dp_rank, head)
        self.settings.pair_seen("decode" if event.pair else "")
        if event.rate is None and "waiting" in event.queues:
            self.life.drift.lacks(RATE)
        running = event.running or 0.0
        works = running > 0 and event.rate != 0
        if works:
            self.witnesses.tokens_at = self._arrival
        self._wake(head)
        now, before = head.time, self._told.judged.get(dp_rank)
        if now is None or before is None or not 0 <= now - before < _JUDGED_SECONDS:  # a line every few steps is no interval
            self._told.judged[dp_rank] = now or 0.0
            if event.pair and works:
                self.evidence.received(running)  # once: requests that fail are counted once, too
            if event.ratio is not None:
                self.gauges.accepted(event.ratio, (dp_rank, self.settings.method or "unknown"))
            self.evidence.interval(events.IntervalStats(dp_rank, 0.0, event.rate or 0.0, running, 0.0), head)
        self.evidence.pauses(dp_rank, now)
        if self.life.state == "unknown" or (works and self.life.state in ("stalled", "failed")):
            self.life.traffic(head, tokens=works, before=last)

    def _health_answered(self, event: events.HealthAnswered, head: Head) -> None:
        self._told.probes.answered(head)
        if self.life.warmup_failed:
            self.life.traffic(head, tokens=False)

    def _retracted(self, event: events.Retracted, head: Head) -> None:
        if first_stage(head) and self._is_news("retracted", head, f"{event.requests:.0f}"):
            self.counters.add("requests_retracted_total", head.origin.dp_rank, by=event.requests)

    def _truncated(self, event: events.Truncated, head: Head) -> None:
        if first_stage(head) and self._is_news("truncated", head):
            self.counters.add("requests_truncated_total")

    def _is_news(self, what: str, head: Head, detail: str = "") -> bool:
        """Whether no other rank told of it just now."""
        fold = self._told.notices.join((what, head.origin.dp_rank, detail), head.origin.who, head.time)
        news, fold.counted = not fold.counted, True
        return news

    def _kv_room_failed(self, event: events.KvRoomFailed, head: Head) -> None:
        if event.request is None or self._told.rooms.is_new(f"{event.reason} {self.digest.of(event.request)}", head.time):
            self.counters.add("kv_transfer_failures_total", self._connector, event.reason)
        self.evidence.failure(events.KvTransferFailure(self._connector, event.reason, event.request))

    def _kv_room_mixed_up(self, event: events.KvRoomMixedUp, head: Head) -> None:
        if self._told.rooms.is_new(f"mixed up {self.digest.of(event.request)}", head.time):
            self._kv_load_failed(events.KvLoadFailed(1), head)

    def _kv_request_moved(self, event: events.KvRequestMoved, head: Head) -> None:
        labels = (head.origin.dp_rank, self._connector)
        self.counters.add("kv_transfers_total", *labels)
        for family, value in (("kv_transfer_seconds_total", event.seconds), ("kv_transfer_bytes_total", event.bytes)):
            if value is not None:
                self.counters.add(family, *labels, by=value)
        self.evidence.moved()

    @property
    def _connector(self) -> str:
        """The connector of an engine that has one at the most."""
        return self.settings.connector or "unknown"
