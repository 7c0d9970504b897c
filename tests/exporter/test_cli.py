"""The command line: what the commands print, their flags and their exit codes."""

import gzip
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.config import NAME
from exporter.source_names import name_of

from .conftest import DEMO_LOGS, READY, core, demo_log, expired_and_failed, inferlog, line, logo, parsed, selected, stats

BOOT = "".join(f"{each}\n" for each in (logo(), core(), line("GPU KV cache size: 640 tokens"), READY))


def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments), input=stdin)


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    """The log of an engine that came up."""
    log = tmp_path / "boot.log"
    log.write_text(BOOT)
    return log


# -- the command itself ------------------------------------------------------------------------------------------------


def test_version_is_that_of_the_package() -> None:
    """One line on standard output."""
    result = invoke("--version")

    assert 0 == result.exit_code
    assert f"inferlog, version {version('inferlog')}\n" == result.stdout


@pytest.mark.parametrize("command", [(), ("run",), ("metrics",), ("events",), ("replay",), ("demo",)])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(command: tuple[str, ...], flag: str) -> None:
    """Both flags; each option says what it does."""
    result = invoke(*command, flag)

    assert 0 == result.exit_code
    assert result.stdout.startswith("Usage: ")


BAD_FLAGS = [
    ("metrics",),
    ("metrics", "--no-such-flag", "x"),
    ("metrics", "--pd-role", "boss", "x"),
    ("metrics", "--pd-expect", "some", "x"),
    ("events",),
    ("events", "--follow", "a.log", "b.log"),
    ("replay", "x"),
    ("replay", "/nonexistent/x", "--to", "y"),
    ("run",),
    ("run", "--log", "a.log", "--pd-role", "boss"),
    ("run", "--log", "a.log", "--web.listen-address", "nonsense"),
    ("run", "--log", "a.log", "--web.telemetry-path", "metrics"),
    ("run", "--log", "a.log", "--log.level", "loud"),
    ("run", "--log", "a.log", "--log.format", "xml"),
    ("run", "--log", "a.log", "--log", "b.log", "--name", "x"),
    ("run", "--log", "a.log", "--name", "not a name"),
    ("run", "--pd-role", "decode"),
    ("run", "--config", "/nonexistent/inferlog.yaml"),
    ("demo", "--speed", "0"),
    ("nonsense",),
]


@pytest.mark.parametrize("arguments", BAD_FLAGS, ids=" ".join)
def test_bad_flags_end_with_2_and_a_word_on_standard_error(arguments: tuple[str, ...]) -> None:
    """Nothing on standard output, and no traceback."""
    result = invoke(*arguments)

    assert 2 == result.exit_code
    assert "" == result.stdout
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("arguments", [each for each in BAD_FLAGS if each[0] == "run" and "boss" not in each], ids=" ".join)
def test_bad_settings_of_the_daemon_are_one_line(arguments: tuple[str, ...]) -> None:
    """As from the configuration file: it names the flag."""
    lines = invoke(*arguments).stderr.splitlines()

    assert 1 == len(lines)
    assert lines[0].startswith("inferlog: ")


@pytest.mark.parametrize("command", ["metrics", "events"])
@pytest.mark.parametrize("name", ["missing.log", ""])
def test_missing_file_ends_with_2_and_one_line(tmp_path: Path, command: str, name: str) -> None:
    """A file that is not there, and a folder."""
    path = tmp_path / name
    result = invoke(command, str(path))

    assert 2 == result.exit_code
    assert "" == result.stdout
    assert 1 == len(result.stderr.splitlines())
    assert result.stderr.startswith(f"inferlog: {path}: ")


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_metrics_prints_the_exposition(boot: Path) -> None:
    """Nothing but the exposition."""
    result = invoke("metrics", str(boot))

    assert 0 == result.exit_code
    assert "" == result.stderr
    assert [640.0] == selected(result.stdout, "inferlog_kv_cache_size_tokens", source="boot", runtime="vllm")
    assert [1.0] == selected(result.stdout, "inferlog_engine_ready", source="boot")


def test_last_line_without_a_line_break_counts(boot: Path) -> None:
    """A saved log ends where it ends."""
    boot.write_text(BOOT.rstrip("\n"))

    assert [1.0] == selected(invoke("metrics", str(boot)).stdout, "inferlog_engine_ready")


