"""Bugs of our own and logs without bounds: one event, one source and one family are lost at the most, and it shows."""

import logging
import typing

import pytest

from exporter import engine
from exporter.config import from_flags
from exporter.counters import SERIES_LIMIT, Digest
from exporter.daemon import Daemon
from exporter.engine import Engine
from exporter.faults import Faults
from parsers import events

from .conftest import API, READY, STOPPING, Reading, core, line, logo, stats

SECRET = "sk-what-the-user-wrote"


def broken(*arguments: object) -> None:
    """A bug."""
    raise KeyError(SECRET)


def test_every_event_has_a_handler() -> None:
    """A new event without one would be counted as a fault at each line."""
    taken = Engine(Faults("x"), Digest())._make_handlers()

    assert set(typing.get_args(events.Event)) - {events.Nothing} == set(taken)


def test_an_event_that_cannot_be_taken_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """What follows in the same read is counted, the fault too; its place is logged once and never the text."""
    reading = Reading()
    reading.source.engine._handlers[events.EngineStopping] = broken
    with caplog.at_level(logging.ERROR):
        reading.feed(logo(), STOPPING, STOPPING, stats(), READY)

    assert 2 == reading.value("source_faults_total")
    assert 1 == reading.value("engine_starts_total")
    assert 12.4 == reading.value("generation_tokens_per_second", "0")
    assert 1 == len(caplog.records)
    assert "KeyError in broken" in caplog.text
    assert SECRET not in caplog.text


def test_a_source_whose_samples_cannot_be_had_costs_no_other(tmp_path: typing.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scrape has the others, and the broken one says that it is."""
    for name in ("good", "bad"):
        (tmp_path / f"{name}.log").write_text(f"{logo()}\n{READY}\n")
    daemon = Daemon(from_flags(None, logs=[str(tmp_path / "good.log"), str(tmp_path / "bad.log")]))
    monkeypatch.setattr(daemon.sources["bad"].source.engine, "samples", broken)
    good, bad = daemon.snapshot().sources

    assert {"engine_starts_total", "source_up"} <= {each.family for each in good.samples}
    assert {"source_up": 1, "source_faults_total": 1} == {
        each.family: each.value for each in bad.samples if each.family in ("source_up", "source_faults_total", "engine_starts_total")
    }


def test_a_log_does_not_fill_prometheus() -> None:
    """A family has a thousand series at the most; the first ones stay, the others are counted as dropped."""
    backends = (line(f"Using B{number} attention backend out of potential backends: ['A', 'B']") for number in range(1500))
    reading = Reading().feed(logo(), READY, *backends)

    assert SERIES_LIMIT == len(reading.series("component_info"))
    assert 1 == reading.value("component_info", "attention_backend", "B0")
    assert 500 == reading.value("series_dropped_total")
    assert 1 == reading.value("engine_starts_total")


def test_names_of_processes_do_not_fill_the_memory() -> None:
    """Each line is another process's: they share one name when there are too many."""
    reading = Reading().feed(logo(), core(), READY)
    reading.feed(*(line("Graph capturing finished in 3 secs, took 0.5 GiB", f"Worker_TP{number} pid={number}") for number in range(5000)))

    (log,) = reading.source._files.values()
    assert len(log.log.streams[""]._origins) == 1024
    assert SERIES_LIMIT == len(reading.series("engine_memory_bytes"))
    assert 0 == reading.value("source_faults_total")


@pytest.mark.parametrize(
    "argument",
    [
        "'tensor_parallel_size': 1e999",
        "'tensor_parallel_size': 'nan'",
        "'tensor_parallel_size': " + "9" * 400,
        "'max_model_len': -1",
        "'max_model_len': '١٢'",
        "'block_size': inf, 'tensor_parallel_size': 0x10",
    ],
)
def test_settings_that_are_no_numbers_break_no_scrape(argument: str) -> None:
    """They are left out."""
    config = "kv_connector='NixlConnector', kv_role='kv_consumer'"
    words = f"non-default args: {{'model': '/models/m', {argument}, 'kv_transfer_config': KVTransferConfig({config})}}"
    reading = Reading().feed(logo(), line(words), READY, stats())

    assert 0 == reading.value("source_faults_total")
    assert "decode" == reading.one("pd_role")


def test_samples_change_nothing() -> None:
    """A scrape reads: the next one gives the same."""
    reading = Reading().feed(logo(), core(), line("x", API), READY, stats())

    assert list(reading.source.samples(None)) == list(reading.source.samples(None))
    assert engine.UNKNOWN_RUNTIME != reading.source.runtime
