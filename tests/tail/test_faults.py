"""What goes wrong for a while, and what is big or fast."""

import errno
import gzip
import os
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest

from exporter.tail import Follower
from exporter.tail._files import Files

from .conftest import Life, Log, Reader, open_descriptors
from .fake_files import FakeFiles

PATH = "/var/log/engine.log"
MEGABYTE = 1 << 20


@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ETIMEDOUT])
def test_generation_that_cannot_be_opened_just_now_is_waited_for(error: int) -> None:
    """Neither is it counted as lost, nor is the new file read before it."""
    files = FakeFiles()
    reader = Reader(Follower(Path(PATH), files=files))
    files.create(PATH)
    reader.drain()
    for number in (1, 2):
        files.append(files.create(PATH), b"%d\n" % number)
        files.rename(PATH, f"{PATH}.{number}")
    files.append(files.create(PATH), b"3\n")
    for calls in range(20):
        with files.failing(error, calls):
            reader.data += reader.follower.read().data
    assert b"1\n2\n3\n" == reader.data + reader.drain()
    assert 0 == reader.follower.stats.lost_bytes


def test_generation_with_a_bad_sector_is_given_up() -> None:
    """What is known unread in it is lost, and said so; the log goes on."""
    files = FakeFiles()
    log = files.create(PATH)
    reader = Reader(Follower(Path(PATH), files=files, chunk_bytes=10))
    files.append(log, b"0123456789abcdef")
    reader.data = reader.follower.read().data
    files.rename(PATH, f"{PATH}.1")
    files.append(files.create(PATH), b"new\n")
    files.bad = log
    for _ in range(150):
        reader.data += reader.follower.read().data
    assert (b"0123456789new\n", 6) == (reader.data, reader.stats.lost_bytes)


def test_directory_that_is_deleted_and_made_again(tmp_path: Path) -> None:
    """A new directory of the same name holds a new log."""
    log = Log(tmp_path / "logs" / "engine.log")
    log.path.parent.mkdir()
    log.write(b"one\n")
    reader = Reader(Follower(log.path))
    reader.drain()
    log.write(b"two\n")
    shutil.rmtree(log.path.parent)
    assert b"two\n" == reader.drain()
    assert not reader.stats.up
    log.path.parent.mkdir()
    log.reopen()
    log.write(b"three\n")
    assert b"three\n" == reader.drain()
    assert reader.stats.up
    log.close()
    reader.follower.close()


def test_backlog_takes_no_memory(tmp_path: Path) -> None:
    """Two gigabytes are read in blocks; a restart in the middle goes on there."""
    path = tmp_path / "engine.log"
    size = 2048 * MEGABYTE
    with path.open("wb") as log:
        log.truncate(size)
    follower, read = Follower(path), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while data := follower.read().data:
        read += len(data)
        if read == 256 * MEGABYTE:
            follower.close()
            follower = Follower(path, state=follower.state(0))
    assert (size, size) == (read, follower.stats.read_bytes)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
    follower.close()


def test_compressed_generation_takes_no_memory(life: Life) -> None:
    """It is inflated in blocks."""
    life.write(b"first\n" * 100)
    life.drain()
    life.save()
    life.kill()
    life.path.unlink()
    with gzip.open(f"{life.path}.1.gz", "wb", compresslevel=1) as packed:
        packed.write(life.read)
        for _ in range(128):
            packed.write(b"\n" * MEGABYTE)
    life.reopen()
    life.restart()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = 0
    while data := life.follower.read().data:
        read += len(data)
    assert 128 * MEGABYTE == read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def test_many_rotations_a_second_and_kills(life: Life) -> None:
    """A writer that rotates as fast as it can, and a reader that is killed again and again."""
    life.lines(1)
    life.drain()

    def write() -> None:
        for number in range(1000, 1300):
            life.lines(3)
            os.rename(life.path, f"{life.path}.{number}")
            life.reopen()
            written.wait(0.001)

    written = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    rounds = 0
    while writer.is_alive():
        rounds += 1
        life.drain(3)
        if rounds % 5 == 0:
            life.save()
            life.drain(2)
            life.kill()
            life.restart()
    writer.join()
    life.lines(1)
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 0) == (life.follower.stats.read_bytes, life.follower.stats.lost_bytes)


def test_rotations_are_seen_in_a_directory_of_very_many_files(life: Life) -> None:
    """Its names are not listed anew for each of its logs, as long as its time says that nothing changed."""
    for number in range(600):
        (life.path.parent / f"other-{number}.log").touch()
    past = time.time_ns() - 60 * 10**9
    os.utime(life.path.parent, ns=(past, past))
    life.lines(1)
    life.drain()
    for number in range(1, 4):
        life.path.rename(f"{life.path}.{number}")
        life.reopen()
        life.lines(1)
        if number % 2:  # two of them between two reads
            life.drain()
    life.drain()
    assert life.text == life.read
    assert 0 == life.follower.stats.lost_bytes


class _Counted(Files):
    """The real file system, and how often it is asked for a status."""

    def __init__(self) -> None:
        super().__init__()
        self.stats = 0

    def stat(self, path: str) -> os.stat_result:
        self.stats += 1
        return os.stat(path)


def test_released_follower_costs_one_stat_until_the_file_changes(life: Life) -> None:
    """It has no descriptor, keeps its place and half line, and sees each kind of change."""
    files = _Counted()
    before = open_descriptors()
    life.follower = Follower(life.path, files=files)
    life.write(b"some half ")
    assert b"some half " == life.follower.read().data
    assert life.follower.release()
    assert before + 1 == open_descriptors()  # the writer's
    files.stats = 0
    assert (b"", True) == (life.follower.read().data, life.follower.stats.up)
    assert 1 == files.stats
    assert 10 == life.follower.state(0)["read_bytes"]
    life.write(b"line\n")
    chunk = life.follower.read()
    assert (b"line\n", False) == (chunk.data, chunk.begins_file)
    assert life.follower.release()
    life.write(b"last\n")
    life.rotate()
    life.write(b"new\n")
    assert b"last\n" == life.follower.read().data
    assert not life.follower.release()
    assert b"new\n" == life.follower.read().data
