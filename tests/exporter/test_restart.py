"""`inferlog run` that is killed and started again goes on as if it had never been away: real processes, real files."""

import json
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CORE, READY, Running, core, inferlog, line, logo, parsed, stats, transfers, wait_for

pytestmark = pytest.mark.slow

Start = Callable[..., Running]
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

BOOT = "".join(f"{each}\n" for each in (logo(), core(), line("GPU KV cache size: 640 tokens"), READY))
JIT = ("inferlog_jit_events_total", {"backend": "triton", "event": "compile", "phase": "serving"})


def compiled(kernel: str) -> str:
    """A kernel compiles while the engine serves; each name is a compile of its own."""
    text = f"Triton kernel JIT compilation during inference: {kernel}. This causes a latency spike; consider it."
    return line(text, level="WARNING", at="03:16:00") + "\n"


class Restarting:
    """A daemon on one log with a state file, which can be killed."""

    def __init__(self, run: Start, folder: Path) -> None:
        self._run = run
        self.log = folder / "engine.log"
        self.log.write_text(BOOT)
        self.state = folder / "state.json"
        self.start()

    def start(self, *arguments: str) -> Running:
        """Start it and wait until it serves."""
        self.daemon = self._run("--log", str(self.log), "--state-file", str(self.state), *arguments).wait_ready()
        return self.daemon

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self.daemon.kill()

    def append(self, text: str) -> None:
        """Write at the end of the log, as an engine does."""
        with self.log.open("a") as out:
            out.write(text)

    def jit(self) -> float | None:
        """Kernels compiled while serving."""
        name, labels = JIT
        return self.daemon.value(name, **labels)

    def series(self) -> Series:
        """What a scrape shows of the engine and its log."""
        return {key: value for key, value in parsed(self.daemon.get()[1]).items() if key[0].startswith("inferlog_")}

    def counters(self) -> Series:
        """Those that may never fall."""
        return {key: value for key, value in self.series().items() if key[0].endswith("_total")}


@pytest.fixture
def engine(run: Start, tmp_path: Path) -> Restarting:
    """A daemon that has read the start of an engine."""
    return Restarting(run, tmp_path)


def changes(before: Series, after: Series) -> dict[object, tuple[float | None, float | None]]:
    """Series that differ, but for those about this process and this moment."""
    of_the_process = ("inferlog_checkpoint_timestamp", "inferlog_config_last_reload_success_timestamp")
    names = {key for key in before.keys() | after.keys() if not key[0].startswith(of_the_process)}
    return {key: (before.get(key), after.get(key)) for key in names if before.get(key) != after.get(key)}


def test_a_killed_daemon_goes_on(engine: Restarting) -> None:
    """Counters, gauges, readiness, the verdict: all as before, and what was written meanwhile counts once."""
    engine.append(f"{stats()}\n{transfers(4)}\n" + compiled("a"))
    before = engine.series()
    assert engine.jit() == 1
    engine.kill()
    engine.start()
    assert changes(before, engine.series()) == {}

    engine.kill()
    engine.append(compiled("b"))
    engine.start()
    engine.daemon.wait_value(2, *JIT[:1], **JIT[1])
    assert 1 == engine.daemon.value("inferlog_engine_starts_total")


def test_nothing_that_was_shown_is_taken_back(engine: Restarting) -> None:
    """Killed right after a scrape, time after time: the state was on its way before the answer."""
    for number in range(5):
        engine.append(compiled(f"kernel_{number}"))
        before = engine.counters()
        engine.kill()
        engine.start()
        after = engine.counters()
        assert changes(before, after) == {}
        assert engine.jit() == number + 1


def test_without_a_scrape_the_state_is_saved_by_itself(engine: Restarting) -> None:
    """Else a kill would cost the work since the last scrape."""
    engine.append(compiled("a"))
    size = engine.log.stat().st_size

    def offset() -> int:
        files = json.loads(engine.state.read_text())["sources"]["engine"]["files"]
        return json.dumps(files).count(str(size))

    wait_for(lambda: engine.state.exists() and offset(), "the state to reach the end of the log")


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_half_a_line_is_completed_by_the_next_process(engine: Restarting, cut: int) -> None:
    """Its beginning is read again from the file: no text is in the state."""
    text = compiled("unmistakable_kernel")
    engine.append(text[:cut])
    engine.daemon.get()
    engine.kill()
    assert "JIT compilation" not in engine.state.read_text()
    engine.append(text[cut:])
    engine.start()
    engine.daemon.wait_value(1, *JIT[:1], **JIT[1])
    assert engine.log.stat().st_size == engine.daemon.value("inferlog_source_read_bytes_total")


