"""Gauges that are only true while the engine prints its periodic lines."""

from collections import deque
from collections.abc import Iterable, Iterator
from statistics import median

from exporter.counters import SERIES_LIMIT, Sample, trim
from parsers.events import IntervalStats, KvTransferInterval, PrefixHits, SpecInterval
from parsers.header import Head

LEAST_SECONDS = 120.0
"""A gauge goes absent this long after its line, or after three intervals where those are longer."""

_INTERVALS = 3
_ENGINES_LIMIT = 1000
_LONGEST_INTERVAL = 600.0
_LEAST_DRAFTED = 20  # tokens in an interval whose acceptance is more than chance
_PAST = 180  # intervals: half an hour at ten seconds, of which a collapse moves the median after the half
_LEAST_PAST = 6


def drafts(event: SpecInterval) -> float:
    """Drafts in an interval. Drafted tokens over the draft length would be wrong: n-gram drafts vary in length."""
    if event.accepted and event.length and event.length > 1:
        return round(event.accepted / (event.length - 1))
    return round(event.drafted / len(event.positions)) if event.positions else 0


class IntervalGauges:
    """Last values of the periodic lines and when they came."""

    STATE = ("arrival", "last", "_stats", "_spec", "_transfers", "_prefix_hits", "_interval", "_values", "_acceptance")

    def __init__(self) -> None:
        self.arrival: float | None = None
        self.last: dict[str, Head] = {}
        self._stats: dict[str, tuple[IntervalStats, float | None]] = {}
        self._spec: dict[tuple[str, str], tuple[SpecInterval, float | None]] = {}
        self._transfers: dict[tuple[str, str], tuple[KvTransferInterval, float | None]] = {}
        self._prefix_hits: tuple[float, float | None] | None = None
        self._interval = 0.0
        self._values: dict[tuple[str, tuple[str, ...]], tuple[float, float | None]] = {}
        """Of lines of several forms, each value on its own: the next line may have others."""
        self._acceptance: dict[tuple[str, str], deque[float]] = {}
        """By engine and method, the ratios of the recent past."""

    def stats(self, event: IntervalStats, head: Head) -> Head | None:
        """The main line; returns the one before it of the same engine."""
        dp_rank = event.engine
        if known := self._stats.get(dp_rank):
            event = _complete(event, known[0])
        self._stats[dp_rank] = event, self.arrival
        return self._came(dp_rank, head)

    def values(self, samples: Iterable[Sample], dp_rank: str, head: Head) -> None:
        """A periodic line whose fields stand for themselves."""
        self._came(dp_rank, head)
        for family, labels, value in samples:
            self._values[family, labels] = (value, self.arrival)

    def _came(self, dp_rank: str, head: Head) -> Head | None:
        before = self.last.get(dp_rank)
        if before and before.time is not None and head.time is not None:
            self._interval = abs(head.time - before.time)
        self.last[dp_rank] = head
        return before

    def prefix_hits(self, event: PrefixHits) -> None:
        """A hit rate on a line of its own, of the only engine there is."""
        self._prefix_hits = (event.ratio, self.arrival)

    def spec(self, event: SpecInterval, labels: tuple[str, str]) -> None:
        """The line of speculative decoding, by engine and method; one without any draft tells no rates."""
        if event.drafted:
            self._spec[labels] = (event, self.arrival)
        if event.drafted >= _LEAST_DRAFTED:
            self.accepted(event.ratio, labels)

    def accepted(self, ratio: float, labels: tuple[str, str]) -> None:
        """The acceptance of one interval, to compare later ones with."""
        self._acceptance.setdefault(labels, deque(maxlen=_PAST)).append(ratio)

    def transfers(self, event: KvTransferInterval, labels: tuple[str, str]) -> None:
        """The connector's line, by engine and connector, when it had a transfer."""
        self._transfers[labels] = (event, self.arrival)

    def trim(self) -> int:
        """Keep the number of engines in bounds; how many were dropped."""
        dropped = sum(trim(each, _ENGINES_LIMIT) for each in (self.last, self._stats, self._spec, self._transfers, self._acceptance))
        return dropped + trim(self._values, SERIES_LIMIT)

    def samples(self, now: float | None) -> Iterator[Sample]:
        """Values that are still true at `now` (epoch); all of them when it is None."""
        limit = max(LEAST_SECONDS, _INTERVALS * min(self._interval, _LONGEST_INTERVAL))
        rows = [
            *((arrival, _stats_samples(dp_rank, stats)) for dp_rank, (stats, arrival) in self._stats.items()),
            *((arrival, _spec_samples(labels, spec)) for labels, (spec, arrival) in self._spec.items()),
            *((arrival, _transfer_samples(labels, transfers)) for labels, (transfers, arrival) in self._transfers.items()),
        ]
        if self._prefix_hits and not ("0" in self._stats and self._stats["0"][0].local_hits is not None):
            ratio, arrival = self._prefix_hits
            rows.append((arrival, iter((Sample("prefix_cache_hit_ratio", ("0", "local"), ratio),))))
        rows += [(arrival, iter((Sample(*series, value),))) for series, (value, arrival) in self._values.items()]
        for labels, ratios in self._acceptance.items():
            if len(ratios) >= _LEAST_PAST:
                yield Sample("spec_acceptance_baseline_ratio", labels, median(ratios))
        for arrival, samples in rows:
            if now is None or arrival is None or now - arrival <= limit:
                yield from samples


