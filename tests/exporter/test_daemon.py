"""`inferlog run` as a process of its own: history, growth, rotation, standard input, signals, addresses."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.config import from_flags
from exporter.daemon import Daemon

from .conftest import READY, Running, core, demo_log, free_port, inferlog, line, logo, parsed, selected, stats, transfers, wait_for

pytestmark = pytest.mark.slow

Start = Callable[..., Running]

BOOT = "".join(f"{each}\n" for each in (logo(), core(), line("GPU KV cache size: 640 tokens"), READY))
WARNING = (
    line("Triton kernel JIT compilation during inference: {}. This causes a latency spike; consider it.", level="WARNING", at="03:16:00")
    + "\n"
)
NUMBER = 400


def records(first: int, number: int) -> str:
    """Distinct records: a truncated file that was filled again is known by its content."""
    return "".join(f"{line(f'Record {each}', at='03:15:00')}\n" for each in range(first, first + number))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of an engine that came up."""
    path = tmp_path / "engine.log"
    path.write_text(BOOT)
    return path


def append(log: Path, text: str) -> None:
    """Write at the end, as an engine does."""
    with log.open("a") as out:
        out.write(text)


# -- history and growth ------------------------------------------------------------------------------------------------


def test_history_is_counted_and_metrics_are_503_until_it_is_read(run: Start, tmp_path: Path) -> None:
    """No scrape sees half a history: every answer is 503 or has all of it."""
    big = tmp_path / "big.log"
    big.write_text(BOOT + WARNING.format("kernel") + records(0, 100_000))
    daemon = run("--log", str(big))
    answers: list[tuple[int, str]] = []

    def served() -> bool:
        answers.append(daemon.get())
        return answers[-1][0] == 200

    wait_for(served, "the first metrics")

    assert {0, 503, 200} >= {status for status, _ in answers}
    assert not [text for status, text in answers if status == 503 and "inferlog_" in text]
    assert [100_004.0] == selected(answers[-1][1], "inferlog_log_lines_total", level="INFO", source="big")
    assert 1 == daemon.value("inferlog_engine_starts_total")
    assert 1 == daemon.value("inferlog_jit_events_total", backend="triton", phase="serving")
    assert big.stat().st_size == daemon.value("inferlog_source_read_bytes_total")


def test_appended_lines_become_visible(run: Start, log: Path) -> None:
    """The incident that this is for: ready, then a compile."""
    daemon = run("--log", str(log)).wait_ready()
    assert 0 == daemon.value("inferlog_jit_events_total", backend="triton", event="compile", phase="serving")

    append(log, WARNING.format("a"))
    daemon.wait_value(1, "inferlog_jit_events_total", backend="triton", event="compile", phase="serving")

    append(log, WARNING.format("b")[:40])
    append(log, WARNING.format("b")[40:])
    daemon.wait_value(2, "inferlog_jit_events_total", backend="triton", event="compile", phase="serving")


def test_a_scrape_shows_what_was_written_before_it(run: Start, log: Path) -> None:
    """Without waiting for the reader: the scrape itself reads."""
    daemon = run("--log", str(log)).wait_ready()
    for count in range(1, 21):
        append(log, WARNING.format(f"kernel_{count}"))
        assert count == daemon.value("inferlog_jit_events_total", backend="triton", event="compile", phase="serving")


def test_start_at_end_leaves_the_history_out(run: Start, log: Path) -> None:
    """Only what is new counts then."""
    daemon = run("--log", str(log), "--start-at", "end").wait_ready()
    append(log, WARNING.format("a"))
    daemon.wait_value(1, "inferlog_jit_events_total", backend="triton", event="compile", phase="serving")

    assert not daemon.value("inferlog_engine_starts_total")


def test_file_that_appears_later_is_followed(run: Start, tmp_path: Path) -> None:
    """The exporter starts before the engine: it is ready, and the source is down until the file is there."""
    log = tmp_path / "later.log"
    daemon = run("--log", str(log)).wait_ready()
    assert 0 == daemon.value("inferlog_source_up", source="later")

    log.write_text(BOOT)
    daemon.wait_value(1, "inferlog_engine_ready", source="later")
    assert 1 == daemon.value("inferlog_source_up", source="later")


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_a_log_that_cannot_be_read_is_told_at_the_start(run: Start, tmp_path: Path, kind: str) -> None:
    """A path with a typing error must not look like a quiet engine."""
    log = tmp_path / "engine.log"
    if kind == "directory":
        log.mkdir()
    daemon = run("--log", str(log)).wait_ready()

    assert f"source engine: no log that can be read at {log} yet" in daemon.errors.read_text()
    assert 0 == daemon.value("inferlog_source_up")


