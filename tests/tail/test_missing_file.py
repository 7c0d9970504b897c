"""Logs that are not there, not yet, or not files."""

import os
from pathlib import Path

from exporter.tail import Follower

from .conftest import Log, Reader


def test_file_that_appears_later_is_read_from_its_start(tmp_path: Path) -> None:
    """A log, and its directory, may come later; all of it is new then, also with start_at="end"."""
    path = tmp_path / "later" / "engine.log"
    reader = Reader(Follower(path, start_at="end"))
    assert b"" == reader.drain()
    assert (False, "ENOENT") == (reader.stats.up, reader.stats.error)
    path.parent.mkdir()
    path.write_bytes(b"one\n")
    assert b"one\n" == reader.drain()
    assert (True, "", 0) == (reader.stats.up, reader.stats.error, reader.stats.rotations)
    reader.follower.close()


def test_renamed_file_is_read_while_there_is_no_new_one(log: Log, reader: Reader) -> None:
    """Between rename and create the log is where it was renamed to."""
    log.write(b"one\n")
    log.rename()
    assert b"one\n" == reader.drain()
    assert reader.stats.up
    log.write(b"two\n")
    assert b"two\n" == reader.drain()


def test_deleted_log_is_down_but_read_to_its_end(log: Log, reader: Reader) -> None:
    """A deleted log still gives what was written to it, and is reported as down until it is there again."""
    log.write(b"one\n")
    log.path.unlink()
    assert b"one\n" == reader.drain()
    assert not reader.stats.up
    log.reopen()
    log.write(b"two\n")
    assert b"two\n" == reader.drain()
    assert reader.stats.up


def test_directory_or_fifo_at_the_path_is_no_log(tmp_path: Path) -> None:
    """What is no regular file is reported, never opened in a way that blocks, and tried again."""
    path = tmp_path / "engine.log"
    path.mkdir()
    reader = Reader(Follower(path))
    assert b"" == reader.drain()
    assert (False, "EISDIR") == (reader.stats.up, reader.stats.error)
    path.rmdir()
    os.mkfifo(path)
    assert b"" == reader.drain()
    assert (False, "EINVAL") == (reader.stats.up, reader.stats.error)
    path.unlink()
    path.write_bytes(b"one\n")
    assert b"one\n" == reader.drain()
    assert reader.stats.up
    reader.follower.close()
