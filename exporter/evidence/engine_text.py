"""The few series of an engine's own /metrics that are evidence, out of the hundreds of kilobytes that it answers."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_SUMMED = {
    # vLLM. A request's prompt tokens and its first token are counted in the same step, when its prefill is over.
    "vllm:time_to_first_token_seconds_count": "requests",
    "vllm:generation_tokens_total": "generated",
    "vllm:nixl_xfer_time_seconds_count": "transfers",
    "vllm:nixl_num_failed_transfers_total": "failed",
    # SGLang, of whose transfers only those that failed are counted on the decode side
    "sglang:time_to_first_token_seconds_count": "requests",
    "sglang:generation_tokens_total": "generated",
    "sglang:num_bootstrap_failed_reqs_total": "failed_requests",
    "sglang:num_transfer_failed_reqs_total": "failed_requests",
}
_SOURCES = {"local_compute": "local", "local_cache_hit": "cached", "external_kv_transfer": "external"}
_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
_PREEMPTIONS = "vllm:num_preemptions_total"
_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:kv_cache_usage_perc": "usage",
    "sglang:num_running_reqs": "running",
    "sglang:token_usage": "usage",
}
_STARTED = "process_start_time_seconds"
_WANTED = tuple(name.encode() for name in (*_SUMMED, _BY_SOURCE, _PREEMPTIONS, *_GAUGES, _STARTED))
_MOST_LINES = 10_000
_MOST_LINE_BYTES = 4096
_MOST_ENGINES = 1024


class EngineFigures(NamedTuple):
    """Sums over the engines of a data-parallel group, by our own names."""

    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    preempted: Mapping[str, float]
    """By `dp_rank`."""
    started: float | None
    """When the process began that answers; unknown with several API servers."""


def is_wanted(line: bytes) -> bool:
    """Whether a line has a series that is evidence."""
    return line.startswith(_WANTED) and len(line) <= _MOST_LINE_BYTES


def figures(lines: Iterable[bytes]) -> EngineFigures:
    """Read wanted lines. Raises ValueError when they are no metrics of an engine that we know."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = list(lines)
    if len(lines) > _MOST_LINES:
        raise ValueError("too many series")
    counters: defaultdict[str, float] = defaultdict(float)
    gauges: defaultdict[str, float] = defaultdict(float)
    preempted: dict[str, float] = {}
    started = None
    for family in text_string_to_metric_families((b"\n".join(lines) + b"\n").decode()):
        for name, labels, value, *_ in family.samples:
            if not math.isfinite(value) or value < 0:
                raise ValueError("a value that no counter has")
            if name in _SUMMED:
                counters[_SUMMED[name]] += value
            elif name == _BY_SOURCE and labels.get("source") in _SOURCES:
                counters[_SOURCES[labels["source"]]] += value
            elif name == _PREEMPTIONS and len(preempted) < _MOST_ENGINES:
                rank = labels.get("engine", "")
                rank = rank if rank.isdecimal() and rank.isascii() and len(rank) <= len(str(_MOST_ENGINES)) else "0"
                preempted[rank] = preempted.get(rank, 0.0) + value
            elif name in _GAUGES:
                gauges[_GAUGES[name]] += value
            elif name == _STARTED:
                started = value
    if "generated" not in counters:
        raise ValueError("no engine's metrics")
    return EngineFigures(dict(counters), dict(gauges), preempted, started)