def test_several_logs_are_several_sources(run: Start, log: Path, tmp_path: Path) -> None:
    """Each with a name of its own."""
    other = tmp_path / "other.log"
    other.write_text(f"{logo()}\n")
    daemon = run("--log", str(log), "--log", str(other)).wait_ready()

    assert 1 == daemon.value("inferlog_engine_ready", source="engine")
    assert 0 == daemon.value("inferlog_engine_ready", source="other")


def test_periodic_gauges_of_an_old_log_are_absent_and_its_counters_there(run: Start, log: Path) -> None:
    """What was written an hour ago is no longer true; what was counted is."""
    append(log, f"{stats()}\n{transfers(4)}\n")
    before = os.stat(log).st_mtime - 3600
    os.utime(log, (before, before))
    daemon = run("--log", str(log)).wait_ready()

    assert None is daemon.value("inferlog_requests_running")
    assert 4 == daemon.value("inferlog_kv_transfers_total")
    assert 640 == daemon.value("inferlog_kv_cache_size_tokens")


def test_configuration_file_names_sources_and_labels(run: Start, log: Path, tmp_path: Path) -> None:
    """Static labels, a role, a path of its own."""
    config = tmp_path / "inferlog.yaml"
    config.write_text(
        f"web: {{telemetry_path: /m}}\nsources: [{{name: decode-0, path: {log.name}, pd_role: decode, labels: {{pd_group: g1}}}}]\n",
    )
    daemon = run("--config", str(config)).wait_ready()

    assert 404 == daemon.get("/metrics")[0]
    status, text = daemon.get("/m")
    assert 200 == status
    assert [1.0] == selected(text, "inferlog_pd_role", source="decode-0", pd_group="g1", role="decode")


def test_metrics_of_the_daemon_are_those_of_one_shot_reading(run: Start, tmp_path: Path) -> None:
    """One code path: apart from gauges that expired and the exporter's own series, nothing differs."""
    log = tmp_path / "pd-decode.log"
    log.write_bytes(Path(demo_log("pd-decode")).read_bytes())
    once = parsed(inferlog("metrics", str(log)).stdout.decode())
    live = parsed(run("--log", str(log)).wait_ready().get()[1])

    lines = "inferlog_log_lines_total"  # has a test of its own: reading to the end counts a line too many
    same = {key: value for key, value in once.items() if key[0].endswith("_total") and key[0].startswith("inferlog_") and key[0] != lines}
    assert len(same) > 40
    assert same == {key: live.get(key) for key in same}


# -- rotation ----------------------------------------------------------------------------------------------------------


