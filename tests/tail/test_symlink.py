"""Logs behind a symbolic link."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.tail import Follower

from .conftest import Reader


@pytest.fixture
def point(tmp_path: Path) -> Callable[[Path], Path]:
    """Make engine.log a link to a target, replacing the one before at once."""

    def point(target: Path) -> Path:
        link, new = tmp_path / "engine.log", tmp_path / "engine.log.lnk"
        new.symlink_to(target)
        os.replace(new, link)
        return link

    return point


def append(path: Path, data: bytes) -> None:
    """Write as an engine does."""
    with path.open("ab") as file:
        file.write(data)


def test_old_target_is_drained_before_the_new_one(tmp_path: Path, point: Callable[[Path], Path]) -> None:
    """A link that points elsewhere is a rotation."""
    old, new = tmp_path / "a" / "0.log", tmp_path / "b" / "1.log"
    old.parent.mkdir()
    new.parent.mkdir()
    append(old, b"one\n")
    reader = Reader(Follower(point(old)))
    reader.drain()
    append(old, b"two\n")
    append(new, b"three\n")
    point(new)
    assert b"two\nthree\n" == reader.drain()
    assert 1 == reader.stats.rotations
    reader.follower.close()


def test_target_that_is_rotated_by_rename(tmp_path: Path, point: Callable[[Path], Path]) -> None:
    """As kubelet does: the link stays, its target is renamed to a date, twice between two reads."""
    target = tmp_path / "pod" / "0.log"
    target.parent.mkdir()
    append(target, b"one\n")
    reader = Reader(Follower(point(target)))
    reader.drain()
    for name, line in (("0.log.20260731-120000", b"two\n"), ("0.log.20260731-120001", b"three\n")):
        append(target, line)
        target.rename(target.with_name(name))
    append(target, b"four\n")
    assert b"two\nthree\nfour\n" == reader.drain()
    reader.follower.close()


def test_numbered_targets_between_two_reads_are_read(tmp_path: Path, point: Callable[[Path], Path]) -> None:
    """A link that was turned twice leaves out no target with a number in between, and takes none beyond."""
    for number in range(8, 13):
        append(tmp_path / f"real.{number}", b"%d\n" % number)
    reader = Reader(Follower(point(tmp_path / "real.9")))
    reader.drain()
    point(tmp_path / "real.11")
    reader.drain()
    assert b"9\n10\n11\n" == reader.data
    reader.follower.close()


def test_link_turned_back_gives_only_what_is_new(tmp_path: Path, point: Callable[[Path], Path]) -> None:
    """A target that was read before is read on from where it was left."""
    one, two = tmp_path / "one", tmp_path / "two"
    append(one, b"1\n")
    append(two, b"2\n")
    reader = Reader(Follower(point(one)))
    for target in (two, one, two, one):
        reader.drain()
        reader.drain()
        point(target)
    append(one, b"3\n")
    reader.drain()
    assert b"1\n2\n3\n" == reader.data
    reader.follower.close()


def test_dangling_link_is_a_missing_file(tmp_path: Path, point: Callable[[Path], Path]) -> None:
    """A link may be there before its target."""
    reader = Reader(Follower(point(tmp_path / "later")))
    assert b"" == reader.drain()
    assert "ENOENT" == reader.stats.error
    append(tmp_path / "later", b"one\n")
    assert b"one\n" == reader.drain()
    reader.follower.close()
