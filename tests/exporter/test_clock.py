"""The zone of the log's clock: learnt from lines that have just been written, and from nothing else."""

import os
from pathlib import Path

import pytest

from exporter.config import from_flags
from exporter.daemon import Daemon

from .conftest import RANK0, READY, Reading, core, logo, stats, transfers

NOW = 1_784_000_000.0  # 2026-07-14 03:33:20 UTC


def live(reading: Reading, *lines: str, now: float) -> None:
    """Lines that are read as they are written."""
    reading.feed(*lines, arrival=now)
    reading.source.learn_zone(now)


@pytest.mark.parametrize(("printed", "zone"), [("03:33:20", 0), ("11:33:20", 28_800), ("09:03:20", 19_800), ("03:33:40", 0)])
def test_a_zone_is_learnt_from_a_live_line(printed: str, zone: int) -> None:
    """In quarters of an hour; a clock that is half a minute off is no zone."""
    reading = Reading().feed(logo(), core(), READY)
    live(reading, stats(printed), now=NOW)

    seconds = int(printed[:2]) * 3600 + int(printed[3:5]) * 60 + int(printed[6:]) - (3 * 3600 + 33 * 60 + 20)
    assert NOW + seconds - zone == reading.value("stats_timestamp_seconds", "0", now=NOW)


def test_a_line_without_a_time_teaches_no_zone() -> None:
    """An access line one hour after the last record must not look like another zone."""
    reading = Reading().feed(logo(), core(), READY)
    live(reading, stats("03:33:20"), now=NOW)
    live(reading, 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK', now=NOW + 3600)
    live(reading, "a line of nobody", now=NOW + 7200)

    assert NOW == reading.value("stats_timestamp_seconds", "0", now=NOW)


def test_lines_without_a_time_do_not_stop_the_logs_clock() -> None:
    """A compile is forgotten after a quarter of an hour, whatever access lines arrive meanwhile."""
    reading = Reading().feed(logo(), core(), READY)
    native = "2026-07-14 03:33:20  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): "
    begin = f"({RANK0}) {native}TileLang begins to compile kernel `f` with `out_idx=None`"
    live(reading, begin, now=NOW)
    assert 1 == reading.value("jit_in_progress", "tilelang", now=NOW + 800)
    live(reading, 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK', now=NOW + 850)

    assert 0 == reading.value("jit_in_progress", "tilelang", now=NOW + 1000)


@pytest.mark.parametrize("jump", [-7200.0, -30.0, 30.0, 7200.0])
def test_a_clock_that_jumps_takes_nothing_back(jump: float) -> None:
    """Counters stay, and the gauges of the line that comes next are there; between the two they may be absent."""
    reading = Reading().feed(logo(), core(), READY)
    live(reading, stats("03:33:20", running=3), transfers(4, "03:33:20"), now=NOW)
    assert 4 == reading.value("kv_transfers_total", "0", "nixl", now=NOW + jump)

    live(reading, stats("03:33:30", running=5), transfers(4, "03:33:30"), now=NOW + jump + 10)
    assert 5 == reading.value("requests_running", "0", now=NOW + jump + 10)
    assert 8 == reading.value("kv_transfers_total", "0", "nixl", now=NOW + jump + 10)
    assert None is reading.value("requests_running", "0", now=NOW + jump + 200)


def test_zone_of_a_history_is_learnt_from_when_the_file_was_written(tmp_path: Path) -> None:
    """A container's clock eight hours ahead: the engine is not from the future until it writes its next line."""
    log = tmp_path / "engine.log"
    log.write_text("\n".join((logo(), core(), READY, stats("11:33:20"))) + "\n")
    os.utime(log, (NOW + 3, NOW + 3))
    daemon = Daemon(from_flags(None, logs=[str(log)]))
    (snapshot,) = daemon.snapshot().sources

    assert [NOW] == [each.value for each in snapshot.samples if each.family == "stats_timestamp_seconds"]
