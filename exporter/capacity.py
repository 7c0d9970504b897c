"""What an engine holds from its start on: the size of its KV cache, its memory by part, its components and transfer plans."""

from collections.abc import Iterator

from exporter.counters import SERIES_LIMIT, Sample, trim
from parsers.events import (
    CeilingsTold,
    Component,
    KvCacheBytes,
    KvCacheSize,
    KvPools,
    KvTransferPlan,
    MemoryReport,
    MemoryUsed,
    StateCacheSlots,
)
from parsers.header import Head

_ROUNDS_LIMIT = 16  # a process loads a target and a draft model; a log that says more is no engine's


class Capacity:
    """Gauges of one engine process that stay until the next one starts."""

    STATE = ("_gauges", "_memory", "_compatible_ranks", "_pool_bytes")

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self._memory: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._compatible_ranks: dict[str, set[str]] = {}
        self._pool_bytes: dict[tuple[str, str], float] = {}

    def forget(self) -> None:
        """Another process takes the place of the one before."""
        self._gauges.clear()
        self._memory.clear()
        self._compatible_ranks.clear()
        self._pool_bytes.clear()

    def component(self, event: Component, head: Head) -> None:
        """A library or a kernel backend in use."""
        self._set("component_info", 1, event.component, event.value)

    def kv_transfer_plan(self, event: KvTransferPlan, head: Head) -> None:
        """How ranks map to the remote ones."""
        self._set("kv_transfer_plan_info", 1, *event)

    def kv_cache_bytes(self, event: KvCacheBytes, head: Head) -> None:
        """One rank's share."""
        if event.bytes >= 0:  # a negative number is what is missing
            self._set("kv_cache_size_bytes", event.bytes, head.origin.rank)

    def kv_cache_size(self, event: KvCacheSize, head: Head) -> None:
        """The pool of one engine."""
        if event.tokens is not None:
            self._set("kv_cache_size_tokens", event.tokens, head.origin.dp_rank, event.pool)
        if event.concurrency is not None and event.request_tokens is not None:
            self._set("kv_cache_max_concurrency", event.concurrency, head.origin.dp_rank)

    def kv_pools(self, event: KvPools, head: Head) -> None:
        """Pools that lines of their own tell of: the first word of each counts, unless it is about a new size."""
        rank, dp_rank = head.origin.rank, head.origin.dp_rank
        if "device" in event.tokens and not event.resized and self._has_named_pools(dp_rank):
            return  # the draft model's: it is no second pool
        for pool, tokens in event.tokens.items():
            if event.resized or ("kv_cache_size_tokens", (dp_rank, pool)) not in self._gauges:
                self._set("kv_cache_size_tokens", tokens, dp_rank, pool)
        if event.bytes is None:
            return
        if event.resized:
            self._pool_bytes = {key: size for key, size in self._pool_bytes.items() if key[0] != rank}
        self._pool_bytes.setdefault((rank, "+".join(event.tokens)), event.bytes)

    def _has_named_pools(self, dp_rank: str) -> bool:
        return any(family == "kv_cache_size_tokens" and labels[0] == dp_rank and labels[1] != "device" for family, labels in self._gauges)

    def ceilings(self, event: CeilingsTold, head: Head) -> None:
        """The whole pool, for an engine that told of no pool in particular, and how many of the longest requests fit."""
        dp_rank = head.origin.dp_rank
        if not any(family == "kv_cache_size_tokens" and labels[0] == dp_rank for family, labels in self._gauges):
            self._set("kv_cache_size_tokens", event.tokens, dp_rank, "device")
        if longest := float(event.settings["max_model_len"]):
            self._set("kv_cache_max_concurrency", event.tokens / longest, dp_rank)

    def state_cache(self, event: StateCacheSlots, head: Head) -> None:
        """The states of recurrent layers."""
        self._set("state_cache_slots", event.slots, head.origin.dp_rank)

    def phase_memory(self, memory: MemoryUsed, head: Head) -> None:
        """What one phase of one rank took: target and draft model add up."""
        mine = self._memory.setdefault((head.origin.rank, memory.part), {}).setdefault(head.origin.who, [])
        if not head.origin.who:
            mine.clear()  # without a process name a second line may be another rank's
        if len(mine) < _ROUNDS_LIMIT:
            mine.append(memory.bytes)

    def memory_report(self, event: MemoryReport, head: Head) -> None:
        """A summary replaces what single phases told."""
        for part in event.parts:
            self._memory.setdefault((head.origin.rank, part.part), {})[head.origin.who] = [part.bytes]
        if event.kv_bytes is not None and event.kv_bytes >= 0:
            self._set("kv_cache_size_bytes", event.kv_bytes, head.origin.rank)

    def compatible(self, connector: str, head: Head) -> None:
        """A rank passed the check with a remote engine."""
        self._compatible_ranks.setdefault(connector, set()).add(head.origin.who)

    def pools(self) -> dict[str, float]:
        """Tokens by engine and pool."""
        sizes = {labels: tokens for (family, labels), tokens in self._gauges.items() if family == "kv_cache_size_tokens"}
        return {f"dp_rank {dp_rank}, {pool}": tokens for (dp_rank, pool), tokens in sizes.items()}

    def trim(self) -> int:
        """Keep the number of series in bounds; how many were dropped."""
        return sum(trim(each, SERIES_LIMIT) for each in (self._gauges, self._memory, self._pool_bytes))

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        for (family, labels), value in self._gauges.items():
            yield Sample(family, labels, value)
        for rank in dict.fromkeys(rank for rank, _ in self._pool_bytes):
            yield Sample("kv_cache_size_bytes", (rank,), sum(size for (each, _), size in self._pool_bytes.items() if each == rank))
        for (rank, part), processes in self._memory.items():
            yield Sample("engine_memory_bytes", (rank, part), max(0.0, *map(sum, processes.values())))  # others may free memory meanwhile
        for connector, ranks in self._compatible_ranks.items():
            yield Sample("kv_compatible_ranks", (connector,), len(ranks))

    def _set(self, family: str, value: float, *labels: str) -> None:
        self._gauges[family, labels] = value