@pytest.mark.parametrize("content", [b"", b"\n", b"\0\xff\xfe\r\r\n\x1b[", b"x" * 200_000], ids=["empty", "newline", "binary", "long"])
def test_any_file_gives_an_exposition(tmp_path: Path, content: bytes) -> None:
    """Nothing breaks on a line."""
    log = tmp_path / "any.log"
    log.write_bytes(content)
    result = invoke("metrics", str(log))

    assert 0 == result.exit_code
    assert parsed(result.stdout)


def test_role_and_expectation_are_flags(boot: Path) -> None:
    """The settings of a source in `run` are flags here."""
    boot.write_text(f"{logo('0.32.0')}\n{stats('03:14:10', prompt=200.0)}\n{stats('03:14:20', prompt=200.0)}\n")

    def verdict(*flags: str) -> list[str]:
        series = parsed(invoke("metrics", *flags, str(boot)).stdout)
        return [dict(pairs)["verdict"] for (name, pairs), value in series.items() if name == "inferlog_pd_verdict" and value == 1]

    assert ["router_bypass"] == verdict("--pd-role", "decode")
    assert ["unproven"] == verdict("--pd-role", "decode", "--pd-expect", "mixed")
    assert ["not_judged"] == verdict("--pd-role", "prefill")
    assert ["not_disaggregated"] == verdict("--pd-role", "none")


def test_dash_is_standard_input() -> None:
    """Its source is called stdin."""
    result = invoke("metrics", "-", stdin=BOOT)

    assert [640.0] == selected(result.stdout, "inferlog_kv_cache_size_tokens", source="stdin")


def test_several_files_are_several_sources(tmp_path: Path) -> None:
    """Two files of one name get numbers; each is a source of its own."""
    for folder, tokens in (("a", 1), ("b", 2), ("c", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "engine.log").write_text(f"{line(f'GPU KV cache size: {tokens} tokens')}\n")
    result = invoke("metrics", *(str(tmp_path / folder / "engine.log") for folder in "abc"))

    assert [1.0] == selected(result.stdout, "inferlog_kv_cache_size_tokens", source="engine")
    assert [2.0] == selected(result.stdout, "inferlog_kv_cache_size_tokens", source="engine-2")
    assert [3.0] == selected(result.stdout, "inferlog_kv_cache_size_tokens", source="engine-3")


@pytest.mark.parametrize(
    "paths",
    [
        ["a.log"],
        ["a/engine.log", "b/engine.log"],
        ["a.log", "a.txt", "a"],
        [".hidden", "x/.hidden"],
        ["a/x.log", "b/x.log", "x-2.log"],
        ["-", "stdin.log"],
        ["\udcff.log", "motör head.log", "...", "n" * 200, "n" * 201],
    ],
    ids=range(7),
)
def test_names_of_sources_are_unique(paths: list[str]) -> None:
    """Two sources of one name would be duplicate series; and a label must be text, whatever a file is called."""
    taken: set[str] = set()
    found = [name_of(path, taken) for path in paths]

    assert len(paths) == len(set(found))
    assert all(NAME.fullmatch(name) for name in found)


def test_a_file_with_an_odd_name_is_read(tmp_path: Path) -> None:
    """A name that is no UTF-8 gives a source like any other."""
    log = os.fsencode(tmp_path) + b"/\xff.log"
    Path(os.fsdecode(log)).write_text(BOOT)
    result = subprocess.run([sys.executable, "-m", "exporter", "metrics", log], capture_output=True, timeout=30, check=False)

    assert (0, b"") == (result.returncode, result.stderr)
    assert b'source="source"' in result.stdout


def test_standard_input_twice_is_no_crash() -> None:
    """It is empty the second time, or an error of one line."""
    result = inferlog("metrics", "-", "-", input=BOOT.encode())

    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param(BOOT, 4, id="whole-lines"),
        pytest.param(BOOT + "half", 5, id="half-a-line"),
    ],
)
def test_lines_are_the_lines_of_the_file(tmp_path: Path, content: str, lines: int) -> None:
    """Physical lines: an empty file has none."""
    log = tmp_path / "x.log"
    log.write_text(content)

    assert lines == sum(selected(invoke("metrics", str(log)).stdout, "inferlog_log_lines_total"))


