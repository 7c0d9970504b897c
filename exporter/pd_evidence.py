"""What a log tells about prefill/decode disaggregation: evidence over the last two intervals that served requests."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields

from exporter.counters import Digest
from exporter.evidence.witnessed import Witnessed
from parsers.events import IntervalStats, KvCompatibility, KvLoadSkipped, KvTransferFailure, KvTransferInterval
from parsers.header import Head

WINDOW = 2
"""Intervals with requests in which evidence counts."""

_SECONDS = 10.0  # an interval's length where the line before is missing
_LONGEST_INTERVAL = 120.0
_SIDE_EFFECTS = frozenset({"handshake_setup", "notification", "transfer_release"})  # of attempts that are counted elsewhere
_REQUEST_LIMIT = 256


_REACTION_SECONDS = 2.0  # within which the scheduler says what it does about a failed load, if it ever does


@dataclass(slots=True)
class Period:
    """Evidence that came during one interval with requests, or since the last one."""

    served: bool = False
    prompt_tokens: float = 0.0
    """Tokens of prompts that the engine computed itself."""
    requests: float = 0.0
    answered: float = 0.0
    """Requests that were answered with success, where access lines are printed."""
    transfers: float = 0.0
    received: float = 0.0
    """Requests that generated tokens though another engine prefilled them, where no line tells of transfers."""
    empty: int = 0
    """Intervals in which the connector reported no success."""
    failed_attempts: int = 0
    failed_requests: frozenset[str] = frozenset()
    recomputed: float = 0.0
    skipped: frozenset[str] = frozenset()
    """Requests whose load failed by a worker's word."""
    load_failed: float = 0.0
    unanswered_loads: int = 0
    """Failed loads that the scheduler said nothing about."""
    late_reads: int = 0
    expired: int = 0
    params_refused: int = 0

    @property
    def failures(self) -> int:
        """Requests known to have failed, or 1 where records name none."""
        return max(len(self.failed_requests), min(self.failed_attempts, 1))

    def take(self, other: "Period") -> None:
        """Add the evidence of another engine of the same data-parallel group."""
        self.served = self.served or other.served
        self.failed_requests |= other.failed_requests
        self.skipped |= other.skipped
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_SUMS = [field.name for field in fields(Period) if field.name not in ("served", "failed_requests", "skipped")]