def test_rename_rotation_while_writing_loses_nothing(run: Start, log: Path) -> None:
    """The writer is renamed away from five times, and every line is counted once."""
    daemon = run("--log", str(log)).wait_ready()
    before = daemon.value("inferlog_log_lines_total", level="INFO")
    assert before
    pause = threading.Event()
    for number in range(NUMBER):
        if number and number % (NUMBER // 5) == 0:
            os.rename(log, log.with_name(f"engine.log.{number}"))
        append(log, records(number, 1))
        pause.wait(0.001)

    daemon.wait_value(before + NUMBER, "inferlog_log_lines_total", level="INFO")
    assert 4 == daemon.value("inferlog_source_rotations_total")
    assert 0 == daemon.value("inferlog_source_lost_bytes_total")


def test_truncation_between_writes_loses_nothing(run: Start, log: Path) -> None:
    """The log is cut to nothing once its lines were seen, and its writer goes on."""
    daemon = run("--log", str(log)).wait_ready()
    expected = daemon.value("inferlog_log_lines_total", level="INFO")
    assert expected
    for number in range(4):
        append(log, records(number * 50, 50))
        expected += 50
        daemon.wait_value(expected, "inferlog_log_lines_total", level="INFO")
        os.truncate(log, 0)

    append(log, records(NUMBER, 1))
    daemon.wait_value(expected + 1, "inferlog_log_lines_total", level="INFO")
    assert 4 == daemon.value("inferlog_source_truncations_total")
    assert 0 == daemon.value("inferlog_source_lost_bytes_total")


def test_copytruncate_while_writing_loses_nothing(run: Start, log: Path) -> None:
    """As logrotate does it: what was not read yet stands in the copy."""
    daemon = run("--log", str(log)).wait_ready()
    before = daemon.value("inferlog_log_lines_total", level="INFO")
    assert before
    for number in range(4):
        append(log, records(number * 101, 100))
        log.with_name(f"engine.log.{number}").write_bytes(log.read_bytes())
        os.truncate(log, 0)
        append(log, records(number * 101 + 100, 1))

    daemon.wait_value(before + 404, "inferlog_log_lines_total", level="INFO")
    assert 0 == daemon.value("inferlog_source_lost_bytes_total")


# -- standard input ----------------------------------------------------------------------------------------------------


def test_standard_input_is_followed(run: Start) -> None:
    """`kubectl logs -f POD | inferlog run --log -`; the daemon goes on when the stream ends."""
    daemon = run("--log", "-", stdin=subprocess.PIPE).wait_ready()
    pipe = daemon.process.stdin
    assert pipe
    pipe.write(BOOT.encode())
    pipe.flush()
    daemon.wait_value(1, "inferlog_engine_ready", source="stdin")

    pipe.write(WARNING.format("a").encode())
    pipe.flush()
    daemon.wait_value(1, "inferlog_jit_events_total", backend="triton", event="compile", phase="serving")

    pipe.close()
    daemon.wait_value(0, "inferlog_source_up", source="stdin")
    assert 1 == daemon.value("inferlog_engine_ready")


def test_last_line_of_standard_input_counts_without_a_line_break(run: Start) -> None:
    """Nothing more will follow it."""
    daemon = run("--log", "-", stdin=subprocess.PIPE).wait_ready()
    assert daemon.process.stdin
    daemon.process.stdin.write(BOOT.rstrip("\n").encode())
    daemon.process.stdin.close()
    daemon.wait_value(0, "inferlog_source_up", source="stdin")

    assert 1 == daemon.value("inferlog_engine_ready")


# -- several files of one source ---------------------------------------------------------------------------------------


def test_half_a_line_of_one_file_does_not_spoil_the_other(tmp_path: Path) -> None:
    """A source may have stdout and stderr in two files, and either may end in half a line."""
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    text = WARNING.format("kernel_a")
    first.write_text(text[:40])
    second.write_text("")
    daemon = Daemon(from_flags(None, logs=[str(tmp_path / "*.log")]))
    daemon.start()
    try:
        daemon.snapshot()
        append(second, WARNING.format("kernel_b"))
        daemon.snapshot()
        append(first, text[40:])
        (snapshot,) = daemon.snapshot().sources
    finally:
        daemon.stop()

    compiles = [
        each.value for each in snapshot.samples if each.family == "jit_events_total" and each.labels == ("triton", "compile", "serving")
    ]
    assert [2] == compiles


def test_a_scrape_need_not_wait_until_a_history_is_read(tmp_path: Path) -> None:
    """A reader that is far behind gives way: else health of a whole pod would be unknown as long."""
    small, big = tmp_path / "small.log", tmp_path / "big.log"
    small.write_text(BOOT)
    big.write_text(BOOT + records(0, 300_000))
    daemon = Daemon(from_flags(None, logs=[str(small), str(big)]))
    daemon.start()
    try:
        snapshots = [daemon.snapshot().sources for _ in range(3)]
        assert not daemon.ready
    finally:
        daemon.stop()

    for (snapshot,) in snapshots:  # half a history is not shown
        assert snapshot.common["source"] == "small"
        assert [small.stat().st_size] == [each.value for each in snapshot.samples if each.family == "source_read_bytes_total"]


# -- signals and addresses ---------------------------------------------------------------------------------------------


def test_sigterm_ends_with_0(run: Start, log: Path) -> None:
    """An orderly end, and nothing on standard output."""
    daemon = run("--log", str(log)).wait_ready()
    daemon.process.send_signal(signal.SIGTERM)

    assert 0 == daemon.process.wait(10)
    assert daemon.process.stdout
    assert b"" == daemon.process.stdout.read()
    assert "Traceback" not in daemon.errors.read_text()


def test_sigint_ends_without_a_traceback(run: Start, log: Path) -> None:
    """Ctrl-C is the way out of a terminal."""
    daemon = run("--log", str(log)).wait_ready()
    daemon.process.send_signal(signal.SIGINT)
    daemon.process.wait(10)

    assert "Traceback" not in daemon.errors.read_text()


def test_a_directory_is_no_log(run: Start, tmp_path: Path) -> None:
    """It is waited for as for any other log, and who named it is told what to write instead."""
    daemon = run("--log", str(tmp_path)).wait_ready()
    wanted = f"{tmp_path}: EISDIR (Is a directory): name its files, as {tmp_path}/*.log"
    wait_for(lambda: wanted in daemon.errors.read_text() or None, "the advice")


def test_sighup_does_not_end_it(run: Start, log: Path) -> None:
    """Whoever sends it wants a reload."""
    daemon = run("--log", str(log)).wait_ready()
    daemon.process.send_signal(signal.SIGHUP)
    append(log, WARNING.format("a"))

    daemon.wait_value(1, "inferlog_jit_events_total", backend="triton", event="compile", phase="serving")


def test_sigterm_while_a_history_is_read_ends_with_0(run: Start, tmp_path: Path) -> None:
    """The end does not wait for the history."""
    big = tmp_path / "big.log"
    big.write_text(BOOT + records(0, 300_000))
    daemon = run("--log", str(big))
    wait_for(lambda: daemon.get("/-/healthy")[0] == 200, "the daemon to listen")
    daemon.process.send_signal(signal.SIGTERM)

    assert 0 == daemon.process.wait(10)


def test_address_in_use_ends_with_2_and_one_line(log: Path) -> None:
    """Somebody else has the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = inferlog("run", "--log", str(log), "--web.listen-address", f"127.0.0.1:{port}")

    assert 2 == ended.returncode
    assert b"" == ended.stdout
    assert f"inferlog: cannot listen on 127.0.0.1:{port}: Address already in use\n" == ended.stderr.decode()


def test_port_0_takes_a_free_one(run: Start, log: Path) -> None:
    """The address is in the log of the exporter."""
    daemon = run("--log", str(log), "--web.listen-address", "127.0.0.1:0")
    told = wait_for(lambda: re.search(r"listens on http://127.0.0.1:(\d+)", daemon.errors.read_text()), "the address in the log")
    daemon.port = int(told[1])

    daemon.wait_ready()


TERMINATED_EARLY = """
import os, signal, sys
from exporter import daemon
from exporter.cli import main
start = daemon.Daemon.start
def start_and_terminate(self):
    start(self)
    os.kill(os.getpid(), signal.SIGTERM)
daemon.Daemon.start = start_and_terminate
main(["run", "--log", sys.argv[1], "--web.listen-address", "127.0.0.1:0"])
"""


def test_sigterm_right_after_the_start_is_not_lost(log: Path) -> None:
    """A pod that is deleted while its containers start must not wait for SIGKILL."""
    process = subprocess.Popen([sys.executable, "-c", TERMINATED_EARLY, str(log)], stderr=subprocess.DEVNULL)
    try:
        code = wait_for(lambda: None if process.poll() is None else (process.returncode,), "the daemon to end", 4)
    finally:
        process.kill()
        process.wait(5)
    assert (0,) == code


def test_all_interfaces_without_a_host(run: Start, log: Path) -> None:
    """`:PORT` answers on IPv4's loopback as well."""
    port = free_port()
    daemon = run("--log", str(log), "--web.listen-address", f":{port}")
    daemon.port = port

    daemon.wait_ready()


def test_own_log_quotes_no_line_of_the_engine(run: Start, log: Path) -> None:
    """Not even at level debug: prompts stand in it."""
    append(log, line("Received request cmpl-1: prompt: 'my secret prompt'", level="ERROR") + "\n")
    daemon = run("--log", str(log), "--log.level", "debug").wait_ready()
    status, text = daemon.get()

    assert 200 == status
    assert "secret" not in text
    assert "secret" not in daemon.errors.read_text()


def test_json_log_is_one_object_a_line(run: Start, log: Path) -> None:
    """For whoever collects the exporter's own log."""
    import json

    daemon = run("--log", str(log), "--log.format", "json").wait_ready()
    assert 0 == daemon.end()

    for each in daemon.errors.read_text().splitlines():
        assert {"ts", "level", "msg"} <= json.loads(each).keys()
