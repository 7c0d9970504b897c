"""What a log tells about prefill/decode disaggregation: evidence over the last two intervals that served requests."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from exporter.counters import Digest
from exporter.evidence.witnessed import Witnessed
from parsers.events import IntervalStats, KvCompatibility, KvLoadSkipped, KvTransferFailure, KvTransferInterval
from parsers.header import Head

WINDOW = 2
"""Intervals with requests in which evidence counts."""

QUIET_SECONDS = 300.0
"""Without a token for so long an engine is idle, or for two of its intervals where they are longer."""

_SECONDS = 10.0  # an interval's length where nothing tells it
_ROUNDING = 0.05  # tokens a second that a rate with one decimal may hide
_LONGEST_GAP = 120.0  # between two lines of which the first told of tokens; a longer one is a hole, unless they all are as long
_LONGEST_INTERVAL = 1800.0
_SIDE_EFFECTS = frozenset({"handshake_setup", "notification", "transfer_release"})  # of attempts that are counted elsewhere
_REQUEST_LIMIT = 256
_ANSWERS_OF_AN_INTERVAL = 20.0

BLOCK_TOKENS = 128.0
"""Prompt tokens a decode engine may compute for a request: the last block, which is never transferred."""


_REACTION_SECONDS = 2.0  # within which the scheduler says what it does about a failed load, if it ever does


@dataclass(init=False)
class Period:
    """Evidence that came during one interval with requests, or since the last one.

    What did not come is not in the object: there is one for each periodic line, and few have more than three of these.
    """

    served: bool = False
    prompt_tokens: float = 0.0
    """Tokens of prompts that the engine computed itself."""
    requests: float = 0.0
    answered: float = 0.0
    """Requests that were answered with success, where access lines are printed."""
    told: bool = False
    """Whether access lines tell how many requests there were; else `requests` is how many ran at the end."""
    transfers: float = 0.0
    transferred_bytes: float = 0.0
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
    setups: int = 0
    """Handshakes that failed before any request was named."""
    side_effects: int = 0
    """Records of what failed beside an attempt, a handshake's set-up among them; the periodic line counts them as well."""
    reported_failures: float = 0.0
    """By the connector's periodic line, summed over the ranks: no less than that failed, also where no record is in this log."""
    reported_expired: float = 0.0
    reported_late: float = 0.0
    engines: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """By engine of a data-parallel group its tokens of prompts, its transfers, and how many requests ran at the end."""
    eventful: bool = False
    """Whether a record came, of any kind."""
    decodes: bool = False
    """More than the one token for each answer that a prefill engine generates, too."""
    prompts: str = ""
    """Whether its prompts were `whole`, last `blocks`, or too `few` tokens to be any; empty where that depends on other periods."""

    def __init__(self, **known: Any) -> None:
        """`known` are fields of a period that was saved."""
        self.engines = {}
        for name, value in known.items():
            setattr(self, name, value)

    @property
    def attempts_failed(self) -> float:
        """Each failure is on the periodic line as well as in its record, so that the two are never added."""
        return max(self.failed_attempts, self.reported_failures - self.side_effects)

    @property
    def failures(self) -> int:
        """Requests known to have failed, or 1 where records name none."""
        return max(len(self.failed_requests), min(self.failed_attempts, 1))

    def failed(self, ranks: int) -> int:
        """The same, or what the line alone tells: on each of the `ranks` a request may have failed."""
        unnamed = math.ceil(self.attempts_failed / ranks) if self.attempts_failed > self.failed_attempts else 0
        return max(self.failures, unnamed)

    def expiries(self, ranks: int) -> int:
        """Requests that expired: one record a request, while each rank counts it."""
        return max(self.expired, math.ceil(self.reported_expired / ranks))

    @property
    def late(self) -> bool:
        """Whether blocks were read after they had expired."""
        return self.late_reads > 0 or self.reported_late > 0

    def take(self, other: "Period") -> None:
        """Add the evidence of another engine of the same data-parallel group."""
        self.served = self.served or other.served
        self.told = self.told or other.told
        self.eventful = self.eventful or other.eventful
        self.decodes = self.decodes or other.decodes
        self.failed_requests |= other.failed_requests
        self.skipped |= other.skipped
        self.engines.update(other.engines)
        self.prompts = ""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NO_SUMS = ("served", "told", "eventful", "decodes", "failed_requests", "skipped", "engines", "prompts")
_SUMS = [each.name for each in fields(Period) if each.name not in _NO_SUMS]