class PdEvidence:
    """Collects evidence in the order of the log. Request ids stay inside as hashes."""

    STATE = (
        "closed",
        "open",
        "tried",
        "succeeded",
        "generates",
        "hybrid",
        "passed_ranks",
        "failed_ranks",
        "quiet_since",
        "_before",
        "_round",
        "_responses",
        "_answers_are_told",
        "_skipped_at",
    )

    def __init__(self, digest: Digest) -> None:
        self.closed: deque[Period] = deque(maxlen=WINDOW)
        self.open = Period()
        self.tried = self.succeeded = self.generates = self.hybrid = False
        self.passed_ranks: set[str] = set()
        self.failed_ranks: set[str] = set()
        self.quiet_since: float | None = None
        self.witnessed = Witnessed()
        """What others than the log say at this moment."""
        self._digest = digest
        self._before: dict[str, tuple[float | None, float]] = {}
        self._round: set[str] = set()
        self._responses = 0.0
        self._answers_are_told = False
        self._skipped_at: float | None = None

    def window(self) -> Iterator[Period]:
        """The periods that count now, the open one last."""
        yield from self.closed
        yield self.open

    # -- intervals -----------------------------------------------------------------------------------------------------

    def ready(self, head: Head) -> None:
        """The engine can be used from now on: until it is, it is quiet."""
        if self.quiet_since is None and not self.closed:
            self.quiet_since = head.time

    def interval(self, event: IntervalStats, head: Head) -> None:
        """A periodic line closes the period before it; its connector's line, which follows, belongs to it."""
        now, engine, running, admitted = head.time, event.engine, event.running, self._responses
        prompt_rate, generation_rate = event.prompt_rate, event.generation_rate
        before = self._before.get(engine)
        self._before[engine] = now, running
        # Those that ended and those by which more run; where no answers are told, those that run.
        if not self._answers_are_told or not before:
            admitted = max(admitted, running)
        elif running > before[1]:
            admitted += running - before[1]
        if generation_rate > 0 and not prompt_rate and not admitted and self.open == Period():
            self.generates, self.quiet_since = True, None  # long answers go on, and no request tells anything new
        elif generation_rate > 0 or prompt_rate > 0:
            length = now - before[0] if before and before[0] is not None and now is not None else _SECONDS
            if not 0 < length <= _LONGEST_INTERVAL:
                length = _SECONDS
            self.generates = self.generates or generation_rate > 0
            self.quiet_since = None
            self._close(engine, prompt_rate * length, admitted, now)
        elif self.quiet_since is None:
            self.quiet_since = now
        self._responses = 0.0

    def _close(self, engine: str, prompt_tokens: float, requests: float, now: float | None) -> None:
        """End a period. The engines of a data-parallel group print one after the other: one round is one interval."""
        period, self.open = self.open, Period()
        period.served, period.prompt_tokens, period.requests, period.answered = True, prompt_tokens, requests, self._responses
        if period.skipped and not period.recomputed and not period.load_failed:
            if (now or 0.0) - (self._skipped_at or 0.0) >= _REACTION_SECONDS:
                period.unanswered_loads = len(period.skipped)
            else:
                period.skipped, self.open.skipped = frozenset(), period.skipped
        if engine in self._round or not self.closed:
            self.closed.append(period)
            self._round = {engine}
        else:
            self.closed[-1].take(period)
            self._round.add(engine)

    def transfers(self, event: KvTransferInterval) -> None:
        """The connector's line of the interval that was just printed."""
        period = self.closed[-1] if self.closed else self.open
        if event.transfers > 0:
            period.transfers += event.transfers
            self.succeeded = self.tried = True
        else:
            period.empty += 1

    def moved(self) -> None:
        """One request's KV came over."""
        self.open.transfers += 1
        self.succeeded = self.tried = True

    def received(self, requests: float) -> None:
        """Requests decode that this engine cannot have prefilled (SGLang)."""
        self.open.received += requests
        self.succeeded = self.tried = self.succeeded or requests > 0

    def witness(self, witnessed: Witnessed) -> None:
        """What others than the log say from now on."""
        self.witnessed = witnessed

    def engine_metrics(self, *, transfers: float, failures: float) -> None:
        """What the engine's own counters rose by since they were read before."""
        self.succeeded = self.succeeded or transfers > 0
        self.tried = self.tried or transfers > 0 or failures > 0

    def responses(self, count: float) -> None:
        """Answered requests, where access lines are printed."""
        self._responses += count
        self._answers_are_told = self._answers_are_told or count > 0

    # -- records -------------------------------------------------------------------------------------------------------

    def failure(self, event: KvTransferFailure) -> None:
        """A failed handshake or transfer."""
        self.tried = True
        if event.reason == "aborted":
            return
        if event.reason not in _SIDE_EFFECTS:
            self.open.failed_attempts += 1
            for request in (event.request, *event.others):
                if request:
                    self.open.failed_requests = self._with(self.open.failed_requests, request)

    def check(self, event: KvCompatibility, head: Head) -> None:
        """A rank's compatibility check with its current peer."""
        who = head.origin.who
        if event.result == "passed":
            self.passed_ranks.add(who)
            self.failed_ranks.discard(who)
        else:
            self.failed_ranks.add(who)
            self.passed_ranks.discard(who)
            self.tried = True

    def peer_changed(self) -> None:
        """Another engine took the peer's place: it has not been checked yet."""
        self.passed_ranks.clear()
        self.failed_ranks.clear()

    def skipped(self, event: KvLoadSkipped, head: Head) -> None:
        """A worker says that a request's load failed."""
        self.open.skipped = self._with(self.open.skipped, event.request)
        self._skipped_at = head.time

    def _with(self, requests: frozenset[str], request: str) -> frozenset[str]:
        return requests | {self._digest.of(request)} if len(requests) < _REQUEST_LIMIT else requests
