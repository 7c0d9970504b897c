"""Logs that may not be read, yet."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tail import Follower

from .conftest import Log, Reader

_NOBODY = 65534


@pytest.fixture(autouse=True)
def _as_somebody(tmp_path: Path) -> Iterator[None]:
    """Root may read anything, so give root up for the test, with the parts of tmp_path open to all."""
    if os.geteuid() != 0:
        yield
        return
    for directory in (tmp_path, *tmp_path.parents[:-2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    try:
        os.seteuid(_NOBODY)
    except PermissionError:
        pytest.skip("root without CAP_SETUID reads everything")
    yield
    os.seteuid(0)


def test_log_is_read_once_it_may_be(tmp_path: Path) -> None:
    """A permission that comes after the file (chmod after create) is noticed by the next read."""
    path = tmp_path / "engine.log"
    path.write_bytes(b"one\n")
    path.chmod(0)
    reader = Reader(Follower(path))
    assert b"" == reader.drain()
    assert (False, "EACCES") == (reader.stats.up, reader.stats.error)
    path.chmod(0o644)
    assert b"one\n" == reader.drain()
    assert (True, "") == (reader.stats.up, reader.stats.error)
    reader.follower.close()


def test_old_file_is_read_while_the_new_one_may_not_be(tmp_path: Path) -> None:
    """A rotation whose new file is not readable yet loses nothing."""
    log = Log(tmp_path / "engine.log")
    log.write(b"one\n")
    reader = Reader(Follower(log.path))
    reader.drain()
    log.write(b"two\n")
    log.rename()
    log.reopen()
    log.path.chmod(0)
    log.write(b"three\n")
    assert b"two\n" == reader.drain()
    assert not reader.stats.up
    log.path.chmod(0o644)
    assert b"three\n" == reader.drain()
    assert (True, 1, 0) == (reader.stats.up, reader.stats.rotations, reader.stats.lost_bytes)
    log.close()
    reader.follower.close()


def test_generation_that_may_not_be_read_is_counted_as_lost(tmp_path: Path) -> None:
    """A missed generation that cannot be opened is counted once, by its size."""
    log = Log(tmp_path / "engine.log")
    log.write(b"one\n")
    reader = Reader(Follower(log.path))
    reader.drain()
    log.rename()
    log.reopen()
    log.write(b"secret\n")
    log.path.chmod(0)
    log.rename()
    log.reopen()
    log.write(b"three\n")
    assert b"three\n" == reader.drain()
    assert 7 == reader.stats.lost_bytes
    log.close()
    reader.follower.close()


@pytest.mark.parametrize("what", ["file", "directory"])
@pytest.mark.parametrize("killed", [False, True], ids=["live", "killed"])
def test_start_at_the_end_of_what_may_not_be_read_yet(tmp_path: Path, what: str, killed: bool) -> None:
    """History is what was there when it could be seen first, not what was there when it could be opened."""
    (tmp_path / "logs").mkdir()
    log = Log(tmp_path / "logs" / "engine.log")
    log.write(b"history\n")
    closed = log.path if what == "file" else log.path.parent
    closed.chmod(0)
    reader = Reader(Follower(log.path, start_at="end"))
    assert b"" == reader.drain()
    assert (False, "EACCES") == (reader.stats.up, reader.stats.error)
    if what == "file":
        log.write(b"one\n")
    if killed:
        state = json.loads(json.dumps(reader.follower.state(0)))
        reader.follower.close()
        reader = Reader(Follower(log.path, start_at="end", state=state))
        assert b"" == reader.drain()
    closed.chmod(0o755)
    assert (b"one\n" if what == "file" else b"") == reader.drain()
    log.write(b"two\n")
    assert b"two\n" == reader.drain()
    log.rename()
    log.reopen()
    log.write(b"three\n")
    assert b"three\n" == reader.drain()
    assert (True, "", 1, 0) == (reader.stats.up, reader.stats.error, reader.stats.rotations, reader.stats.lost_bytes)
    log.close()
    reader.follower.close()


def test_what_replaces_the_unreadable_file_is_new(tmp_path: Path) -> None:
    """The history at the start is that of the file which was there."""
    log = Log(tmp_path / "engine.log")
    log.write(b"history\n")
    log.path.chmod(0)
    reader = Reader(Follower(log.path, start_at="end"))
    assert b"" == reader.drain()
    log.rename()
    log.reopen()
    log.write(b"new\n")
    assert b"new\n" == reader.drain()
    assert (True, 0) == (reader.stats.up, reader.stats.lost_bytes)
    log.close()
    reader.follower.close()