def test_a_compile_that_began_before_the_kill_ends_after_it(engine: Restarting) -> None:
    """Its duration spans the two processes."""
    begin = "2026-07-14 03:16:00  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins to compile kernel `k` with `out_idx=None`\n"
    end = "2026-07-14 03:16:33  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:145): TileLang completes to compile kernel `k`\n"
    engine.append(begin)
    assert 1 == engine.daemon.value("inferlog_jit_in_progress", backend="tilelang")
    engine.kill()
    engine.append(end)
    engine.start()
    engine.daemon.wait_value(33, "inferlog_jit_seconds_total", backend="tilelang", phase="serving")
    assert 0 == engine.daemon.value("inferlog_jit_in_progress", backend="tilelang")


def test_the_log_was_rotated_while_nobody_looked(engine: Restarting) -> None:
    """Renamed twice, the older one packed: each line counts once."""
    engine.append(compiled("a"))
    assert engine.jit() == 1
    engine.kill()
    engine.append(compiled("b"))
    engine.log.rename(f"{engine.log}.1")
    engine.log.write_text(compiled("c"))
    shutil.move(f"{engine.log}.1", f"{engine.log}.2")
    engine.log.rename(f"{engine.log}.1")
    engine.log.write_text(compiled("d"))
    engine.start()
    engine.daemon.wait_value(4, *JIT[:1], **JIT[1])
    assert 2 == engine.daemon.value("inferlog_source_rotations_total")
    assert 0 == engine.daemon.value("inferlog_source_lost_bytes_total")


def test_sigterm_reads_what_is_there_and_ends_within_two_seconds(engine: Restarting) -> None:
    """Also in the middle of a scrape; the next process has nothing to read again."""
    threading.Thread(target=engine.daemon.get, daemon=True).start()
    engine.append("".join(compiled(f"kernel_{number}") for number in range(2000)))
    began = time.monotonic()
    engine.daemon.process.send_signal(signal.SIGTERM)
    assert 0 == engine.daemon.process.wait(10)
    assert time.monotonic() - began < 2

    before = json.loads(engine.state.read_text())
    engine.start()
    engine.daemon.wait_value(2000, *JIT[:1], **JIT[1])
    assert before["sources"]["engine"]["files"] == json.loads(engine.state.read_text())["sources"]["engine"]["files"]


def test_a_second_daemon_on_the_state_file_is_refused(engine: Restarting) -> None:
    """At once, with one line that says why; the first one is not disturbed."""
    second = inferlog("run", "--log", str(engine.log), "--state-file", str(engine.state), "--web.listen-address", "127.0.0.1:0")
    assert second.returncode == 2
    assert f"inferlog: {engine.state}: another inferlog uses this state file\n" == second.stderr.decode()
    assert 1 == engine.daemon.value("inferlog_engine_ready")


def test_a_damaged_state_file_is_kept_aside_and_said(engine: Restarting) -> None:
    """Also where the file is whole JSON and its content no state: the log is read from its beginning."""
    engine.append(compiled("a"))
    assert engine.jit() == 1
    engine.kill()
    engine.state.write_bytes(engine.state.read_bytes()[:-200])
    engine.start()
    assert engine.jit() == 1
    assert f"{engine.state}: damaged; kept as state.json.unusable-" in engine.daemon.errors.read_text()
    assert len(list(engine.state.parent.glob("state.json.unusable-*"))) == 1


def test_a_state_that_does_not_fit_is_kept_aside(engine: Restarting) -> None:
    """As another version's might be that forgot to raise its schema."""
    from exporter.checkpoint import StateFile

    engine.append(compiled("a"))
    assert engine.jit() == 1
    engine.kill()
    file = StateFile(engine.state)
    states = file.load()
    states["engine"]["source"]["known_engines"][""]["counters"]["totals"] = ["no", "counters"]
    assert file.save({name: json.dumps(state) for name, state in states.items()})
    file.close()
    engine.start()
    assert engine.jit() == 1
    assert "damaged" in engine.daemon.errors.read_text()


