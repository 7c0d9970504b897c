"""The ceilings of engines, from their logs."""

from collections.abc import Callable, Sequence

from exporter.analysis.inputs import saved_logs
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
    pools: dict[str, list[float]] = {}
    limits: dict[str, float] = {}
    for log in saved_logs(paths):
        source = source_of(log)
        for _ in read_all(log, source, damaged):
            pass
        for named in source.named_engines():
            if named.runtime in GATEWAYS:
                continue
            for family, labels, value in (*named.engine.capacity.samples(), *named.engine.settings.samples()):
                if family == "kv_cache_size_tokens":
                    pools.setdefault(labels[1], []).append(value)
                elif limit := _LIMITS.get(family):
                    limits[limit] = min(value, limits.get(limit, value))
    sizes = next((pools[pool] for pool in _WHOLE_POOLS if pool in pools), None)
    return Ceilings(pool_tokens=min(sizes) if sizes else None, **limits)
