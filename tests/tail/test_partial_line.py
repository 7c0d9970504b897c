"""Bytes come out as they are, whole lines or not."""

from exporter.tail import Follower

from .conftest import Log, Reader


def test_half_a_line_is_given_at_once_and_continued(log: Log, reader: Reader) -> None:
    """A line in two halves is two chunks of the same file."""
    log.write(b"half a ")
    assert (b"half a ", False) == reader.follower.read()[:2]
    assert (b"", False) == reader.follower.read()[:2]
    log.write(b"line\n")
    assert (b"line\n", False) == reader.follower.read()[:2]


def test_half_line_at_the_end_of_a_rotated_file_is_marked_as_final(log: Log, reader: Reader) -> None:
    """The first chunk of the next file says that what is before it stays as it is."""
    log.write(b"half")
    log.rename()
    log.reopen()
    log.write(b"new\n")
    assert (b"half", False) == reader.follower.read()[:2]
    assert (b"new\n", True) == reader.follower.read()[:2]


def test_chunks_are_bounded(log: Log) -> None:
    """No chunk is longer than asked, and lag_bytes tells what is left."""
    log.write(b"0123456789")
    follower = Follower(log.path, chunk_bytes=4)
    assert [(b"0123", 6), (b"4567", 2), (b"89", 0)] == [(follower.read().data, follower.stats.lag_bytes) for _ in "123"]
    assert 10 == follower.stats.read_bytes
    follower.close()


def test_start_at_the_end_leaves_history_out(log: Log) -> None:
    """start_at="end" skips what is in the file at the first read, and still knows a truncation after it."""
    log.write(b"history\n")
    reader = Reader(Follower(log.path, start_at="end"))
    assert b"" == reader.drain()
    log.write(b"new\n")
    assert b"new\n" == reader.drain()
    log.truncate()
    log.write(b"and other words\n")
    assert b"and other words\n" == reader.drain()
    reader.follower.close()
