"""From samples to Prometheus families: a collector that reads a consistent snapshot at each scrape."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from exporter.counters import Sample
from exporter.families import FAMILIES, PREFIX
from exporter.version import VERSION


class SourceSnapshot:
    """All samples of one source at one moment."""

    def __init__(self, name: str, runtime: str, labels: dict[str, str], samples: Iterable[Sample]) -> None:
        self.name = name
        self.runtime = runtime
        self.labels = labels
        self.samples = list(samples)


class SnapshotCollector(Collector):
    """Makes new families at each scrape, so that a series that vanished is gone and goes stale at once."""

    def __init__(self, snapshot: Callable[[], list[SourceSnapshot]]) -> None:
        """`snapshot` gives the sources as they are now."""
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """All families that have series."""
        sources = self._snapshot()
        static = sorted({label for source in sources for label in source.labels})
        rows: dict[str, list[tuple[list[str], float]]] = {}
        for source in sources:
            fixed = [source.labels.get(label, "") for label in static]
            for name, labels, value in source.samples:
                runtime = [] if FAMILIES[name].own else [source.runtime]
                rows.setdefault(name, []).append(([source.name, *runtime, *fixed, *labels], float(value)))
        for name, family in FAMILIES.items():
            if name in rows:
                names = ["source", *([] if family.own else ["runtime"]), *static, *family.labels]
                made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                metric = made(PREFIX + name, family.help, labels=names)
                for values, value in sorted(rows[name]):
                    metric.add_metric(values, value)
                yield metric
        build = GaugeMetricFamily(PREFIX + "build_info", "The version of this exporter.", labels=["version"])
        build.add_metric([VERSION], 1)
        yield build


def exposition(sources: list[SourceSnapshot]) -> str:
    """The text exposition of saved logs."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: sources))
    return generate_latest(registry).decode()
