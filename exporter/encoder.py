"""The text of families, for who scrapes again and again."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

Encode: TypeAlias = Callable[[Collector], bytes]


def encoder(accept: str) -> tuple[Encode, str]:
    """For what a client accepts: how to write it, to be used again for the next scrape, and its content type."""
    encode, content_type = choose_encoder(accept)
    return _Remembering(encode), content_type


class _Remembering:
    """Writes what the library's `encode` writes of families that have series.

    Names and labels, escaped and put in order, were over half of a scrape's cost. The library writes a series once; as long
    as it is there, only its value is written anew.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._end = encode(CollectorRegistry())
        self._heads: dict[str, str] = {}
        self._series: dict[tuple[str, ...], str] = {}

    def __call__(self, families: Collector) -> bytes:
        """The text of all families."""
        series, texts = {}, []
        for metric in families.collect():
            lines = []
            for sample in metric.samples:
                labels = sample.labels
                key = (sample.name, *labels, *labels.values())
                series[key] = before = self._series.get(key) or self._written(metric, sample)
                value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
                lines.append(f"{before} {value}\n")
            texts += [self._heads[metric.name], *lines]
        self._series = series  # without those that are gone
        return "".join(texts).encode() + self._end

    def _written(self, metric: Metric, sample: Sample) -> str:
        """What stands before the value of a series."""
        text = self._encode(_Only(metric, sample)).removesuffix(self._end).decode()
        head, _, line = text.removesuffix("\n").rpartition("\n")
        self._heads[metric.name] = f"{head}\n"
        return line.rpartition(" ")[0]


class _Only(Collector):
    """One series of a family."""

    def __init__(self, metric: Metric, sample: Sample) -> None:
        self._metric = Metric(metric.name, metric.documentation, metric.type, metric.unit)
        self._metric.samples = [sample]

    def collect(self) -> Iterable[Metric]:
        return [self._metric]
