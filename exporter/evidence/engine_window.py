"""What an engine's own figures prove: the last two intervals between readings in which it served requests."""

import math
from collections import deque

from exporter.counters import Counters
from exporter.evidence.engine_metrics import POLL_SECONDS, EngineReading
from exporter.evidence.engine_text import EngineFigures
from exporter.pd_evidence import QUIET_SECONDS
from exporter.verdict import PdSettings, failure_status

WINDOW = 2
"""Intervals with requests that count, as of the log's."""

STALE_SECONDS = 3 * POLL_SECONDS + 5
"""Figures that are older than this prove nothing any more."""

_FLOW = ("requests", "generated", "transfers", "failed", "failed_requests", "local", "cached", "external")

STALL_SECONDS = 120.0
"""An engine whose requests run is stalled when nothing of it has moved, or it has not answered, for so long."""

Interval = dict[str, float]


class EngineWindow:
    """The engine's counters as evidence. Whatever does not follow from the reading before is a new beginning."""

    STATE = ("_preempted", "_started", "_told", "_worked_at")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._served: deque[Interval] = deque(maxlen=WINDOW)
        self._open: Interval = {}
        self._last: EngineReading | None = None
        self._preempted: dict[str, float] = {}
        self._started: float | None = None
        self._told: Interval = {}
        """The window as of the last reading. After a restart of ours it stands until two were tried: one alone tells no interval."""
        self._tried = 0
        self._recalled_at: float | None = None
        """When (epoch) what the process of ours before knew was first used: where no reading comes any more, not for long."""
        self._worked_at: float | None = None
        """When (epoch) it was last seen to have generated tokens."""
        self.unanswered_since: float | None = None
        """Since when (epoch) the engine takes questions and does not answer them; who is not there, or refuses, does not hang."""
        self.frozen_since: float | None = None
        """Since when (epoch) its requests run and no figure of it has changed."""

    def restart(self) -> None:
        """Another engine process begins: the figures of the one before prove nothing about it."""
        self._served.clear()
        self._open, self._told = {}, {}
        self._last = self._worked_at = self.frozen_since = self.unanswered_since = None

    def take(self, reading: EngineReading, *, counts_preemptions: bool) -> Interval:
        """A reading; what came to pass since the one before, nothing where that cannot be told."""
        since = self._take(reading, counts_preemptions=counts_preemptions)
        self._tried += 1
        if self._tried >= WINDOW:
            self._told = self.window(reading.at)
        return since

    def _take(self, reading: EngineReading, *, counts_preemptions: bool) -> Interval:
        if reading.figures is None:
            self.frozen_since = None
            self.unanswered_since = (self.unanswered_since or reading.at) if reading.reason == "timeout" else None
            return {}
        self.unanswered_since = None
        if counts_preemptions:
            self._count_preemptions(reading.figures)
        self._started = reading.figures.started
        before, self._last = self._last, reading
        since = _since(before, reading)
        if since is None:
            self._served.clear()
            self._open, self.frozen_since = {}, None
            return {}
        assert before
        self._look_for_frozen(before, reading)
        self._open = {name: self._open.get(name, 0.0) + since[name] for name in since}
        if since.get("generated", 0.0) > since.get("requests", 0.0):  # a health probe of SGLang's generates one token
            self._worked_at = reading.at
        if since.get("requests"):
            self._served.append(self._open)
            self._open = {}
        return since

    def _count_preemptions(self, told: EngineFigures) -> None:
        """The engine's own total: a fall, or another process, is a new beginning at 0."""
        same = told.started is None or self._started is None or told.started == self._started
        for rank, total in told.preempted.items():
            before = self._preempted.get(rank, 0.0) if same else 0.0
            self._counters.add("requests_preempted_total", rank, by=total - before if total >= before else total)
        self._preempted = dict(told.preempted)

    def _look_for_frozen(self, before: EngineReading, reading: EngineReading) -> None:
        """A long prefill fills the KV cache while it generates nothing: only an engine of which nothing moves is frozen."""
        assert before.figures
        assert reading.figures
        same = before.figures.counters == reading.figures.counters and before.figures.gauges == reading.figures.gauges
        if not same or not reading.figures.gauges.get("running"):
            self.frozen_since = None
        elif self.frozen_since is None:
            self.frozen_since = before.at

    def is_stalled(self, now: float, tokens_at: float | None) -> bool:
        """Whether the engine should work and does not; `tokens_at` is when (epoch) its log last told of generated tokens."""
        since = self.frozen_since if self.unanswered_since is None else self.unanswered_since
        if since is None or self._last is None or self._last.figures is None or not self._last.figures.gauges.get("running"):
            return False
        return now - since >= STALL_SECONDS and now - (tokens_at or 0.0) >= STALL_SECONDS

    def works(self, now: float) -> bool:
        """Whether it generated tokens since its log may have fallen silent: a reading comes later than the line of the same tokens."""
        return self._worked_at is not None and 0 <= now - self._worked_at < QUIET_SECONDS - STALE_SECONDS

    @property
    def recalled(self) -> Interval:
        """What the process of ours before knew, as long as nothing newer can be known."""
        return self._told if self._tried < WINDOW else {}

    def window(self, now: float, intervals: int = WINDOW) -> Interval:
        """Sums over the window, or its last `intervals`; nothing when the figures are too old."""
        if recalled := self.recalled:
            self._recalled_at = now if self._recalled_at is None else self._recalled_at
            if now - self._recalled_at <= STALE_SECONDS:
                return recalled
            self._told = {}
        if self._last is None or not -POLL_SECONDS <= now - self._last.at <= STALE_SECONDS:
            return {}
        parts = [*list(self._served)[-intervals:], self._open]
        return {name: sum(part.get(name, 0.0) for part in parts) for name in _FLOW if any(name in part for part in parts)}


