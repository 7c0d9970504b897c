"""What the batch lines of an SGLang engine tell: its load, its tokens, and which batches were only health probes."""

from collections.abc import Iterator

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
    """Tells the batches that health checks made: one small request to an idle engine, and the check's answer right behind."""

    STATE = ("_candidates",)

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._candidates: dict[str, float] = {}

    def batch(self, event: PrefillBatch, head: Head, page: int | None) -> None:
        """A prefill batch; `page` is the engine's page size, to which early releases round up."""
        small = event.computed in ((1, page) if page else _PAGES)
        if event.idle and small and head.time is not None and len(self._candidates) < _RANKS_LIMIT:
            self._candidates[head.origin.dp_rank] = head.time
        else:
            self._candidates.pop(head.origin.dp_rank, None)

    def requests(self) -> None:
        """Requests were answered, so that the last batches may be theirs."""
        self._candidates.clear()

    def answered(self, head: Head) -> None:
        """A health check was answered."""
        for dp_rank, at in self._candidates.items():
            if head.time is not None and 0 <= head.time - at <= _PROBE_SECONDS:
                del self._candidates[dp_rank]
                self._counters.add("probe_batches_total")
                return
