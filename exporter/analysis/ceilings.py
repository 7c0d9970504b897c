"""The ceilings of engines, from their logs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple

from exporter.analysis.inputs import SavedLog, saved_logs
from exporter.analysis.room import Ceilings
from exporter.gateway import GATEWAYS
from exporter.saved import read_all, source_of

_LIMITS = {
    "max_model_len_tokens": "max_model_len",
    "max_batched_tokens": "max_batched_tokens",
    "max_running_requests": "max_running_requests",
}
_WHOLE_POOLS = ("full", "device")
"""The pools that hold every token of a request."""


def of_logs(paths: Sequence[str], damaged: Callable[[str], None]) -> Ceilings:
    """Those of the last engine process in each log, of several engines the smallest: a request lives in one, or passes through both of a pair.

    `damaged` is told of files that end too early. Raises OSError.
    """
    engines = [astuple(each) for log in saved_logs(paths) for each in _of_log(log, damaged)]
    return Ceilings(*(min((each for each in column if each is not None), default=None) for column in zip(*engines, strict=True)))


def _of_log(log: SavedLog, damaged: Callable[[str], None]) -> Iterator[Ceilings]:
    """Those of each engine."""
    source = source_of(log)
    for _ in read_all(log, source, damaged):
        pass
    for named in source.named_engines():
        if named.runtime in GATEWAYS:
            continue
        pools: dict[str, float] = {}
        limits: dict[str, float] = {}
        for family, labels, value in (*named.engine.capacity.samples(), *named.engine.settings.samples()):
            if family == "kv_cache_size_tokens":
                pools[labels[1]] = min(value, pools.get(labels[1], value))
            elif family in _LIMITS:
                limits[_LIMITS[family]] = value
        yield Ceilings(pool_tokens=next((pools[pool] for pool in _WHOLE_POOLS if pool in pools), None), **limits)
