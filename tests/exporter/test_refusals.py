"""What cannot be done ends with 2 and one line, whichever command was asked: 1 is an answer of `analyze` and `drift`."""

import gzip
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from tests.conftest import DATA

HEALTHY = DATA / "vllm-0.32/captured-pd-decode-proven.log"
INFERLOG = (sys.executable, "-m", "exporter")
READ = ("analyze", "analyze --format json", "analyze --format html", "check", "metrics", "events", "capacity")
READERS = ("analyze", "check", "metrics", "events", "capacity", "backfill")


def run(command: str, *arguments: object, code: int = 2) -> Result:
    output = ("-o", os.devnull) if command == "backfill" else ()
    result = CliRunner().invoke(main, [command, *output, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("command", READERS)
def test_what_cannot_be_read(command: str, tmp_path: Path) -> None:
    """The line names the file."""
    assert run(command, tmp_path / "none.log").stderr == f"inferlog: {tmp_path}/none.log: No such file or directory\n"
    assert run(command, tmp_path).stderr == f"inferlog: {tmp_path}: Is a directory\n"
    assert run(command, "-", "-").stderr == "inferlog: standard input can be read once\n"


@pytest.mark.parametrize("command", READERS)
def test_what_is_damaged(command: str, tmp_path: Path) -> None:
    """What came before is told, and that it is not all: a clean report on half a log is no clean report."""
    path = tmp_path / "engine.log.gz"
    path.write_bytes(gzip.compress(HEALTHY.read_bytes())[:-2000])
    run(command, HEALTHY, code=0)
    last = run(command, path).stderr.splitlines()[-1]
    assert last.startswith(f"inferlog: {path}: damaged, the rest could not be read (")


def test_a_demo_whose_port_is_taken() -> None:
    """Says how to take another: `make demo` has no flags."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ended = subprocess.run([*INFERLOG, "demo", "--web.listen-address", address], capture_output=True, check=False, timeout=60)
    told = f"cannot listen on {address}: Address already in use: inferlog demo --web.listen-address 127.0.0.1:PORT takes another port"
    assert (ended.returncode, ended.stderr.decode()) == (2, f"inferlog: {told}\n")


FOREGROUND = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from exporter.cli import main; main()"
"""A shell lets what it starts in the background ignore Ctrl-C, and CI may be there."""


@pytest.mark.parametrize("command", ["analyze", "check", "metrics"])
def test_ctrl_c(command: str) -> None:
    """Ends without a word, and with no code that is an answer."""
    arguments = [sys.executable, "-c", FOREGROUND, command, "-"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(b"a line\n" * 200_000)
        process.stdin.flush()  # more than a pipe holds: it reads
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stdout
        assert process.stderr
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("command", READ)
def test_a_name_that_is_no_text(command: str, locale: str, tmp_path: Path) -> None:
    """And one in another alphabet, in each locale."""
    for name in (b"\xff.log", "日志.log".encode()):
        path = os.fsencode(tmp_path) + b"/" + name
        Path(os.fsdecode(path)).write_bytes(HEALTHY.read_bytes())
        environment = os.environ | {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8:strict"}
        if locale == "C":
            del environment["PYTHONIOENCODING"]
        ended = subprocess.run([*INFERLOG, *command.split(), path], env=environment, capture_output=True, check=False, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", READ)
def test_no_room_for_the_answer(command: str, unbuffered: str) -> None:
    """A full disk below standard output."""
    ask = [*INFERLOG, *command.split(), HEALTHY]
    with Path("/dev/full").open("wb") as full:
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        ended = subprocess.run(ask, env=environment, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (2, b"inferlog: No space left on device\n")


@pytest.mark.parametrize("command", READ)
def test_a_reader_that_had_enough(command: str) -> None:
    """As `head`; it is no answer of `analyze`, and nobody's fault."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        ended = subprocess.run([*INFERLOG, *command.split(), HEALTHY], stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (141, b"")
