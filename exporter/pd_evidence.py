"""What a log tells about prefill/decode disaggregation: evidence over the last two intervals that served requests."""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from parsers.events import IntervalStats, KvCompatibility, KvLoadSkipped, KvTransferFailure, KvTransferInterval
from parsers.header import Head

WINDOW = 2
"""Intervals with requests in which evidence counts."""

_SECONDS = 10.0  # an interval's length where the line before is missing
_LONGEST_INTERVAL = 120.0
_SIDE_EFFECTS = frozenset({"handshake_setup", "notification", "transfer_release"})  # of attempts that are counted elsewhere
_REQUEST_LIMIT = 256


Served: TypeAlias = tuple[float, float]
"""Of an interval with requests: prompt tokens that the engine computed itself, and requests."""


class Period:
    """Evidence that came during one interval with requests, or since the last one."""

    # Most periods of a healthy engine hold nothing but `served` and `transfers`, so the defaults stand in the class.
    served: Served | None = None
    transfers: float = 0
    empty = False
    failed_attempts = 0
    failed_requests: frozenset[int] = frozenset()
    recomputed: float = 0
    skipped: frozenset[int] = frozenset()
    load_failed: float = 0
    unanswered_loads = False
    late_reads = 0
    expired = 0
    params_refused = 0

    @property
    def failures(self) -> int:
        """Requests known to have failed, or records where no request is named."""
        return max(len(self.failed_requests), min(self.failed_attempts, 1))


class PdEvidence:
    """Collects evidence in the order of the log. Request ids stay inside as hashes."""

    def __init__(self) -> None:
        self.closed: deque[Period] = deque(maxlen=WINDOW)
        self.open = Period()
        self.tried = self.succeeded = self.generates = self.hybrid = False
        self.compatibility = "unknown"
        self.quiet_since: float | None = None
        self._stats_time: dict[str, float] = {}
        self._responses = 0.0

    def window(self) -> Iterator[Period]:
        """The periods that count now, the open one last."""
        yield from self.closed
        yield self.open

    # -- intervals -----------------------------------------------------------------------------------------------------

    def interval(self, event: IntervalStats, head: Head) -> None:
        """A periodic line closes the period before it; its connector's line, which follows, belongs to it."""
        now = head.time
        prompt_rate, generation_rate = event.prompt_rate, event.generation_rate
        if generation_rate > 0 or prompt_rate > 0:
            length = (now or 0.0) - self._stats_time.get(event.engine, now or 0.0)
            if not 0 < length <= _LONGEST_INTERVAL:
                length = _SECONDS
            self.generates = self.generates or generation_rate > 0
            self.quiet_since = None
            self._close((prompt_rate * length, max(self._responses, event.running)))
        elif self.quiet_since is None:
            self.quiet_since = now
        if now is not None:
            self._stats_time[event.engine] = now
        self._responses = 0.0

    def _close(self, served: Served) -> None:
        period = self.open
        period.served = served
        if period.skipped:
            period.unanswered_loads = not period.recomputed and not period.load_failed
        self.closed.append(period)
        self.open = Period()

    def transfers(self, event: KvTransferInterval) -> None:
        """The connector's line of the interval that was just printed."""
        period = self.closed[-1] if self.closed else self.open
        if event.transfers > 0:
            period.transfers += event.transfers
            self.succeeded = self.tried = True
            if self.compatibility == "unknown":
                self.compatibility = "pass"
        else:
            period.empty = True

    def responses(self, count: float) -> None:
        """Answered requests, where access lines are printed."""
        self._responses += count

    # -- records -------------------------------------------------------------------------------------------------------

    def failure(self, event: KvTransferFailure) -> None:
        """A failed handshake or transfer."""
        self.tried = True
        if event.reason == "aborted":
            return
        if event.reason not in _SIDE_EFFECTS:
            self.open.failed_attempts += 1
            if event.request:
                self.open.failed_requests = _with(self.open.failed_requests, event.request)

    def check(self, event: KvCompatibility) -> None:
        """A rank's compatibility check with its current peer."""
        if event.result == "passed":
            self.compatibility = "pass"
        else:
            self.compatibility = "fail"
            self.tried = True

    def peer_changed(self) -> None:
        """Another engine took the peer's place: it has not been checked yet."""
        self.compatibility = "unknown"

    def skipped(self, event: KvLoadSkipped) -> None:
        """A worker says that a request's load failed."""
        self.open.skipped = _with(self.open.skipped, event.request)


def _with(requests: frozenset[int], request: str) -> frozenset[int]:
    return requests | {hash(request)} if len(requests) < _REQUEST_LIMIT else requests