def test_a_full_disk_stops_nothing(engine: Restarting) -> None:
    """It goes on counting, says so once, tells it as a metric, and saves again when there is room."""
    pid = engine.daemon.process.pid
    assert engine.jit() == 0
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (16, limits[1]))
    engine.append(compiled("a"))
    engine.daemon.wait_value(1, *JIT[:1], **JIT[1])
    engine.append(compiled("b"))
    engine.daemon.wait_value(2, *JIT[:1], **JIT[1])
    failures = engine.daemon.value("inferlog_checkpoint_failures_total")
    assert failures
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    engine.append(compiled("c"))
    engine.daemon.wait_value(3, *JIT[:1], **JIT[1])
    after = engine.daemon.value("inferlog_checkpoint_failures_total")
    assert after == engine.daemon.value("inferlog_checkpoint_failures_total")
    engine.kill()
    engine.start()
    assert engine.jit() == 3
    assert after == engine.daemon.value("inferlog_checkpoint_failures_total")


def test_a_state_file_that_cannot_be_written_stops_nothing(run: Start, tmp_path: Path) -> None:
    """A path through a file: nothing can be made there."""
    log = tmp_path / "engine.log"
    log.write_text(BOOT)
    daemon = run("--log", str(log), "--state-file", str(log / "state.json")).wait_ready()
    assert 1 == daemon.value("inferlog_engine_ready")
    assert daemon.value("inferlog_checkpoint_failures_total")
    assert daemon.value("inferlog_checkpoint_timestamp_seconds") is None
    assert daemon.errors.read_text().count("cannot be written") == 1


def test_the_same_log_on_another_file_system_goes_on(engine: Restarting) -> None:
    """Device and inode are others after a move; what was read is the same."""
    engine.append("".join(f"{line(f'Record {number}', CORE)}\n" for number in range(50)) + compiled("a"))
    assert engine.jit() == 1
    engine.kill()
    copy = engine.log.with_suffix(".copy")
    shutil.copy2(engine.log, copy)
    inode = engine.log.stat().st_ino
    os.replace(copy, engine.log)
    assert engine.log.stat().st_ino != inode
    engine.append(compiled("b"))
    engine.start()
    engine.daemon.wait_value(2, *JIT[:1], **JIT[1])


def test_standard_input_is_not_in_the_state(run: Start, tmp_path: Path) -> None:
    """What came that way comes again from whoever writes it: counting on would count it twice."""
    state = tmp_path / "state.json"
    daemon = run("--log", "-", "--state-file", str(state)).wait_ready()
    daemon.get()
    assert {} == json.loads(state.read_text())["sources"]


def test_start_at_end_is_about_the_first_start(engine: Restarting) -> None:
    """What was written while it was away is new."""
    engine.daemon.get()
    engine.kill()
    engine.append(compiled("a"))
    engine.start("--start-at", "end")
    engine.daemon.wait_value(1, *JIT[:1], **JIT[1])


def test_a_path_that_was_taken_out_while_it_was_away_is_left_alone(run: Start, tmp_path: Path) -> None:
    """What it gave stays counted, and nothing more of it is read."""
    a, b, config, state = (tmp_path / name for name in ("a.log", "b.log", "inferlog.yaml", "state.json"))
    for log in (a, b):
        log.write_text(BOOT)
    config.write_text("sources: [{name: engine, paths: [a.log, b.log]}]")
    daemon = run("--config", str(config), "--state-file", str(state)).wait_ready()
    assert 8 == daemon.value("inferlog_log_lines_total")
    daemon.kill()
    config.write_text("sources: [{name: engine, paths: [a.log]}]")
    for log in (a, b):
        with log.open("a") as out:
            out.write(compiled(log.stem))
    daemon = run("--config", str(config), "--state-file", str(state)).wait_ready()
    daemon.wait_value(9, "inferlog_log_lines_total")
    assert 1 == daemon.value(JIT[0], **JIT[1])
