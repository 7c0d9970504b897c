"""Truncation in place: by hand, by a new writer, and by copytruncate."""

import os
from pathlib import Path

import pytest

from exporter.tail import Follower

from .conftest import Life, Log, Reader


def test_shorter_file_is_read_from_its_start(log: Log, reader: Reader) -> None:
    """A file that became shorter than what was read begins again."""
    log.write(b"one\ntwo")
    reader.drain()
    log.truncate()
    log.write(b"3\n")
    assert b"3\n" == reader.drain()
    assert [7] == reader.begins
    assert (1, 0, 0) == (reader.stats.truncations, reader.stats.rotations, reader.stats.lost_bytes)


@pytest.mark.parametrize("after", [b"uno\n", b"uno\ndos\n" * 1000])
def test_file_that_grew_again_is_known_by_its_content(log: Log, reader: Reader, after: bytes) -> None:
    """A file truncated and written as far as before, or further, between two reads, begins again."""
    log.write(b"one\n")
    reader.drain()
    log.truncate()
    log.write(after)
    assert after == reader.drain()
    assert 1 == reader.stats.truncations


def test_bytes_seen_but_not_read_are_counted_as_lost(log: Log) -> None:
    """What was known to be in the file and then is nowhere is lost, and counted."""
    reader = Reader(Follower(log.path, chunk_bytes=10))
    log.write(b"0123456789abcdef")
    assert b"0123456789" == reader.follower.read().data
    assert 6 == reader.stats.lag_bytes
    log.truncate()
    assert b"" == reader.drain()
    assert (6, 0, 1) == (reader.stats.lost_bytes, reader.stats.lag_bytes, reader.stats.truncations)
    reader.follower.close()


def test_rest_of_a_copy_is_read_first(log: Log, reader: Reader) -> None:
    """What was written between our last read and the copy is only in the copy, and continues a half line."""
    log.write(b"one\ntw")
    reader.drain()
    log.write(b"o\nthree\n")
    log.copy()
    log.truncate()
    log.write(b"four\n")
    assert b"o\nthree\nfour\n" == reader.drain()
    assert [14] == reader.begins
    assert (1, 0) == (reader.stats.truncations, reader.stats.lost_bytes)


def test_copy_is_no_generation(log: Log, reader: Reader) -> None:
    """A copy that was made before our last read has nothing for us, and none is read twice."""
    log.write(b"one\n")
    log.copy()
    log.write(b"two\n")
    reader.drain()
    log.truncate()
    log.write(b"three\n")
    reader.drain()
    assert b"one\ntwo\nthree\n" == reader.data


def test_copy_of_what_was_never_read_is_read(log: Log, reader: Reader) -> None:
    """Written, copied and truncated between two reads: the copy has all of it."""
    log.write(b"one\n" * 1000)
    log.copy()
    log.truncate()
    log.write(b"two\n")
    assert b"one\n" * 1000 + b"two\n" == reader.drain()
    assert 1 == reader.stats.truncations


def test_copy_beside_an_untruncated_file_waits(log: Log, reader: Reader) -> None:
    """Between copy and truncation the bytes are in both files, and come out once."""
    log.write(b"one\n")
    log.copy()
    reader.drain()
    log.truncate()
    reader.drain()
    log.write(b"two\n")
    reader.drain()
    assert b"one\ntwo\n" == reader.data


def test_several_copies_between_two_reads_are_read(log: Log, reader: Reader) -> None:
    """Each copy that we have not seen is read, the oldest first."""
    log.write(b"one\n")
    reader.drain()
    for line in (b"two\n", b"three\n", b"four\n"):
        log.write(line)
        log.copy()
        log.truncate()
    log.write(b"five\n")
    reader.drain()
    assert b"one\ntwo\nthree\nfour\nfive\n" == reader.data
    assert (3, 0) == (reader.stats.truncations, reader.stats.lost_bytes)


def test_copy_and_rename_between_two_reads(log: Log, reader: Reader) -> None:
    """A truncated file that was then renamed is still read after its copy."""
    log.write(b"one\n")
    reader.drain()
    log.write(b"two\n")
    log.copy()
    log.truncate()
    log.write(b"three\n")
    log.rename()
    log.reopen()
    log.write(b"four\n")
    reader.drain()
    assert b"one\ntwo\nthree\nfour\n" == reader.data
    assert 0 == reader.stats.lost_bytes


@pytest.mark.parametrize("killed", [False, True])
def test_dated_copy_within_one_tick_of_the_renamed_file(life: Life, killed: bool) -> None:
    """Their times of writing are the same, but one was renamed after the other was made."""
    life.drain()
    life.save()
    life.lines(5)
    life.copy()
    copy = Path(f"{life.path}.1").rename(f"{life.path}-20260731")
    life.truncate()
    life.lines(9)
    times = (0, copy.stat().st_mtime_ns)
    os.utime(life.path, ns=times)
    os.utime(copy, ns=times)
    life.tick()
    life.rename()
    life.reopen()
    life.lines(3)
    if killed:
        life.kill()
        life.restart()
    life.drain()
    assert life.text == life.read
    assert 0 == life.follower.stats.lost_bytes


def test_hole_left_by_a_writer_with_its_own_offset_is_passed_through(tmp_path: Path) -> None:
    """A writer without O_APPEND goes on at its offset; the NUL bytes before it are the parser's to drop."""
    path = tmp_path / "engine.log"
    reader = Reader(Follower(path))
    with path.open("wb", buffering=0) as writer:
        writer.write(b"one\n")
        reader.drain()
        path.write_bytes(b"")
        writer.write(b"two\n")
        assert b"\0\0\0\0two\n" == reader.drain()
    reader.follower.close()
