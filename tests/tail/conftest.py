"""A log that a test writes and rotates, and what a follower makes of it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tail import Follower


class Log:
    """A log as its writer sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def write(self, data: bytes) -> None:
        """Append with the descriptor that is open, or open one."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(self._fd, data)

    def reopen(self) -> None:
        """Open the path again, as a writer does when it is told of a rotation."""
        self.close()
        self.write(b"")

    def shift(self, keep: int = 3) -> None:
        """Move each generation to the next number, as logrotate does, keeping some."""
        Path(f"{self.path}.{keep}").unlink(missing_ok=True)
        for number in range(keep - 1, 0, -1):
            if Path(f"{self.path}.{number}").exists():
                os.rename(f"{self.path}.{number}", f"{self.path}.{number + 1}")

    def rename(self) -> None:
        """Rotate by rename; the writer goes on with the renamed file."""
        self.shift()
        os.rename(self.path, f"{self.path}.1")

    def copy(self) -> None:
        """The first half of copytruncate."""
        self.shift()
        shutil.copyfile(self.path, f"{self.path}.1")

    def truncate(self) -> None:
        """The second half."""
        os.truncate(self.path, 0)

    def close(self) -> None:
        """Close the writer's descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Reader:
    """A follower and all that it said."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.stats = follower.stats
        self.begins: list[int] = []
        self.data = b""

    def drain(self) -> bytes:
        """Read until there is nothing; return what came."""
        before = len(self.data)
        while (chunk := self.follower.read()).data:
            if chunk.begins_file:
                self.begins.append(len(self.data))
            self.data += chunk.data
        return self.data[before:]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """An empty log with a writer."""
    log = Log(tmp_path / "engine.log")
    log.write(b"")
    yield log
    log.close()


@pytest.fixture
def reader(log: Log) -> Iterator[Reader]:
    """A follower that has looked at the empty log once."""
    reader = Reader(Follower(log.path))
    assert b"" == reader.drain()
    yield reader
    reader.follower.close()


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
