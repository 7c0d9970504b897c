"""Logs that may not be read, yet."""

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