# -- events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEMO_LOGS)
def test_events_are_json_lines(name: str) -> None:
    """Each with its source, time, kind and process."""
    result = invoke("events", demo_log(name))

    assert 0 == result.exit_code
    lines = [json.loads(each, parse_constant=pytest.fail) for each in result.stdout.splitlines()]
    assert len(lines) > 10
    for each in lines:
        assert {"source", "time", "event", "process"} <= each.keys()
        assert name == each["source"]
    assert {"engine_started", "engine_ready", "interval_stats"} <= {each["event"] for each in lines}


def test_events_tell_what_a_line_means(boot: Path) -> None:
    """In the order of the log, in base units; 2026-07-14 03:14:20 UTC is 1783998860 s after the epoch."""
    import os

    os.utime(boot, (1784000000, 1784000000))
    told = [json.loads(each) for each in invoke("events", str(boot)).stdout.splitlines()]

    assert ["engine_started", "engine_started", "kv_cache_size", "engine_ready"] == [each["event"] for each in told]
    size = told[2]
    assert (640, "device", 1783998860, "APIServer") == (size["tokens"], size["pool"], size["time"], size["process"])


def test_events_have_no_private_field(tmp_path: Path) -> None:
    """No request id, no name of a variable, no context."""
    log = tmp_path / "private.log"
    log.write_text("".join(f"{each}\n" for each in expired_and_failed("cmpl-secret", "VLLM_SECRET")))
    told = invoke("events", str(log)).stdout

    assert {"kv_transfer_failure", "kv_expired", "kv_late_read", "kv_load_skipped", "hazard"} <= {
        json.loads(each)["event"] for each in told.splitlines()
    }
    assert "secret" not in told.lower()
    assert "10.1.2.3" not in told


def test_events_have_no_number_that_json_cannot_say(tmp_path: Path) -> None:
    """`nan` of the log is null."""
    spec = (
        "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: 0.00 tokens/s, "
        "Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance rate: nan%"
    )
    log = tmp_path / "nan.log"
    log.write_text(f"{line(spec)}\n")
    (told,) = [json.loads(each, parse_constant=pytest.fail) for each in invoke("events", str(log)).stdout.splitlines()]

    assert (None, None) == (told["length"], told["ratio"])


def test_events_of_standard_input() -> None:
    """`-` is standard input here, too."""
    told = [json.loads(each) for each in invoke("events", "-", stdin=BOOT).stdout.splitlines()]

    assert {"stdin"} == {each["source"] for each in told}
    assert 4 == len(told)


