"""Sequences that the state machines found, in which something was lost: kept, for they are not found every time."""

import errno
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import pytest

from .test_machine import PATH, Copies, Renames

M = TypeVar("M", Copies, Renames)
Steps: TypeAlias = Callable[[M], object]


def half_line(machine: M) -> None:
    """The shortest text, without the end of its line."""
    machine.write(0, newline=False)


def play(machine: M, *steps: Steps[M], exists: bool = True) -> None:
    """Take the steps, looking after each, and at the end whether all was read."""
    machine.begin(40, exists)
    for step in steps:
        step(machine)
        machine.nothing_is_doubled_or_out_of_order()
    machine.teardown()


def rotate(machine: Renames) -> None:
    """To the next number."""
    machine.rotate(dated=False)


def rename(machine: Renames) -> None:
    """To the next number, and nothing is at the path."""
    machine.rename(dated=False)


def test_half_line_in_a_compressed_file_that_was_left() -> None:
    """It is kept until the next file has said something: an error may come between, and a kill then."""
    steps = (half_line, rotate, rotate, half_line, rotate, lambda m: m.files.pack(f"{PATH}.1"), Renames.drain, half_line)
    play(Renames(), *steps, lambda m: m.fail_in_the_middle(errno.EIO, 5), Renames.save, Renames.kill_and_restore, exists=False)


def test_failure_after_the_look_at_a_truncated_file() -> None:
    """The times of new content that was not read are not those of the old one: its copies are no earlier ones."""
    machine = Copies()
    machine.begin(40, exists=False)
    machine.write(200, newline=False)
    machine.drain()
    machine.copy_and_truncate(compressed=False)
    half_line(machine)
    machine.copy_and_truncate(compressed=False)
    machine.fail_in_the_middle(errno.EIO, 2)
    machine.release()
    machine.teardown()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("calls", range(13))
@pytest.mark.parametrize("more", [-20, 0, 20])
@pytest.mark.parametrize("chunk_bytes", [40, 300])
def test_four_truncations_errors_and_kills(chunk_bytes: int, more: int, calls: int, compressed: bool) -> None:
    """A truncation within a read, three more, an error in the middle of the next read, and kills: all copies are read."""
    machine = Copies()
    machine.begin(chunk_bytes, exists=True)
    machine.write(35, newline=True)
    machine.settle()
    machine.copy_and_truncate_in_the_middle(calls, more)
    for packed in (compressed, False, False):
        machine.copy_and_truncate(packed)
    machine.fail_in_the_middle(errno.ESTALE, 2)
    machine.save()
    machine.fail_in_the_middle(errno.EMFILE, 1)
    machine.kill_and_restore()
    machine.fail_in_the_middle(errno.ESTALE, 8)
    machine.kill_and_restore()
    machine.write(221, newline=True)
    machine.teardown()
