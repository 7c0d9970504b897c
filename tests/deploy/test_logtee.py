"""The script in the engine's container: what the engine prints arrives, the copy is bounded, and the engine never waits for it."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exporter.conftest import Running, wait_for

LOGTEE = Path(__file__).parent.parent.parent / "deploy" / "components" / "tee" / "logtee.py"
MIB = 1 << 20
LONGEST_LINE = 1 << 16
FLOOD = (
    "import sys\nfor n in range({lines}):\n    sys.stdout.write(f'INFO 11-30 00:00:00 [flood.py:1] line {{n:09d}} ' + 'x' * 80 + chr(10))"
)


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def logtee() -> Iterator[Start]:
    """Start the script with a command, and end it."""
    started: list[subprocess.Popen[bytes]] = []

    def start(log: Path, *command: str, options: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        started.append(subprocess.Popen([sys.executable, str(LOGTEE), *options, str(log), "--", *command], **pipes))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait(10)
        for pipe in (each.stdin, each.stdout, each.stderr):
            if pipe:
                pipe.close()


def flood(lines: int) -> tuple[str, str, str]:
    """An engine that prints as fast as it can."""
    return sys.executable, "-c", FLOOD.format(lines=lines)


def lines_of(lines: int) -> bytes:
    """What `flood` prints."""
    return b"".join(b"INFO 11-30 00:00:00 [flood.py:1] line %09d %s\n" % (n, b"x" * 80) for n in range(lines))


def generations(log: Path) -> list[Path]:
    """The files of a log, oldest first."""
    return [each for number in (9, 3, 2, 1, 0) if (each := log.with_name(f"{log.name}.{number}") if number else log).exists()]


def test_output_arrives_and_is_copied(logtee: Start, tmp_path: Path) -> None:
    """Both streams, in their order, into both places; the exit code is the engine's."""
    log = tmp_path / "engine.log"
    engine = logtee(log, "sh", "-c", "echo one; echo two >&2; echo three; exit 7")
    out, err = engine.communicate(timeout=20)
    assert (engine.returncode, out, err) == (7, b"one\ntwo\nthree\n", b"")
    assert log.read_bytes() == b"one\ntwo\nthree\n"


def test_the_copy_can_be_read_by_another_user(logtee: Start, tmp_path: Path) -> None:
    """Whatever the engine's umask is."""
    log = tmp_path / "engine.log"
    logtee(log, "echo", "one", umask=0o077).communicate(timeout=20)
    assert log.stat().st_mode & 0o777 == 0o644


def test_a_command_that_is_none(logtee: Start, tmp_path: Path) -> None:
    """As a shell would say it."""
    engine = logtee(tmp_path / "engine.log", "no-such-engine")
    assert engine.communicate(timeout=20) == (b"", b"logtee: no-such-engine: No such file or directory\n")
    assert engine.returncode == 127


