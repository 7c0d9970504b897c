"""A log that a test writes and rotates, and what a follower makes of it."""

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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


class Life(Log):
    """A log whose lines are all different, and followers that are killed and read it one after another."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.text = b""
        self.read = b""
        self.begins: list[int] = []
        self.follower = Follower(path)
        self.saved: Any = None

    def lines(self, count: int, start: str = "") -> None:
        """Append lines."""
        for _ in range(count):
            self.write(b"%s%06d some words of a log\n" % (start.encode(), len(self.text)))

    def write(self, data: bytes) -> None:
        """Append."""
        super().write(data)
        self.text += data

    def drain(self, most: int = 1 << 30) -> None:
        """Read until there is nothing, or so many chunks."""
        while most and (chunk := self.follower.read()).data:
            if chunk.begins_file:
                self.begins.append(len(self.read))
            self.read += chunk.data
            most -= 1

    def save(self) -> None:
        """Take the state between two lines."""
        whole = self.read.rfind(b"\n") + 1
        self.saved = json.loads(json.dumps(self.follower.state(len(self.read) - whole)))
        self.read_when_saved = whole

    def kill(self) -> None:
        """Drop the follower, as the kernel does."""
        self.follower.close()
        self.begins = []

    def restart(self, chunk_bytes: int = 1 << 18) -> None:
        """A new follower, which knows the last state only."""
        self.read = self.read[: self.read_when_saved]
        self.follower = Follower(self.path, start_at="end", state=self.saved, chunk_bytes=chunk_bytes)

    def tick(self) -> None:
        """Wait until the clock of the file system has moved, which takes it some ms."""
        probe = self.path.with_name("probe")
        probe.touch()
        before = probe.stat().st_mtime_ns
        while probe.stat().st_mtime_ns == before:
            probe.touch()

    def rotate(self) -> None:
        """Rename and create."""
        self.rename()
        self.reopen()

    def pack(self, name: str) -> None:
        """Compress a rotated file as gzip does: another inode, the same time."""
        plain = Path(f"{self.path}{name}")
        packed = plain.with_name(f"{plain.name}.gz")
        with plain.open("rb") as text, gzip.open(packed, "wb") as out:
            shutil.copyfileobj(text, out)
        os.utime(packed, ns=(0, plain.stat().st_mtime_ns))
        plain.unlink()

    @property
    def figures(self) -> tuple[int, int, int, int]:
        """Read, rotations, truncations, lost."""
        stats = self.follower.stats
        return stats.read_bytes, stats.rotations, stats.truncations, stats.lost_bytes


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


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """A log and its first follower."""
    life = Life(tmp_path / "engine.log")
    yield life
    life.follower.close()
    life.close()


def open_descriptors() -> int:
    """How many files this process has open; what other tests' servers leave are sockets, and close when they like."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one of this listing is closed by now
            found += os.readlink(f"/proc/self/fd/{number}").startswith("/")
    return found
