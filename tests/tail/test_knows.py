"""Which files a follower knows as its own, and when what it gives was written."""

import errno
import gzip
import os
import time
from pathlib import Path

import pytest

from exporter.tail import Chunk, Follower
from exporter.tail._bookmark import REMEMBERED_BYTES

from .conftest import Life
from .fake_files import FakeFiles

PATH = "/var/log/engine.log"


def knows(life: Life, name: str = "") -> bool:
    """Whether the follower knows a file beside the log."""
    return life.follower.knows(f"{life.path}{name}")


def test_generations_are_known_while_they_are_held_and_when_they_were_read(life: Life) -> None:
    """From the moment of the rename on, whatever their names are."""
    life.lines(3)
    life.drain()
    life.rotate()
    assert knows(life, ".1")
    assert not knows(life), "nobody has looked yet"
    life.lines(3)
    for _ in range(3):
        life.drain()
        assert knows(life)
        assert knows(life, ".1")
    os.rename(f"{life.path}.1", f"{life.path}.old")
    life.drain()
    assert knows(life, ".old")
    assert not knows(life, ".1")


@pytest.mark.parametrize("how", ["released", "restored"])
def test_a_generation_is_known_without_a_descriptor(life: Life, how: str) -> None:
    """By its content as well as by its inode."""
    life.lines(3)
    life.drain()
    life.drain()
    life.save()
    if how == "released":
        assert life.follower.release()
    else:
        life.kill()
        life.restart()
    life.lines(1)
    life.rotate()
    assert knows(life, ".1")
    assert not knows(life)
    Path(f"{life.path}.1").write_bytes(b"the same inode, and another file\n" * 10)
    assert not knows(life, ".1")


def test_other_files_are_not_known(life: Life, tmp_path: Path) -> None:
    """Nor what is no file, or not there, or may not be looked at."""
    life.lines(3)
    life.drain()
    (tmp_path / "engine.log.7").write_bytes(life.text)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("engine.log.7", "directory", "fifo", "nothing", "engine.log/nothing"):
        assert not life.follower.knows(str(tmp_path / name)), name


def test_an_inode_that_was_used_again_is_not_known() -> None:
    """The marks of a follower outlive its files."""
    files = FakeFiles()
    first = files.create(PATH)
    files.append(first, b"read to its end\n" * 30)
    follower = Follower(Path(PATH), files=files)
    follower.read()
    files.rename(PATH, f"{PATH}.1")
    files.append(files.create(PATH), b"second\n")
    for _ in range(4):
        follower.read()
    assert 1 == files.open_descriptors
    assert follower.knows(f"{PATH}.1")
    files.unlink(f"{PATH}.1")
    again = files.create("/var/log/other.log")
    assert first.number == again.number
    assert not follower.knows("/var/log/other.log")
    files.append(again, b"as long as what was read\n" * 30)
    assert not follower.knows("/var/log/other.log")
    assert 1 == files.open_descriptors
    follower.close()


def test_an_unknown_identity_costs_one_stat() -> None:
    """A directory may have thousands of other logs."""
    files = FakeFiles()
    files.append(files.create("/var/log/other.log"), b"x")
    opened = files.create(PATH)
    files.append(opened, b"read\n")
    follower = Follower(Path(PATH), files=files)
    follower.read()
    with files.failing(errno.EIO, after=100):
        assert not follower.knows("/var/log/other.log")
        assert 99 == files._calls_before_error
    follower.close()


def test_bytes_come_with_the_time_of_their_file(life: Life) -> None:
    """Each generation has its own; an empty chunk has none."""
    life.lines(1)
    life.drain()
    old, new = time.time() - 7200, time.time() - 3600
    life.lines(1)
    os.utime(life.path, (old, old))
    life.rotate()
    life.lines(1)
    os.utime(life.path, (new, new))
    first, second, none = (life.follower.read() for _ in range(3))
    assert [pytest.approx(old), pytest.approx(new)] == [first.written, second.written]
    assert Chunk(b"", begins_file=False, written=0.0) == none


def test_compressed_bytes_come_with_the_time_of_the_original(life: Life) -> None:
    """Which gzip gives to what it makes."""
    old = time.time() - 7200
    life.lines(30)
    os.utime(life.path, (old - 60, old - 60))
    life.drain()
    life.save()
    life.kill()
    life.lines(1)
    os.utime(life.path, (old, old))
    life.rotate()
    life.pack(".1")
    assert gzip.decompress(Path(f"{life.path}.1.gz").read_bytes()) == life.text
    life.restart()
    assert old == pytest.approx(life.follower.read().written)


class _WrittenInBetween(FakeFiles):
    """The writer comes before a pread."""

    def pread(self, fd: int, length: int, offset: int) -> bytes:  # type: ignore[override]
        log = self.create(PATH)
        if not log.data and length > REMEMBERED_BYTES:
            self.append(log, b"just now\n")
        return super().pread(fd, length, offset)


def test_what_came_after_the_look_at_the_times_is_of_now() -> None:
    """An old time must not be that of a new line."""
    files = _WrittenInBetween()
    files.create(PATH).mtime_ns = 10**18
    chunk = Follower(Path(PATH), files=files).read()
    assert b"just now\n" == chunk.data
    assert time.time() == pytest.approx(chunk.written, abs=5)
