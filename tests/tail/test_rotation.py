"""Rename-and-create rotation."""

import os
from pathlib import Path

import pytest

from exporter.tail import Chunk, Follower

from .conftest import Log, Reader, open_descriptors


def test_old_file_is_drained_before_the_new_one(log: Log, reader: Reader) -> None:
    """What was written before the rename comes out before what was written to the new file."""
    log.write(b"one\n")
    reader.drain()
    log.write(b"two\n")
    log.rename()
    log.reopen()
    log.write(b"three\n")
    assert b"two\nthree\n" == reader.drain()
    assert [8] == reader.begins
    assert (1, 0, 0) == (reader.stats.rotations, reader.stats.truncations, reader.stats.lost_bytes)


def test_writer_that_stays_with_the_renamed_file_is_followed(log: Log, reader: Reader) -> None:
    """Before the writer reopens its log, the renamed file is the log, for as long as the new one is empty."""
    log.write(b"one\n")
    log.rename()
    Path(log.path).touch()
    for line in (b"two\n", b"three\n"):
        log.write(line)
        reader.drain()
    log.reopen()
    log.write(b"four\n")
    reader.drain()
    assert b"one\ntwo\nthree\nfour\n" == reader.data
    assert [14] == reader.begins


def test_late_line_in_the_old_file_comes_between_two_lines_of_the_new(log: Log, reader: Reader) -> None:
    """A second writer may switch a moment after the first; its line does not split one of the new file."""
    log.write(b"one\n")
    log.rename()
    log.path.write_bytes(b"half a ")
    assert b"one\nhalf a " == reader.drain()
    log.write(b"late\n")
    assert b"" == reader.drain()
    with log.path.open("ab") as new:
        new.write(b"line\n")
    assert b"line\nlate\n" == reader.drain()
    assert [4, 16] == reader.begins


def test_generations_rotated_between_two_reads_are_read(log: Log, reader: Reader) -> None:
    """Files that had been renamed twice before we looked are found by their names, oldest first."""
    written = b""
    for number in range(4):
        line = b"line %d\n" % number
        log.write(line)
        written += line
        if number < 3:
            log.rename()
            log.reopen()
    assert written == reader.drain()
    assert (3, 0) == (reader.stats.rotations, reader.stats.lost_bytes)


def test_generations_that_count_upwards_are_read_in_order(log: Log, reader: Reader) -> None:
    """A writer that gives each generation the next number leaves the newest with the highest."""
    written = b""
    for number in range(30):
        line = b"line %d\n" % number
        log.write(line)
        written += line
        os.rename(log.path, f"{log.path}.{number + 1}")
        log.reopen()
        if number in (0, 1, 14):
            reader.drain()
    reader.drain()
    assert written == reader.data


@pytest.mark.parametrize("suffix", ["-20260731", ".2026-07-31", ".20260731-120000", ".7"])
def test_dated_generations_are_read(log: Log, reader: Reader, suffix: str) -> None:
    """A generation may be named by its date."""
    log.write(b"one\n")
    reader.drain()
    log.rename()
    log.reopen()
    log.write(b"two\n")
    os.rename(log.path, f"{log.path}{suffix}")
    log.reopen()
    log.write(b"three\n")
    assert b"two\nthree\n" == reader.drain()


def test_generations_from_before_the_start_are_history(log: Log) -> None:
    """Rotated files that were there at the start, and compressed or unfinished ones, are not read."""
    Path(f"{log.path}.1").write_bytes(b"history\n")
    reader = Reader(Follower(log.path))
    reader.drain()
    for suffix in (".1.gz", ".2.zst", ".1.tmp", ".bak", "x.1"):
        Path(f"{log.path}{suffix}").write_bytes(b"other\n")
    log.rename()
    log.reopen()
    log.write(b"new\n")
    assert b"new\n" == reader.drain()
    reader.follower.close()


def test_generation_that_was_read_is_not_read_again(log: Log, reader: Reader) -> None:
    """Renaming a read file, and moving it back to the path, gives nothing new."""
    log.write(b"one\n")
    reader.drain()
    log.rename()
    log.reopen()
    log.write(b"two\n")
    reader.drain()
    reader.drain()
    log.rename()
    os.rename(f"{log.path}.2", log.path)
    assert b"" == reader.drain()


def test_many_generations_at_once_are_read(tmp_path: Path) -> None:
    """More generations than are held open at once are read in order, and the path's file last."""
    log = Log(tmp_path / "engine.log")
    reader = Reader(Follower(log.path))
    reader.drain()
    before = open_descriptors()
    for number in range(200):
        log.write(b"%d\n" % number)
        os.rename(log.path, f"{log.path}.{number + 1}")
        os.utime(f"{log.path}.{number + 1}", ns=(0, 10**18 + number))
        log.close()
    log.write(b"end\n")
    most = 0
    while (chunk := reader.follower.read()).data:
        reader.data += chunk.data
        most = max(most, open_descriptors() - before)
    assert [b"%d" % number for number in range(200)] + [b"end"] == reader.data.splitlines()
    assert most <= 70
    log.close()
    reader.follower.close()


def test_no_descriptor_is_leaked(log: Log, reader: Reader) -> None:
    """After many rotations as many descriptors are open as before, and none after close()."""
    log.write(b"x\n")
    reader.drain()
    before = open_descriptors()
    for _ in range(50):
        log.write(b"x\n")
        log.rename()
        log.reopen()
        log.write(b"x\n")
        reader.drain()
        reader.drain()
    assert before == open_descriptors()
    reader.follower.close()
    assert before - 1 == open_descriptors()
    assert Chunk(b"", begins_file=False) == reader.follower.read()


def test_new_files_that_come_and_go_unused_do_not_pile_up(log: Log, reader: Reader) -> None:
    """A writer may stay with its first file for ever, whatever rotates around it."""
    log.write(b"one\n")
    before = open_descriptors()
    for number in range(200):
        os.rename(log.path, f"{log.path}.{number + 1}")
        log.path.touch()
        reader.drain()
    log.write(b"two\n")
    assert b"two\n" == reader.drain()
    assert open_descriptors() - before <= 64