def _since(before: EngineReading | None, reading: EngineReading) -> Interval | None:
    """What the counters rose by; None when they do not go on where they were."""
    if before is None or before.figures is None or reading.figures is None:
        return None
    old, new = before.figures, reading.figures
    if old.started != new.started or not 0 < reading.at - before.at <= STALE_SECONDS:
        return None
    if any(new.counters.get(name, -1.0) < value for name, value in old.counters.items()):
        return None
    return {name: value - old.counters.get(name, 0.0) for name, value in new.counters.items() if name in _FLOW}


def failures(told: Interval) -> float:
    """Attempts that failed."""
    return told.get("failed", 0.0) + told.get("failed_requests", 0.0)


def engine_checks(told: Interval, settings: PdSettings) -> dict[str, str]:
    """The verdict's checks by a window of the engine's figures."""
    requests = told.get("requests", 0.0)
    checks: dict[str, str] = {}
    if requests and "local" in told:
        # Of a prompt that came over it computes the last token, or the last block.
        whole = told["local"] / requests > settings.block_tokens
        checks["local_prefill_low"] = "pass" if not whole else "fail" if requests > 1 else "unknown"  # one may be somebody's try
    if told.get("transfers"):
        checks["transfers_growing"] = "pass"
    elif "transfers" in told and checks.get("local_prefill_low") == "fail":
        checks["transfers_growing"] = "fail"
    succeeded = told.get("transfers", requests)
    if attempts := failures(told):
        # Each rank counts its own attempt at a request.
        failed = told.get("failed_requests", 0.0) + math.ceil(told.get("failed", 0.0) / settings.ranks)
        checks["no_transfer_failure"] = failure_status(settings.limits, failed, attempts, succeeded)
    elif succeeded and ("failed" in told or "failed_requests" in told):
        checks["no_transfer_failure"] = "pass"
    return checks


def local_ratio(told: Interval) -> float | None:
    """Share of the prompt tokens that the engine computed itself; None without prompts."""
    tokens = sum(told.get(name, 0.0) for name in ("local", "cached", "external"))
    return told.get("local", 0.0) / tokens if tokens and "local" in told else None