@pytest.mark.parametrize("ignored", [False, True], ids=["", "ignored by the caller"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_go_to_the_engine(logtee: Start, tmp_path: Path, number: int, ignored: bool) -> None:
    """Which ends in its own way, and has its last words."""
    before = signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    log = tmp_path / "engine.log"
    command = f"trap 'echo caught; kill $child; exit 3' {number}; echo up; sleep 60 & child=$!; wait"
    engine = logtee(log, "sh", "-c", command)
    signal.signal(number, before)
    wait_for(lambda: log.exists() and b"up" in log.read_bytes(), "the engine to be up")
    engine.send_signal(number)
    out, _ = engine.communicate(timeout=20)
    assert (engine.returncode, out) == (3, b"up\ncaught\n")
    assert log.read_bytes() == b"up\ncaught\n"


def test_an_engine_that_is_killed(logtee: Start, tmp_path: Path) -> None:
    """128 and the number, as kubelet expects it."""
    engine = logtee(tmp_path / "engine.log", "sh", "-c", "kill -9 $$")
    engine.communicate(timeout=20)
    assert engine.returncode == 128 + 9


def test_a_child_that_stays_behind_holds_nothing_up(logtee: Start, tmp_path: Path) -> None:
    """It has the output open, and five seconds."""
    engine = logtee(tmp_path / "engine.log", "sh", "-c", "sleep 30 & echo $!")
    out, _ = engine.stdout.readline(), engine.wait(20)
    assert engine.returncode == 0
    os.kill(int(out), signal.SIGKILL)
    engine.communicate(timeout=20)


def test_the_room_is_bounded_and_lines_are_whole(logtee: Start, tmp_path: Path) -> None:
    """A flood of many times the bound: the last lines are there, in order, each whole."""
    log = tmp_path / "engine.log"
    engine = logtee(log, *flood(100_000), options=("--max-mib", "1", "--keep", "2"), stdout=subprocess.DEVNULL)
    biggest = 0
    while engine.poll() is None:
        sizes = []
        for each in generations(log):
            try:
                sizes.append(each.stat().st_size)
            except FileNotFoundError:  # just now renamed
                continue
        biggest = max(biggest, sum(sizes))
    found = generations(log)
    assert [each.name for each in found] == ["engine.log.2", "engine.log.1", "engine.log"]
    assert all(each.stat().st_size <= MIB + LONGEST_LINE for each in found)
    assert biggest <= 3 * (MIB + LONGEST_LINE)
    kept = b"".join(each.read_bytes() for each in found)
    assert lines_of(100_000).endswith(kept)
    assert all(each.read_bytes().startswith(b"INFO ") for each in found)
    assert len(kept) > 2 * MIB - LONGEST_LINE


def test_a_line_without_an_end_is_cut(logtee: Start, tmp_path: Path) -> None:
    """A progress bar that never ends its line must not break the bound."""
    log = tmp_path / "engine.log"
    engine = logtee(log, sys.executable, "-c", "print('x' * 3_000_000, end='')", options=("--max-mib", "1"), stdout=subprocess.DEVNULL)
    assert engine.wait(20) == 0
    assert [each.stat().st_size for each in generations(log)] == [
        MIB + LONGEST_LINE,
        MIB + LONGEST_LINE,
        3_000_000 - 2 * (MIB + LONGEST_LINE),
    ]


def test_a_new_engine_goes_on_in_the_same_file(logtee: Start, tmp_path: Path) -> None:
    """After the half line of one that was killed."""
    log = tmp_path / "engine.log"
    log.write_bytes(b"whole\nhal")
    logtee(log, "echo", "new").communicate(timeout=20)
    logtee(log, "echo", "newer").communicate(timeout=20)
    assert log.read_bytes() == b"whole\nhal\nnew\nnewer\n"


def test_a_directory_that_is_not_there(logtee: Start, tmp_path: Path) -> None:
    """The engine does not notice."""
    engine = logtee(tmp_path / "none" / "engine.log", *flood(1000))
    out, err = engine.communicate(timeout=20)
    assert (engine.returncode, out, err) == (0, lines_of(1000), b"")


@pytest.mark.parametrize(
    "write", ["os.write(1, b'%d' % n); time.sleep(.003); os.write(1, b'\\n')", "os.write(1, b'%d\\n' % n)"], ids=["in parts", "whole"]
)
def test_a_directory_that_comes_back(logtee: Start, tmp_path: Path, write: str) -> None:
    """The copy says what is missing, and begins with a whole line."""
    log = tmp_path / "late" / "engine.log"
    code = f"import os, time\nfor n in range(10_000):\n    {write}; time.sleep(.003)"
    engine = logtee(log, sys.executable, "-c", code)
    assert [int(engine.stdout.readline()) for _ in range(100)] == list(range(100))
    log.parent.mkdir()
    wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") > 3, "the copy to begin")
    engine.terminate()
    engine.wait(20)
    first, *rest = log.read_bytes().splitlines()
    numbers = [int(each) for each in rest]
    missing = int(first.split()[1])
    assert first == b"logtee: %d bytes are missing here: No such file or directory" % missing
    assert missing == sum(len(f"{n}\n") for n in range(numbers[0]))
    assert numbers[:-1] == list(range(numbers[0], numbers[-1]))


def test_a_disk_that_is_full(logtee: Start, tmp_path: Path) -> None:
    """The engine does not notice, and the bytes before are there."""
    log = tmp_path / "engine.log"
    engine = logtee(log, *flood(10_000), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    out, err = engine.communicate(timeout=20)
    assert (engine.returncode, out, err) == (0, lines_of(10_000), b"")
    assert log.read_bytes() == lines_of(10_000)[:100_000]


def test_a_disk_that_hangs(logtee: Start, tmp_path: Path) -> None:
    """A FIFO that nobody reads: the engine waits a second in all, and its end is not held up for long."""
    log = tmp_path / "engine.log"
    os.mkfifo(log)
    began = time.monotonic()
    engine = logtee(log, *flood(400_000))
    out, err = engine.communicate(timeout=40)
    assert (engine.returncode, len(out), err) == (0, len(lines_of(1)) * 400_000, b"")
    assert time.monotonic() - began < 25


def test_a_disk_that_was_too_slow(logtee: Start, tmp_path: Path) -> None:
    """The copy says at the right place how much is missing, and has no half line."""
    log, taken = tmp_path / "engine.log", tmp_path / "taken"
    os.mkfifo(log)
    waits = "while struct.unpack('i', fcntl.ioctl(1, termios.FIONREAD, bytes(4)))[0]: time.sleep(0.01)"  # until all of it was taken from the pipe
    script = (
        f"import fcntl, struct, termios, time\n{FLOOD.format(lines=400_000)}\nsys.stdout.flush()\n{waits}\n"
        f"open({str(taken)!r}, 'w')\ninput()\nfor n in 'abc': print('INFO', n)"
    )
    engine = logtee(log, sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, options=("--max-mib", "900"))
    wait_for(taken.exists, "the flood to be taken", 40)
    with log.open("rb") as reader:
        lines = []
        while sum(map(len, lines)) < 7 * MIB:  # of the 8 that wait for the disk; a half line at their end cannot be read yet
            lines += reader.readlines(MIB)
        engine.stdin.write(b"\n")
        engine.stdin.close()
        lines += reader.readlines()
    printed = lines_of(400_000) + b"INFO a\nINFO b\nINFO c\n"
    (gap,) = (number for number, line in enumerate(lines) if line.startswith(b"logtee: "))
    before, after = b"".join(lines[:gap]), b"".join(lines[gap + 1 :])
    assert printed.startswith(before.removesuffix(b"\n"))  # ours, where the engine's line was cut
    assert printed.endswith(b"\n" + after)
    missing = int(lines[gap].split()[1])
    assert len(before) + missing + len(after) in (len(printed), len(printed) + 1)


def test_output_that_nobody_reads(logtee: Start, tmp_path: Path) -> None:
    """The copy goes on."""
    log = tmp_path / "engine.log"
    engine = logtee(log, "sh", "-c", "read go; seq 100000; exit 5", stdin=subprocess.PIPE)
    engine.stdout.close()
    engine.communicate(b"go\n", timeout=20)
    assert engine.returncode == 5
    assert log.read_bytes().splitlines()[-1] == b"100000"


def test_a_follower_loses_nothing(logtee: Start, tmp_path: Path, run: Callable[..., Running]) -> None:
    """While the files turn over two dozen times, and over a kill of the daemon."""
    log = tmp_path / "engine.log"
    arguments = ("--log", str(log), "--name", "engine", "--state-file", str(tmp_path / "state" / "state.json"))
    daemon = run(*arguments).wait_ready()
    slow = FLOOD.format(lines=100_000) + "; n % 1000 or __import__('time').sleep(0.05)"
    engine = logtee(log, sys.executable, "-c", slow, options=("--max-mib", "0.5", "--keep", "40"), stdout=subprocess.DEVNULL)
    wait_for(lambda: (daemon.value("inferlog_source_read_bytes_total") or 0) > 2 * MIB, "some of it to be read")
    daemon.kill()
    daemon = run(*arguments)
    assert engine.wait(40) == 0
    daemon.wait_value(len(lines_of(1)) * 100_000, "inferlog_source_read_bytes_total", source="engine")
    daemon.wait_value(100_000, "inferlog_log_lines_total", source="engine")
    assert daemon.value("inferlog_source_lost_bytes_total") in (None, 0)
