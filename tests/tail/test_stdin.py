"""Following a descriptor."""

import os
import pty
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tail import Chunk, StdinFollower

NOTHING = Chunk(b"", begins_file=False)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe; the test may close the writing one."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    try:
        os.close(writing)
    except OSError:
        pass


def test_empty_pipe_does_not_block(pipe: tuple[int, int]) -> None:
    """Nothing to read is an empty chunk and no end."""
    follower = StdinFollower(pipe[0])
    assert NOTHING == follower.read()
    assert not follower.eof
    assert os.get_blocking(pipe[0])


def test_every_byte_comes_out_before_the_end(pipe: tuple[int, int]) -> None:
    """A writer that writes and leaves has all of it read, in chunks, and then eof is True."""
    follower = StdinFollower(pipe[0], chunk_bytes=1000)
    written = bytes(range(256)) * 100
    os.write(pipe[1], written)
    os.close(pipe[1])
    data = b""
    while not follower.eof:
        chunk = follower.read()
        assert len(chunk.data) <= 1000
        data += chunk.data
    assert written == data
    assert (len(written), False) == (follower.stats.read_bytes, follower.stats.up)
    assert NOTHING == follower.read()


def test_redirected_file_ends_at_its_end(tmp_path: Path) -> None:
    """`inferlog --log - < FILE` reads the file once, and knows how much is left."""
    path = tmp_path / "saved.log"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        follower = StdinFollower(file.fileno(), chunk_bytes=6)
        assert (b"012345", 4) == (follower.read().data, follower.stats.lag_bytes)
        assert (b"6789", False) == (follower.read().data, follower.eof)
        assert (b"", True) == (follower.read().data, follower.eof)


def test_non_blocking_pipe_is_the_same(pipe: tuple[int, int]) -> None:
    """A descriptor that somebody made non-blocking gives empty chunks, and no end."""
    os.set_blocking(pipe[0], False)
    follower = StdinFollower(pipe[0])
    assert NOTHING == follower.read()
    os.write(pipe[1], b"half")
    assert b"half" == follower.read().data
    assert not follower.eof


def test_terminal_that_hangs_up_is_at_its_end() -> None:
    """A lost terminal is an end with a reason, not an exception."""
    master, slave = pty.openpty()
    os.write(master, b"one\n")
    follower = StdinFollower(slave)
    assert b"one\n" == follower.read().data
    os.close(master)
    for _ in range(3):
        follower.read()
    assert follower.eof
    os.close(slave)


def test_closed_descriptor_is_at_its_end(pipe: tuple[int, int]) -> None:
    """A descriptor that is not there is an end with a reason."""
    other = os.dup(pipe[0])
    follower = StdinFollower(other)
    os.close(other)
    assert NOTHING == follower.read()
    assert (True, "EBADF") == (follower.eof, follower.stats.error)


def test_bytes_of_a_stream_are_of_now(pipe: tuple[int, int]) -> None:
    """Nothing tells when they were written but their coming."""
    follower = StdinFollower(pipe[0])
    os.write(pipe[1], b"one\n")
    assert time.time() == pytest.approx(follower.read().written, abs=5)
    assert 0.0 == follower.read().written