@pytest.mark.slow
def test_followed_events_go_on_as_the_log_grows(boot: Path) -> None:
    """What was there first, then what is appended."""
    with subprocess.Popen([sys.executable, "-m", "exporter", "events", "--follow", str(boot)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert ["engine_started"] * 2 == [json.loads(process.stdout.readline())["event"] for _ in range(2)]
            assert ["kv_cache_size", "engine_ready"] == [json.loads(process.stdout.readline())["event"] for _ in range(2)]
            with boot.open("a") as log:
                log.write(f"{stats()}\n")
            assert "interval_stats" == json.loads(process.stdout.readline())["event"]
        finally:
            process.terminate()


@pytest.mark.slow
def test_followed_events_of_standard_input(tmp_path: Path) -> None:
    """The stream is read as it comes, to its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", "events", "--follow", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    try:
        told, _ = process.communicate(BOOT.encode(), timeout=3)
    finally:
        process.kill()
        process.communicate()
    assert 4 == len(told.splitlines())


@pytest.mark.slow
def test_reader_of_events_that_goes_away_is_no_error_of_the_log() -> None:
    """`inferlog events FILE | head -1` ends quietly."""
    with subprocess.Popen(
        [sys.executable, "-m", "exporter", "events", *[demo_log("pd-decode")] * 20], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert b"" == process.stderr.read()


# -- replay ------------------------------------------------------------------------------------------------------------


def test_replay_without_waiting_copies_the_log(boot: Path, tmp_path: Path) -> None:
    """Speed 0 does not wait; the bytes are the same."""
    target = tmp_path / "again.log"
    result = invoke("replay", str(boot), "--to", str(target), "--speed", "0")

    assert 0 == result.exit_code
    assert boot.read_bytes() == target.read_bytes()


def test_replay_keeps_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A saved log is bytes, not text."""
    saved, target = tmp_path / "saved.log", tmp_path / "again.log"
    saved.write_bytes(b"\xff\0\r\n" + BOOT.encode() + b"half a line")
    invoke("replay", str(saved), "--to", str(target), "--speed", "0")

    assert saved.read_bytes() == target.read_bytes()


def test_replay_waits_as_long_as_the_log_did(tmp_path: Path) -> None:
    """A minute between two lines at 300 times the speed is a fifth of a second."""
    import time

    saved, target = tmp_path / "saved.log", tmp_path / "again.log"
    saved.write_text(f"{line('a', at='03:14:00')}\n{line('b', at='03:15:00')}\n")
    began = time.monotonic()
    invoke("replay", str(saved), "--to", str(target), "--speed", "300")

    assert 0.2 <= time.monotonic() - began < 5


@pytest.mark.parametrize(
    "form", ["[2026-07-14 {}] a", '{{"log":"x\\n","stream":"stdout","time":"2026-07-14T{}.000000000Z"}}'], ids=["sglang", "docker"]
)
def test_replay_waits_whatever_prints_the_times(tmp_path: Path, form: str) -> None:
    """SGLang's header, or a container runtime around the line."""
    import time

    saved = tmp_path / "saved.log"
    saved.write_text("".join(f"{form.format(at)}\n" for at in ("03:14:00", "03:14:30", "03:15:00")))
    began = time.monotonic()
    invoke("replay", str(saved), "--to", str(tmp_path / "again.log"), "--speed", "300")

    assert 0.2 <= time.monotonic() - began < 5


def test_replay_of_a_packed_log(boot: Path, tmp_path: Path) -> None:
    """What is in it; of a damaged one what is left, with 2."""
    packed, target = tmp_path / "boot.log.gz", tmp_path / "again.log"
    packed.write_bytes(gzip.compress(boot.read_bytes()))
    assert invoke("replay", str(packed), "--to", str(target), "--speed", "0").exit_code == 0
    assert target.read_bytes() == boot.read_bytes()
    packed.write_bytes(packed.read_bytes()[:-4])
    result = invoke("replay", str(packed), "--to", str(target), "--speed", "0")
    assert (result.exit_code, "damaged" in result.stderr) == (2, True)


def test_replay_never_writes_over_its_log(boot: Path) -> None:
    """Though it would begin with an empty file."""
    before = boot.read_bytes()
    assert invoke("replay", str(boot), "--to", str(boot)).exit_code == 2
    assert boot.read_bytes() == before


@pytest.mark.parametrize("target", ["no/such/folder/x.log"])
def test_replay_to_nowhere_ends_with_2_and_one_line(boot: Path, tmp_path: Path, target: str) -> None:
    """The target cannot be written."""
    result = invoke("replay", str(boot), "--to", str(tmp_path / target))

    assert 2 == result.exit_code
    assert 1 == len(result.stderr.splitlines())


# -- bundled logs ------------------------------------------------------------------------------------------------------


def test_bundled_logs_show_what_the_demo_promises() -> None:
    """Values counted by hand in the logs that the wheel carries."""
    text = invoke("metrics", *(demo_log(name) for name in DEMO_LOGS)).stdout

    assert [1761280.0] == selected(text, "inferlog_kv_cache_size_tokens", source="dspark")
    assert [1.0] == selected(text, "inferlog_jit_events_total", source="dspark", backend="tilelang", event="compile", phase="serving")
    # 544 + 6562 + 644 accepted, 1300 + 14500 + 1450 drafted
    assert [7750.0] == selected(text, "inferlog_spec_accepted_tokens_total", source="dspark", method="dspark")
    assert [17250.0] == selected(text, "inferlog_spec_draft_tokens_total", source="dspark", method="dspark")
    assert [9.0] == selected(text, "inferlog_jit_seconds_total", source="dspark", backend="tilelang", phase="serving")


def test_wheel_entry_point_is_the_same_command() -> None:
    """`python -m exporter` is `inferlog`."""
    assert 0 == inferlog("--version").returncode