class PdEvidence:
    """Collects evidence in the order of the log. Request ids stay inside as hashes."""

    STATE = (
        "closed",
        "block_tokens",
        "ranks",
        "open",
        "tried",
        "succeeded",
        "generates",
        "hybrid",
        "ignores_loads",
        "passed_ranks",
        "failed_ranks",
        "quiet_since",
        "_before",
        "_told_at",
        "_round",
        "_responses",
        "_answers_are_told",
        "_skipped_at",
        "_paused",
        "_usual",
        "_most_fetched",
        "_without_news",
        "_closes",
    )

    def __init__(self, digest: Digest) -> None:
        self.closed: deque[Period] = deque(maxlen=WINDOW)
        self.open = Period()
        self.tried = self.succeeded = self.generates = self.hybrid = False
        self.ignores_loads = False
        """Whether the scheduler was seen to say nothing to a failed load; its next answer clears that."""
        self.passed_ranks: set[str] = set()
        self.failed_ranks: set[str] = set()
        self.quiet_since: float | None = None
        self.witnessed = Witnessed()
        """What others than the log say at this moment."""
        self.changed = False
        """Whether a verdict may be another one since this was last set to False."""
        self.block_tokens = BLOCK_TOKENS
        self.ranks = 1
        """Of this engine, both."""
        self._looked: tuple[object, ...] | None = None
        """How the window looked when the last period ended."""
        self._digest = digest
        self._before: dict[str, tuple[float | None, float]] = {}
        self._told_at: float | None = None
        """When the last periodic line came."""
        self._round: set[str] = set()
        self._responses = 0.0
        self._answers_are_told = False
        self._skipped_at: float | None = None
        self._paused: set[str] = set()
        """Engines whose last line told of no tokens: lines without any may have been left out since."""
        self._usual: float | None = None
        """The shortest time between two lines of which the first told of tokens: how often the engine prints them."""
        self._most_fetched = 0.0
        """The most requests whose KV came during one interval."""
        self._without_news: tuple[str, float, float, float, float | None, bool] | None = None
        """What a periodic line told that ended no period, as it told of no request, until the next line of its engine."""
        self._closes = False
        """Whether the last periodic line ended a period, so that the records of its interval are in a closed one."""

    def window(self) -> Iterator[Period]:
        """The periods that count now, the open one last."""
        yield from self.closed
        yield self.open

    @property
    def quiet_from(self) -> float | None:
        """Since when no token was told of: a log that broke off tells of none, either."""
        return self._told_at if self.quiet_since is None else self.quiet_since

    @property
    def quiet_seconds(self) -> float:
        """How long that must be ago: traffic that goes on is told of at the end of an interval."""
        return QUIET_SECONDS if self._usual is None else max(QUIET_SECONDS, WINDOW * self._usual)

    def is_idle(self, now: float | None) -> bool:
        """Whether that is long ago at this time of the log's clock."""
        since = self._told_at if self.quiet_since is None else self.quiet_since
        return now is not None and since is not None and now - since >= QUIET_SECONDS and now - since >= self.quiet_seconds

    @property
    def most_requests(self) -> float:
        """As many may have come in a window of which nobody tells: those whose KV came in busy ones, or somebody's probes."""
        return max(1.0, WINDOW * self._most_fetched, (self._usual or 0.0) / _SECONDS)

    # -- intervals -----------------------------------------------------------------------------------------------------

    def ready(self, head: Head) -> None:
        """The engine can be used from now on: until it is, it is quiet."""
        self.changed = True
        if self.quiet_since is None and not self.closed:
            self.quiet_since = head.time

    def interval(self, event: IntervalStats, head: Head) -> None:
        """A periodic line closes the period before it; its connector's line, which follows, belongs to it."""
        now, engine, running, admitted = head.time, event.engine, event.running, self._responses
        prompt_rate, generation_rate = event.prompt_rate, event.generation_rate
        before = self._before.get(engine)
        self._before[engine] = now, running
        if now is not None:
            self._told_at = now
        # Those that ended and those by which more run; where no answers are told, those that run.
        if before is None or not self._answers_are_told:
            admitted = max(admitted, running)
        elif running > before[1]:
            admitted += running - before[1]
        self._closes, self._without_news = False, None
        length = self._length(engine, before[0] if before else None, now)
        if not (generation_rate or prompt_rate):
            self._paused.add(engine)
            if self.quiet_since is None:
                self.quiet_since = now
        else:
            self._paused.discard(engine)
            self.quiet_since = None
            decodes = generation_rate * length > self._responses + _ROUNDING * length
            if not (self._answers_are_told and self.closed) and prompt_rate > self.block_tokens * generation_rate:
                decodes = False  # a token for each of such prompts is what a prefill engine generates; a log may begin behind its answers
            ended = engine, prompt_rate * length, admitted, running, now, decodes
            told = self._answers_are_told and admitted  # else it is those that run
            if generation_rate and not prompt_rate and not told and self.open == Period():
                self.changed = self.changed or not self.generates
                self.generates = True  # long answers go on, and no request tells anything new
                self._without_news = ended
            else:
                self._close(*ended)
        self._responses = 0.0

    def pauses(self, engine: str, now: float | None) -> None:
        """An engine that prints nothing while it is idle may be idle behind each of its lines."""
        self.quiet_since = now
        self._paused.add(engine)

    def _length(self, engine: str, before: float | None, now: float | None) -> float:
        """Seconds that this line is about. Behind a line without tokens an idle engine leaves lines out, and they end intervals, too."""
        gap = now - before if before is not None and now is not None else 0.0
        hole = gap > _LONGEST_GAP and gap > (_LONGEST_INTERVAL if self._usual is None else WINDOW * self._usual)
        if hole or gap <= 0:
            return self._usual or _SECONDS
        if engine in self._paused:
            return min(gap, self._usual or _SECONDS)
        self._usual = min(gap, self._usual or gap)
        return gap if gap > self._usual + 1 else self._usual  # times have no fractions, which counts where lines come each second

    def _close(self, engine: str, prompt_tokens: float, requests: float, running: float, now: float | None, decodes: bool) -> None:
        """End a period. The engines of a data-parallel group print one after the other: one round is one interval."""
        period, self.open = self.open, Period()
        self._closes = period.served = True
        period.told, period.decodes, period.prompt_tokens, period.requests, period.answered = (
            self._answers_are_told,
            decodes,
            prompt_tokens,
            requests,
            self._responses,
        )
        period.engines[engine] = prompt_tokens, 0.0, running
        if period.skipped and not period.recomputed and not period.load_failed:
            if (now or 0.0) - (self._skipped_at or 0.0) >= _REACTION_SECONDS:
                period.unanswered_loads = len(period.skipped)
                self.ignores_loads = True
            else:
                period.skipped, self.open.skipped = frozenset(), period.skipped
                self.open.eventful = True
        period.prompts = self._prompts(period)
        if engine in self._round or not self.closed:
            self.closed.append(period)
            self._round = {engine}
        else:
            self.closed[-1].take(period)
            self._round.add(engine)
        self.generates = self.closed[0].decodes or self.closed[-1].decodes
        self._look()

    def _prompts(self, period: Period) -> str:
        if not period.told:  # and a running request is no request of an interval
            return "few" if period.prompt_tokens * WINDOW <= self.block_tokens else ""
        if not period.requests:
            return "" if period.prompt_tokens else "blocks"
        return "whole" if period.prompt_tokens > self.block_tokens * period.requests else "blocks"

    def look_again(self) -> None:
        """The verdict may be another one though the window looks as it did."""
        self.changed, self._looked = True, None

    def _look(self) -> None:
        """A verdict may be another one unless a window without any record looks like the one before: then it sees nothing else."""
        if not self.changed and not self.open.eventful and len(self.closed) == WINDOW:
            first, last = self.closed
            prompts = "" if first.eventful or last.eventful or first.prompts != last.prompts else first.prompts
            if prompts and len(first.engines) == 1 and first.engines.keys() == last.engines.keys():
                fetched = (first.transfers + last.transfers) / self.ranks
                explained = first.prompt_tokens + last.prompt_tokens <= self.block_tokens * max(1.0, fetched)
                answered, empty = first.answered > 0 and last.answered > 0, first.empty > 0 or last.empty > 0
                looked = fetched > 0, empty, answered, prompts, self.generates, explained
                self.changed = looked != self._looked
                self._looked = looked
                return
        self.changed, self._looked = True, None

    def transfers(self, event: KvTransferInterval, engine: str) -> None:
        """The connector's line of the interval that was just printed."""
        if self._without_news:
            self._close(*self._without_news)  # KV came: there was a request, none of whose tokens was computed here
            self._without_news = None
        period = self.closed[-1] if self._closes else self.open
        succeeded = self.succeeded
        if event.transfers > 0:
            period.transfers += event.transfers
            if engine in period.engines:
                tokens, moved, running = period.engines[engine]
                period.engines[engine] = tokens, moved + event.transfers, running
            period.transferred_bytes += event.transfers * event.mean_bytes
            self._most_fetched = max(self._most_fetched, period.transfers / self.ranks)
            self.succeeded = self.tried = True
        else:
            period.empty += 1
        if event.failed or event.expired or event.late:
            self._reported(event)
        if self.failed_ranks and self._is_clean():
            self.failed_ranks.clear()  # the peers that are left are compatible, as what they send shows
            succeeded = False
        self.changed = self.changed or not succeeded
        self._look()

    def _is_clean(self) -> bool:
        """Whether KV came in all intervals that count, and nothing else was told."""
        periods = self.closed if len(self.closed) == WINDOW else ()
        return bool(periods) and not self.open.eventful and all(each.transfers and not each.eventful for each in periods)

    def _reported(self, event: KvTransferInterval) -> None:
        """What the connector counted of failures: into the period that has the records of the same interval, if there are any."""
        failed, expired, late = event.failed or 0.0, event.expired or 0.0, event.late or 0.0
        period = self.closed[-1] if self._closes else self.open
        period.reported_failures += failed
        period.reported_expired += expired
        period.reported_late += late
        self.changed = period.eventful = True
        self.tried = self.tried or failed > 0

    def moved(self) -> None:
        """One request's KV came over."""
        self._record().transfers += 1
        self.succeeded = self.tried = True

    def received(self, requests: float) -> None:
        """Requests decode that this engine cannot have prefilled (SGLang)."""
        self.open.received += requests
        self.changed = self.changed or not self.succeeded
        self.succeeded = self.tried = self.succeeded or requests > 0

    def witness(self, witnessed: Witnessed) -> None:
        """What others than the log say from now on."""
        self.witnessed = witnessed

    def engine_metrics(self, *, transfers: float, failures: float) -> None:
        """What the engine's own counters rose by since they were read before."""
        self.succeeded = self.succeeded or transfers > 0
        self.tried = self.tried or transfers > 0 or failures > 0

    def responses(self, count: float, now: float | None) -> None:
        """Answered requests, where access lines are printed. Without periodic lines they are all that ends quietness."""
        if count and self.quiet_since is not None and not self._before:
            # Access lines have no time of their own: where the clock stands still nobody can tell how long ago they came.
            self.quiet_since = now if now is not None and now > self.quiet_since else None
            self.changed = True
        self._responses += count
        self._answers_are_told = self._answers_are_told or count > 0
        if not self._before:
            self._go_on(count)

    def _go_on(self, answers: float) -> None:
        """Where no periodic line tells of intervals, some answers are one: what was recorded does not count forever."""
        over, rest = divmod(self.open.answered + answers, _ANSWERS_OF_AN_INTERVAL)
        if over:
            self.changed = self.changed or any(period.eventful for period in self.window())
        for _ in range(min(int(over), WINDOW + 1)):
            self.open.answered = _ANSWERS_OF_AN_INTERVAL
            self.closed.append(self.open)
            self.open = Period()
        self.open.answered = rest
        if over and not any(period.eventful for period in self.window()):
            self.failed_ranks.clear()  # a peer that does not fit would fail each request

    # -- records -------------------------------------------------------------------------------------------------------

    def failure(self, event: KvTransferFailure) -> None:
        """A failed handshake or transfer."""
        self.tried = True
        self.changed = True
        if event.reason == "aborted":
            return
        self._record().setups += event.reason == "handshake_setup"
        self.open.side_effects += event.reason in _SIDE_EFFECTS
        if event.reason not in _SIDE_EFFECTS:
            self.open.failed_attempts += 1
            for request in (event.request, *event.others):
                if request:
                    self.open.failed_requests = self._with(self.open.failed_requests, request)

    def check(self, event: KvCompatibility, head: Head) -> None:
        """A rank's compatibility check with its current peer."""
        self.changed = True
        who = head.origin.who
        if event.result == "passed":
            self.passed_ranks.add(who)
            self.failed_ranks.discard(who)
        else:
            self._record()
            self.failed_ranks.add(who)
            self.passed_ranks.discard(who)
            self.tried = True

    def peer_changed(self) -> None:
        """Another engine took the peer's place: it has not been checked yet."""
        self.changed = True
        self.passed_ranks.clear()
        self.failed_ranks.clear()

    def skipped(self, event: KvLoadSkipped, head: Head) -> None:
        """A worker says that a request's load failed."""
        self._record().skipped = self._with(self.open.skipped, event.request)
        self._skipped_at = head.time

    def recomputed(self, requests: float) -> None:
        """The scheduler says that it computes prompts again, whose KV did not come."""
        self._record().recomputed += requests
        self._reacts()

    def load_failed(self, requests: float) -> None:
        """The scheduler says that it fails requests whose KV did not come."""
        self._record().load_failed += requests
        self._reacts()

    def _reacts(self) -> None:
        """The scheduler has a word on failed loads after all: the step in which they were may have compiled."""
        self.ignores_loads = False
        for period in self.window():
            period.unanswered_loads = 0

    def expired(self) -> None:
        """A request's blocks were freed, and nobody had fetched them."""
        self._record().expired += 1

    def read_late(self) -> None:
        """Blocks were read after they had expired."""
        self._record().late_reads += 1

    def params_refused(self) -> None:
        """A request's transfer parameters were of no use to the engine."""
        self._record().params_refused += 1

    def _record(self) -> Period:
        """The period that a record belongs to."""
        self.changed = self.open.eventful = True
        return self.open

    def _with(self, requests: frozenset[str], request: str) -> frozenset[str]:
        return requests | {self._digest.of(request)} if len(requests) < _REQUEST_LIMIT else requests
