"""What an engine holds from its start on: the size of its KV cache, its memory by part, its components and transfer plans."""

from collections.abc import Iterator

from exporter.counters import SERIES_LIMIT, Sample, trim
from parsers.events import Component, KvCacheBytes, KvCacheSize, KvTransferPlan, MemoryReport, MemoryUsed
from parsers.header import Head

_ROUNDS_LIMIT = 16  # a process loads a target and a draft model; a log that says more is no engine's


class Capacity:
    """Gauges of one engine process that stay until the next one starts."""

    STATE = ("_gauges", "_memory", "_compatible_ranks")

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self._memory: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._compatible_ranks: dict[str, set[str]] = {}

    def forget(self) -> None:
        """Another process takes the place of the one before."""
        self._gauges.clear()
        self._memory.clear()
        self._compatible_ranks.clear()

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

    def trim(self) -> int:
        """Keep the number of series in bounds; how many were dropped."""
        return trim(self._gauges, SERIES_LIMIT) + trim(self._memory, SERIES_LIMIT)

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        for (family, labels), value in self._gauges.items():
            yield Sample(family, labels, value)
        for (rank, part), processes in self._memory.items():
            yield Sample("engine_memory_bytes", (rank, part), max(0.0, *map(sum, processes.values())))  # others may free memory meanwhile
        for connector, ranks in self._compatible_ranks.items():
            yield Sample("kv_compatible_ranks", (connector,), len(ranks))

    def _set(self, family: str, value: float, *labels: str) -> None:
        self._gauges[family, labels] = value