def _complete(event: IntervalStats, before: IntervalStats) -> IntervalStats:
    """Fields that the line leaves out: a queue is empty now, a hit rate had no new request."""
    if event.deferred is None and before.deferred is not None:
        event = event._replace(deferred=0.0)
    if event.kv_fetch is None and before.kv_fetch is not None:
        event = event._replace(kv_fetch=0.0)
    if event.local_hits is None and before.local_hits is not None:
        event = event._replace(local_hits=before.local_hits)
    if event.external_hits is None and before.external_hits is not None:
        event = event._replace(external_hits=before.external_hits)
    if event.multimodal_hits is None and before.multimodal_hits is not None:
        event = event._replace(multimodal_hits=before.multimodal_hits)
    return event


def _stats_samples(dp_rank: str, event: IntervalStats) -> Iterator[Sample]:
    values = (
        ("prompt_tokens_per_second", (), event.prompt_rate),
        ("generation_tokens_per_second", (), event.generation_rate),
        ("requests_running", (), event.running),
        ("requests_waiting", ("waiting",), event.waiting),
        ("requests_waiting", ("deferred",), event.deferred),
        ("requests_waiting", ("kv_fetch",), event.kv_fetch),
        ("requests_waiting", ("swapped",), event.swapped),
        ("kv_cache_usage_ratio", (event.pool,), event.kv_usage),
        ("kv_cache_usage_ratio", ("host",), event.host_usage),
        ("prefix_cache_hit_ratio", ("local",), event.local_hits),
        ("prefix_cache_hit_ratio", ("external",), event.external_hits),
        ("prefix_cache_hit_ratio", ("multimodal",), event.multimodal_hits),
    )
    for family, labels, value in values:
        if value is not None:
            yield Sample(family, (dp_rank, *labels), value)


def _spec_samples(labels: tuple[str, str], event: SpecInterval) -> Iterator[Sample]:
    if event.length is not None:
        yield Sample("spec_acceptance_length", labels, event.length)
    yield Sample("spec_acceptance_ratio", labels, event.ratio)
    for position, rate in enumerate(event.positions):
        yield Sample("spec_position_acceptance_ratio", (*labels, str(position)), rate)


def _transfer_samples(labels: tuple[str, str], event: KvTransferInterval) -> Iterator[Sample]:
    yield Sample("kv_transfer_duration_seconds", (*labels, "mean"), event.mean_seconds)
    yield Sample("kv_transfer_duration_seconds", (*labels, "p90"), event.p90_seconds)
    yield Sample("kv_transfer_throughput_bytes_per_second", labels, event.bytes_per_second)
    yield Sample("kv_transfer_descriptors", labels, event.descriptors)
