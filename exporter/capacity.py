"""What an engine holds from its start on: the size of its KV cache, its memory by part, its components and transfer plans."""

from collections.abc import Iterator
from itertools import chain

from exporter.counters import SERIES_LIMIT, Sample, trim
from parsers.events import (
    CeilingsTold,
    Component,
    KvCacheBytes,
    KvCacheSize,
    KvPools,
    KvTransferPlan,
    KvTransports,
    MemoryReport,
    MemoryUsed,
    StateCacheSlots,
)
from parsers.header import Head

_WHOLE = ""
"""Stands for all pools of a rank, where a line tells their sum."""

_OF_WINDOWS = {"full", "swa"}
_ROUNDS_LIMIT = 16  # a process loads a target and a draft model; a log that says more is no engine's


class Capacity:
    """Gauges of one engine process that stay until the next one starts."""

    STATE = ("_gauges", "_pools", "_rank_bytes", "_memory", "_compatible_ranks", "_pool_bytes", "_previous", "_reached")

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self._pools: dict[tuple[str, str], float] = {}
        """Tokens by engine of a data-parallel group, and pool."""
        self._rank_bytes: dict[str, float] = {}
        """Of the KV cache, by rank, where the engine told of all its pools together."""
        self._memory: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._compatible_ranks: dict[str, set[str]] = {}
        self._pool_bytes: dict[tuple[str, str], float] = {}
        """By rank and pool, where it told of each."""
        self._previous: dict[tuple[str, str], float] = {}
        """Sizes of the pools that the last process had which came so far, in tokens."""
        self._reached: dict[tuple[str, bool], tuple[str, ...]] = {}
        """By process, and whether the peer is on the same machine."""

    def forget(self) -> None:
        """Another process takes the place of the one before."""
        self._previous = dict(self._pools) or self._previous
        self._gauges.clear()
        self._pools.clear()
        self._rank_bytes.clear()
        self._memory.clear()
        self._compatible_ranks.clear()
        self._pool_bytes.clear()
        self._reached.clear()

    def component(self, event: Component, head: Head) -> None:
        """A library or a kernel backend in use."""
        self._set("component_info", 1, event.component, event.value)

    @property
    def transports(self) -> list[str]:
        """What the transport library says carries KV; nothing where it does not say."""
        return [labels[0] for family, labels in self._gauges if family == "kv_transport_info"]

    def kv_transfer_plan(self, event: KvTransferPlan, head: Head) -> None:
        """How ranks map to the remote ones."""
        self._set("kv_transfer_plan_info", 1, *event)

    def kv_transports(self, event: KvTransports, head: Head) -> None:
        """How each process reaches the peer that it connected to last, there and elsewhere."""
        self._reached[head.origin.who, event.local] = event.names
        self._gauges = {key: value for key, value in self._gauges.items() if key[0] != "kv_transport_info"}
        for name in chain.from_iterable(self._reached.values()):
            self._set("kv_transport_info", 1, name)

    def kv_cache_bytes(self, event: KvCacheBytes, head: Head) -> None:
        """One rank's share."""
        if event.bytes >= 0:  # a negative number is what is missing
            self._rank_bytes[head.origin.rank] = event.bytes

    def kv_cache_size(self, event: KvCacheSize, head: Head) -> None:
        """The pool of one engine."""
        if event.tokens is not None:
            self._pools[head.origin.dp_rank, event.pool] = event.tokens
        if event.concurrency is not None and event.request_tokens is not None:
            self._set("kv_cache_max_concurrency", event.concurrency, head.origin.dp_rank)

    def kv_pools(self, event: KvPools, head: Head) -> None:
        """Pools that lines of their own tell of: the first word of each counts, unless it is about a new size."""
        rank, dp_rank = head.origin.rank, head.origin.dp_rank
        self.free_memory(event.free, head)
        pools = self._named(event, rank, dp_rank)
        if "device" in pools and not event.resized and self._pools_of(dp_rank).keys() - {"device"}:
            return  # the draft model's: it is no second pool
        for pool, tokens in pools.items():
            if event.resized or (dp_rank, pool) not in self._pools:
                self._pools[dp_rank, pool] = tokens
        if event.bytes is not None:
            self._take_bytes(event, event.bytes, rank, "+".join(pools))

    def _take_bytes(self, event: KvPools, size: float, rank: str, pool: str) -> None:
        """One rank's bytes of a pool: the sum of all takes the place of what was told of each."""
        whole = (rank, _WHOLE) in self._pool_bytes
        if event.resized or (event.whole and not whole):
            self._pool_bytes = {key: each for key, each in self._pool_bytes.items() if key[0] != rank} | {(rank, _WHOLE): size}
            if event.resized:
                self._rank_bytes.pop(rank, None)
        elif not whole:
            self._pool_bytes.setdefault((rank, pool), size)

    def _named(self, event: KvPools, rank: str, dp_rank: str) -> dict[str, float]:
        """Pools by name: some lines tell of a pool that others named by its tokens alone."""
        tokens, known = event.tokens, self._pools_of(dp_rank)
        named = known.keys() - {"device"}
        if "device" not in tokens or not (event.resized or named == _OF_WINDOWS):  # else the draft model's pool may be as long
            return tokens
        same = [pool for pool in sorted(named) if known[pool] == tokens["device"]]
        same = [pool for pool in same if (rank, pool) not in self._pool_bytes] or same
        return {same[0]: tokens["device"]} if same else tokens

    def _pools_of(self, dp_rank: str) -> dict[str, float]:
        return {pool: tokens for (rank, pool), tokens in self._pools.items() if rank == dp_rank}

    def ceilings(self, event: CeilingsTold, head: Head) -> None:
        """The whole pool, for an engine that told of no pool in particular, and how many of the longest requests fit."""
        dp_rank = head.origin.dp_rank
        self.free_memory(event.free, head)
        if not self._pools_of(dp_rank):
            self._pools[dp_rank, "device"] = event.tokens
        if longest := float(event.settings["max_model_len"]):
            self._set("kv_cache_max_concurrency", event.tokens / longest, dp_rank)

    def state_cache(self, event: StateCacheSlots, head: Head) -> None:
        """The states of recurrent layers."""
        self._set("state_cache_slots", event.slots, head.origin.dp_rank)

    def phase_memory(self, memory: MemoryUsed, head: Head, *, alone: bool) -> None:
        """What one phase of one rank took: target and draft model add up. `alone` when there is no other rank."""
        mine = self._memory.setdefault((head.origin.rank, memory.part), {}).setdefault(head.origin.who, [])
        if not head.origin.who and not alone:
            mine.clear()  # without a process name a second line may be another rank's
        if len(mine) < _ROUNDS_LIMIT:
            mine.append(memory.bytes)

    def free_memory(self, free: float | None, head: Head) -> None:
        """What is left to a rank: the last word counts."""
        if free is not None:
            self._memory.setdefault((head.origin.rank, "free"), {})[head.origin.who] = [free]

    def memory_report(self, event: MemoryReport, head: Head) -> None:
        """A summary replaces what single phases told."""
        for part in event.parts:
            self._memory.setdefault((head.origin.rank, part.part), {})[head.origin.who] = [part.bytes]
        if event.kv_bytes is not None and event.kv_bytes >= 0:
            self._rank_bytes[head.origin.rank] = event.kv_bytes

    def compatible(self, connector: str, head: Head) -> None:
        """A rank passed the check with a remote engine."""
        self._compatible_ranks.setdefault(connector, set()).add(head.origin.who)

    @property
    def bytes_per_token(self) -> float | None:
        """Of one rank's KV cache, where the engine told its size both ways and has one kind of pool."""
        if not self._rank_bytes or not self._pools:
            return None
        (_, pool), tokens = next(reversed(self._pools.items()))
        alone = pool == "device" and all(pool == "device" for _, pool in self._pools)
        return min(self._rank_bytes.values()) / tokens if alone and tokens else None

    def pools(self) -> dict[str, float]:
        """Tokens by engine and pool."""
        return {f"dp_rank {dp_rank}, {pool}": tokens for (dp_rank, pool), tokens in self._pools.items()}

    def trim(self) -> int:
        """Keep the number of series in bounds; how many were dropped."""
        bounded = (self._gauges, self._pools, self._rank_bytes, self._memory, self._pool_bytes, self._reached)
        return sum(trim(each, SERIES_LIMIT) for each in bounded)

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        for (family, labels), value in self._gauges.items():
            yield Sample(family, labels, value)
        for labels, value in self._pools.items():
            yield Sample("kv_cache_size_tokens", labels, value)
        for rank, value in self._rank_bytes.items():
            yield Sample("kv_cache_size_bytes", (rank,), value)
        for labels, value in self._previous.items():
            yield Sample("kv_cache_size_previous_tokens", labels, value)
        for rank in dict.fromkeys(rank for rank, _ in self._pool_bytes):
            if rank in self._rank_bytes:
                continue  # told of all pools together: what is left is the draft model's
            yield Sample("kv_cache_size_bytes", (rank,), sum(size for (each, _), size in self._pool_bytes.items() if each == rank))
        for (rank, part), processes in self._memory.items():
            yield Sample("engine_memory_bytes", (rank, part), max(0.0, *map(sum, processes.values())))  # others may free memory meanwhile
        for connector, ranks in self._compatible_ranks.items():
            yield Sample("kv_compatible_ranks", (connector,), len(ranks))

    def _set(self, family: str, value: float, *labels: str) -> None:
        self._gauges[family, labels] = value
