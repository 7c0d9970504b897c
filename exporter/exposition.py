"""From samples to Prometheus families: a collector that reads a consistent snapshot at each scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from exporter.counters import Sample
from exporter.families import FAMILIES, PREFIX
from exporter.version import VERSION


class SourceSnapshot:
    """All samples of one source at one moment."""

    def __init__(self, name: str, runtime: str, labels: Mapping[str, str], samples: Iterable[Sample]) -> None:
        self.common = {"source": name, "runtime": runtime}
        self.labels = labels
        self.samples = list(samples)


class Snapshot(NamedTuple):
    """All that is exported at one moment: by source, and about the exporter itself."""

    sources: Sequence[SourceSnapshot]
    exporter: Sequence[Sample] = ()


class StoppingError(Exception):
    """There is no snapshot any more: the daemon is ending."""


class SnapshotCollector(Collector):
    """Makes new families at each scrape, so that a series that vanished is gone and goes stale at once."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        """`snapshot` gives everything as it is now."""
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """All families that have series."""
        sources, exporter = self._snapshot()
        static = sorted({label for source in sources for label in source.labels})
        rows: dict[str, list[tuple[list[str], float]]] = {}
        for source in sources:
            fixed = [source.labels.get(label, "") for label in static]
            for name, labels, value in source.samples:
                common = [source.common[label] for label in FAMILIES[name].common]
                rows.setdefault(name, []).append(([*common, *fixed, *labels], float(value)))
        for name, labels, value in (*exporter, Sample("build_info", (VERSION,), 1)):
            rows.setdefault(name, []).append((list(labels), float(value)))
        for name, family in FAMILIES.items():
            if name in rows:
                names = [*family.common, *(static if family.common else ()), *family.labels]
                made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                metric = made(PREFIX + name, family.help, labels=names)
                for values, value in sorted(rows[name]):
                    metric.add_metric(values, value)
                yield metric


def exposition(sources: Sequence[SourceSnapshot]) -> str:
    """The text exposition of saved logs."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: Snapshot(sources)))
    return generate_latest(registry).decode()
