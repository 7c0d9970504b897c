"""Texts of families that are written anew only where they changed: byte for byte what the library writes."""

import math
from collections.abc import Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from exporter.counters import Sample
from exporter.encoder import encoder
from exporter.exposition import Snapshot, SnapshotCollector, SourceSnapshot

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
ACCEPTED = [
    "",
    "text/plain;version=0.0.4",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text",
    OPENMETRICS,
    *(f"{OPENMETRICS};escaping={how}" for how in ("allow-utf-8", "underscores", "dots", "values")),
]
_READY = Sample("engine_ready", (), 1)


def _starts(count: float) -> Sample:
    return Sample("engine_starts_total", (), count)


def _component(name: str, version: str) -> Sample:
    return Sample("component_info", (name, version), 1)


def _source(*samples: Sample, name: str = "a", runtime: str = "vllm", **labels: str) -> SourceSnapshot:
    return SourceSnapshot(name, runtime, labels, samples)


SCRAPES: dict[str, Sequence[Sequence[SourceSnapshot]]] = {
    "the same again": [[_source(_READY, _starts(2))]] * 3,
    "other values": [[_source(_starts(value))] for value in (0, 1, 2.5, 123456789, 1e21, 1e-9, -3, math.inf, -math.inf, math.nan)],
    "a series comes, goes and comes back": [[_source(_READY)], [_source(_READY, _starts(1))], [], [_source(_READY, _starts(2))]],
    "a source comes before the other": [[_source(_READY, name="b")], [_source(_READY), _source(_READY, name="b")]],
    "a runtime is learnt": [[_source(_READY, runtime="unknown")], [_source(_READY)]],
    "a label of the configuration is renamed": [[_source(_READY, team="x")], [_source(_READY, squad="x")], [_source(_READY)]],
    "two labels change places": [[_source(_READY, east="x", west="")], [_source(_READY, east="", west="x")]],
    "texts to be escaped": [
        [_source(_component("a b", text), name=text)]
        for text in ('"', "\\", "\n", "\r\n", " 1.0", "# EOF\n", "\x85", "\u2028", "ü", "{}", 'x"} 1', "")
    ],
}


class _Families:
    """What a registry has at one moment."""

    def __init__(self, sources: Sequence[SourceSnapshot]) -> None:
        self.sources = sources

    def collect(self) -> Iterator[Metric]:
        return SnapshotCollector(lambda: Snapshot(self.sources, [Sample("exporter_faults_total", (), 0)])).collect()


@pytest.mark.parametrize("scrapes", SCRAPES.values(), ids=SCRAPES)
@pytest.mark.parametrize("accept", ACCEPTED)
def test_writes_what_the_library_writes(accept: str, scrapes: Sequence[Sequence[SourceSnapshot]]) -> None:
    """At each scrape, whatever it remembers of those before."""
    encode, content_type = encoder(accept)
    library, library_content_type = choose_encoder(accept)

    assert library_content_type == content_type
    for sources in scrapes:
        assert library(_Families(sources)) == encode(_Families(sources))


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_nothing_to_write(accept: str) -> None:
    """A registry without collectors."""
    assert choose_encoder(accept)[0](CollectorRegistry()) == encoder(accept)[0](CollectorRegistry())


def test_a_series_is_written_once_and_forgotten_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a daemon would keep the text of all that it ever showed."""
    written: list[str] = []

    def library(families: Collector) -> bytes:
        found = [sample for family in families.collect() for sample in family.samples]
        written.extend(sample.labels["source"] for sample in found if "source" in sample.labels)
        return choose_encoder("")[0](families)

    monkeypatch.setattr("exporter.encoder.choose_encoder", lambda accept: (library, ""))
    encode, _ = encoder("")
    for names in ("a", "ab", "ab", "b", "ab"):
        encode(_Families([_source(_READY, name=name) for name in names]))

    assert ["a", "b", "a"] == written
