"""Processes and what they cost: CPU time of user and system, which holds on a busy machine, and peak memory."""

import contextlib
import http
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench.corpus import ROOT

_KIB_PER_MIB = 1024
_SAMPLE_SECONDS = 0.005
_DEADLINE_SECONDS = 600
_QUIET_SHARE = 0.02
_LOOPBACK = "127.0.0.1"
_CPU_CLOCK_OF_A_PROCESS = 2  # the kernel's CPUCLOCK_SCHED

INFERLOG = (sys.executable, "-m", "exporter")


class Cost(NamedTuple):
    """Of a command that ran to its end."""

    cpu_seconds: float
    peak_mib: float
    output: str


def environment() -> dict[str, str]:
    """Ours, but that compiled modules are kept: otherwise each start pays for compiling them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: Sequence[str], **more: str) -> Cost:
    """Run a command, with `more` in its environment; raises CalledProcessError when it fails."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=complaint, cwd=ROOT, env=environment() | more)
        peak, pid, deadline = 0.0, 0, time.monotonic() + _DEADLINE_SECONDS
        while not pid:
            peak = max(peak, memory(process.pid, "VmHWM"))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if not pid and time.monotonic() > deadline:
                process.kill()
            time.sleep(_SAMPLE_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            complaint.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, stderr=complaint.read()[-2000:])
        output.seek(0)
        return Cost(usage.ru_utime + usage.ru_stime, peak, output.read().decode(errors="replace"))


def memory(pid: int, name: str = "VmRSS") -> float:
    """MiB as the kernel has them. VmHWM, unlike ru_maxrss, leaves out what the process was before exec."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / _KIB_PER_MIB
    return 0.0


def cpu_seconds(pid: int) -> float:
    """What a process that runs has used so far, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_A_PROCESS)


class Daemon:
    """`inferlog run` on loopback, from its start to its end."""

    def __init__(self, logs: Sequence[Path | str], folder: Path, *arguments: str) -> None:
        """`folder` takes its state and what it says."""
        with socket.create_server((_LOOPBACK, 0)) as free:
            self.port = free.getsockname()[1]
        options = ("--state-file", str(folder / "state.json"), "--web.listen-address", f"{_LOOPBACK}:{self.port}", "--log.level", "warning")
        logs_given = [word for log in logs for word in ("--log", str(log))]
        with (folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                [*INFERLOG, "run", *logs_given, *options, *arguments], cwd=ROOT, env=environment(), stdout=said, stderr=said
            )
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._forget_connection()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def cpu(self) -> float:
        """Seconds so far."""
        return cpu_seconds(self.process.pid)

    @property
    def peak(self) -> float:
        """MiB."""
        return memory(self.process.pid, "VmHWM")

    def get(self, path: str = "/metrics", headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """An answer over a connection that is kept, as Prometheus keeps it; status 0 where nobody answers."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(_LOOPBACK, self.port, timeout=60)
        try:
            self._connection.request("GET", path, headers=headers or {})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._forget_connection()
            return 0, b""

    def _forget_connection(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def until_ready(self) -> float:
        """Wait until the history is read; the CPU seconds that it took."""
        for _ in _until(_DEADLINE_SECONDS):
            if self.get("/-/ready")[0] == http.HTTPStatus.OK:
                return self.cpu
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise TimeoutError("inferlog run did not become ready")

    def until_quiet(self, seconds: float = 1.0) -> float:
        """Wait until it has nothing to do; the CPU seconds so far."""
        before, now = -1.0, self.cpu
        for _ in _until(_DEADLINE_SECONDS):
            if now - before < _QUIET_SHARE * seconds:
                break
            before = now
            time.sleep(seconds)
            now = self.cpu
        return now

    def value(self, family: bytes) -> float:
        """The sum of a family's series, read cheaply."""
        lines = self.get()[1].splitlines()
        return sum(float(line.rpartition(b" ")[2]) for line in lines if line.startswith(b"inferlog_" + family) and line[:1] != b"#")

    def settle(self, seconds: float = 2.0) -> None:
        """Let it do what a start leaves to do."""
        self.get()
        time.sleep(seconds)


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A folder beside the corpora, so that a link to one of them is enough."""
    from bench.corpus import CORPORA

    CORPORA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CORPORA) as folder:
        yield Path(folder)
