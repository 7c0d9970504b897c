"""What the batch lines of an SGLang engine tell: its load, its tokens, and which batches were only health probes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from exporter.counters import Counters, Sample
from parsers.events import DecodeBatch, PrefillBatch
from parsers.header import Head

_PROBE_SECONDS = 3.0  # the answer follows after a second, and the times are whole seconds
_PAGES = frozenset((1, 16, 32, 64, 128, 256))
_RANKS_LIMIT = 1000
_VERIFIED = {
    "cap": ("spec_cap_length",),
    "block": ("spec_block_acceptance_length",),
    "uncapped": ("spec_uncapped_acceptance_length", "mean"),
    "uncapped_low": ("spec_uncapped_acceptance_length", "low"),
    "uncapped_high": ("spec_uncapped_acceptance_length", "high"),
}
_RUN = 8  # candidates at one distance that are no chance
_JITTER = 0.1


def first_stage(head: Head) -> bool:
    """Whether a rank is of the first pipeline stage and context-parallel part: each of them prints the same batches."""
    return not any(part.startswith(("PP", "CP")) and part not in ("PP0", "CP0") for part in head.origin.rank.split("_"))


def prefill_samples(event: PrefillBatch, dp_rank: str) -> Iterator[Sample]:
    """The gauges of a prefill batch."""
    yield from _common_samples(event, dp_rank)
    if event.running is not None:
        yield Sample("requests_running", (dp_rank,), event.running)
    if event.rate is not None:
        yield Sample("prompt_tokens_per_second", (dp_rank,), event.rate)
    if event.hits is not None:
        yield Sample("prefix_cache_hit_ratio", (dp_rank, "local"), event.hits)


def decode_samples(event: DecodeBatch, dp_rank: str, method: str) -> Iterator[Sample]:
    """The gauges of a decode batch; `method` is how the engine speculates."""
    yield from _common_samples(event, dp_rank)
    yield Sample("requests_running", (dp_rank,), event.running)
    if event.rate is not None:
        yield Sample("generation_tokens_per_second", (dp_rank,), event.rate)
    if event.length is not None:
        yield Sample("spec_acceptance_length", (dp_rank, method), event.length)
    if event.ratio is not None:
        yield Sample("spec_acceptance_ratio", (dp_rank, method), event.ratio)
    for name, tokens in event.verified.items():
        family, *stat = _VERIFIED[name]
        yield Sample(family, (dp_rank, method, *stat), tokens)


def _common_samples(event: PrefillBatch | DecodeBatch, dp_rank: str) -> Iterator[Sample]:
    for queue, requests in event.queues.items():
        yield Sample("requests_waiting", (dp_rank, queue), requests)
    for pool, used in event.usage.items():
        yield Sample("kv_cache_usage_ratio", (dp_rank, pool), used)


class Probes:
    """Tells the batches that health checks made: one small request to an idle engine, and the check's answer right behind.

    Where no answer of a check is ever printed, it is the clockwork that gives them away: so many of them at one distance.
    """

    STATE = ("_candidates", "_answers_are_told", "_runs")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._candidates: dict[str, float] = {}
        self._answers_are_told = False
        self._runs: dict[str, list[tuple[float, float]]] = {}
        """By engine, times and tokens of candidates with nothing between them; those that were counted have no tokens any more."""

    def batch(self, event: PrefillBatch, head: Head, page: int | None) -> None:
        """A prefill batch; `page` is the engine's page size, to which early releases round up."""
        small = event.computed in ((1, page) if page else _PAGES)
        dp_rank = head.origin.dp_rank
        if event.idle and small and head.time is not None and len(self._runs) < _RANKS_LIMIT:
            self._candidates[dp_rank] = head.time
            run = self._runs.setdefault(dp_rank, [])
            run.append((head.time, event.computed))
            if not self._answers_are_told:
                self._look_for_clockwork(run)
            del run[:-_RUN]
        else:
            self._candidates.pop(dp_rank, None)
            self._runs.pop(dp_rank, None)

    def requests(self) -> None:
        """Requests were answered, so that the last batches may be theirs."""
        self._candidates.clear()
        self._runs.clear()

    def answered(self, head: Head) -> None:
        """A health check was answered."""
        self._answers_are_told = True
        for dp_rank, at in self._candidates.items():
            if head.time is not None and 0 <= head.time - at <= _PROBE_SECONDS:
                del self._candidates[dp_rank]
                self._count(self._runs.get(dp_rank, [(at, 0.0)])[-1:])
                return

    def _look_for_clockwork(self, run: list[tuple[float, float]]) -> None:
        gaps = [later - at for (at, _), (later, _) in pairwise(run[-_RUN:])]
        if len(gaps) == _RUN - 1 and min(gaps) > 0 and max(gaps) - min(gaps) <= max(2.0, _JITTER * median(gaps)):  # whole seconds
            self._count([each for each in run if each[1]])
            run[:] = [(at, 0.0) for at, _ in run]

    def _count(self, batches: Sequence[tuple[float, float]]) -> None:
        for _, tokens in batches:
            self._counters.add("probe_batches_total")
            self._counters.add("probe_tokens_total", by=tokens)
