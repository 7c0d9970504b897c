"""The two processes: `inferlog run`, which is killed and started again, and the writer, which takes orders."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.torture.wrapped import FORMATS

REPOSITORY = Path(__file__).parents[2]
INFERLOG = Path(sys.executable).parent / "inferlog"
TERM_SECONDS = 2.0


class ProcessError(Exception):
    """A process did what it must not do."""


class Reader:
    """The installed `inferlog run`, always on the same port and state file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self.lives = 0
        self.slowest_term = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        # The zone is given: the writer's clock runs faster than the real one, so there is none to learn.
        sources = [{"name": name, "path": str(folder / name / f"{name}.log"), "timezone": "+00:00"} for name in FORMATS]
        self._config = folder / "config.yaml"
        self._config.write_text(json.dumps({"sources": sources}), encoding="utf-8")

    def start(self) -> None:
        self.lives += 1
        command = [INFERLOG, "run", "--config", self._config, "--state-file", self.folder / "state"]
        with (self.folder / "reader.err").open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, "--web.listen-address", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )

    def check(self) -> None:
        """Raise ProcessError when it ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process = None
            raise ProcessError(f"inferlog run ended by itself with {code} in its life {self.lives}")

    def kill(self) -> None:
        """SIGKILL; ProcessError when it was dead already."""
        self.check()
        assert self._process
        self._process.kill()
        self._process.wait()
        self._process = None

    def terminate(self) -> str:
        """SIGTERM; what was wrong when it does not end with 0 within two seconds."""
        self.check()
        assert self._process
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        process, self._process = self._process, None
        try:
            code = process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"life {self.lives} did not end within 15 s of SIGTERM"
        took = time.monotonic() - began
        self.slowest_term = max(self.slowest_term, took)
        if code or took > TERM_SECONDS:
            return f"life {self.lives} ended with {code} {took:.2f} s after SIGTERM"
        return ""

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class WriterProcess:
    """The writer and its orders; safe to use from two threads."""

    def __init__(self, folder: Path, seed: int, rate: float, rotations: float) -> None:
        self._lock = threading.Lock()
        with (folder / "writer.err").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.writer", folder, "--seed", str(seed), "--rate", str(rate), "--rotations", str(rotations)],
                cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def order(self, **order: Any) -> dict[str, Any]:
        """Give an order and wait until it is done."""
        answer = b""
        with self._lock, suppress(BrokenPipeError):
            self._send(order)
            assert self._process.stdout
            answer = self._process.stdout.readline()
        if not answer:
            raise ProcessError("the writer ended: see writer.err")
        result: dict[str, Any] = json.loads(answer)
        return result

    def tell(self, seen: dict[str, int]) -> None:
        """Tell how many bytes of each source were read."""
        with self._lock, suppress(OSError, ValueError):  # who gives an order will hear that it has ended
            self._send({"seen": seen})

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
