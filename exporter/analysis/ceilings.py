"""An engine's ceilings, from its log."""

from exporter.analysis.inputs import DamagedError, chunks, saved_logs
from exporter.analysis.room import Ceilings
from exporter.gateway import GATEWAYS
from exporter.source import Source

_LIMITS = {
    "max_model_len_tokens": "max_model_len",
    "max_batched_tokens": "max_batched_tokens",
    "max_running_requests": "max_running_requests",
}
_WHOLE_POOLS = ("full", "device")
"""The pools that hold every token of a request. Of several engines in one log the smallest pool counts, since a request lives in one."""


def of_log(path: str) -> Ceilings:
    """Those of the last engine process in a log. Raises OSError."""
    [log] = saved_logs([path])
    source = Source(log.name, year=log.written.year, month=log.written.month)
    try:
        for data in chunks(path):
            source.feed(data)
    except DamagedError:
        pass  # what came before may have told them
    source.end_of_file()
    pools: dict[str, list[float]] = {}
    limits: dict[str, float] = {}
    for named in source.named_engines():
        if named.runtime in GATEWAYS:
            continue
        for family, labels, value in (*named.engine.capacity.samples(), *named.engine.settings.samples()):
            if family == "kv_cache_size_tokens":
                pools.setdefault(labels[1], []).append(value)
            elif family in _LIMITS:
                limits[_LIMITS[family]] = value
    sizes = next((pools[pool] for pool in _WHOLE_POOLS if pool in pools), None)
    return Ceilings(pool_tokens=min(sizes) if sizes else None, **limits)
