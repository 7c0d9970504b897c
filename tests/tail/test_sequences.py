"""Sequences that the state machines found, in which something was lost: kept, for they are not found every time."""

import errno
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import pytest

from .test_machine import PATH, Copies, Links, Renames

M = TypeVar("M", Copies, Links, Renames)
Steps: TypeAlias = Callable[[M], object]

DAY = 86400


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


def test_clock_set_back_while_an_empty_log_was_rotated() -> None:
    """Only the time of the log tells that the clock was set back, and while there is no log nothing is taken for history."""
    play(Renames(), lambda m: m.set_clock(-DAY), Renames.kill_and_restore, rename, half_line, Renames.drain)


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_clock_set_back_before_two_rotations(empty: bool, restore: bool) -> None:
    """The generation between is found when the log is there again."""
    machine = Renames()
    steps = [*([] if empty else [half_line]), lambda m: m.set_clock(-DAY), *([Renames.kill_and_restore] if restore else [])]
    play(machine, *steps, rotate, half_line, rename, Renames.drain)


def test_half_line_in_a_compressed_file_is_read_again_after_a_kill() -> None:
    """What a compressor makes of a file that is held is no file that needs no reading."""
    steps = (half_line, Renames.drain, rotate, lambda m: m.files.pack(f"{PATH}.1"), rename, Renames.drain)
    play(Renames(), *steps, Renames.save, Renames.kill_and_restore)


def test_half_line_in_a_compressed_file_that_the_clock_makes_old() -> None:
    """Nor is it one because it is older than the newest file."""
    steps = (half_line, lambda m: m.set_clock(10), rotate, Renames.drain, rotate, lambda m: m.files.pack(f"{PATH}.2"))
    play(Renames(), *steps, lambda m: m.set_clock(-DAY), Renames.kill_and_restore, Renames.delete)


def test_half_line_in_a_compressed_file_while_the_clock_was_set_back_and_forth() -> None:
    """The file's own times tell how old its compressed text may be."""
    steps = (lambda m: m.set_clock(-DAY), half_line, rotate, lambda m: m.files.pack(f"{PATH}.1"), lambda m: m.set_clock(DAY))
    play(Renames(), *steps, Renames.kill_and_restore, Renames.delete)


def test_half_line_in_a_compressed_file_that_was_left() -> None:
    """It is kept until the next file has said something: an error may come between, and a kill then."""
    steps = (half_line, rotate, rotate, half_line, rotate, lambda m: m.files.pack(f"{PATH}.1"), Renames.drain, half_line)
    play(Renames(), *steps, lambda m: m.fail_in_the_middle(errno.EIO, 5), Renames.save, Renames.kill_and_restore, exists=False)


def test_written_to_an_empty_rotated_file_before_its_descriptor_was_lost() -> None:
    """It is older than the file that is found by its content, and no history."""
    steps = (rename, half_line, Renames.open_again, half_line, lambda m: m.fail_in_the_middle(errno.ESTALE, 8))
    play(Renames(), *steps, Renames.delete)


def test_unread_generations_of_which_the_last_is_empty() -> None:
    """A compressed file that is empty needs no reading, which does not make its number that of an older one."""
    steps = (lambda m: m.set_clock(-DAY), half_line, rotate, lambda m: m.fail(errno.ESTALE, 1), half_line, rotate, rotate, half_line)
    play(Renames(), *steps, lambda m: m.files.pack(f"{PATH}.3"), lambda m: m.files.pack(f"{PATH}.1"), Renames.delete)


def test_clock_set_back_before_an_unread_log_was_rotated() -> None:
    """What is older than the last line of an unread file is no copy of it then."""
    steps = (half_line, rotate, lambda m: m.set_clock(-DAY), Renames.kill_and_restore, rename, half_line)
    play(Renames(), *steps, exists=False)


def test_clock_set_forth_and_back_before_an_unread_log_was_rotated() -> None:
    """A file of which something was seen that is still in it was not truncated, whatever the times are."""
    steps = (lambda m: m.set_clock(DAY), half_line, rotate, lambda m: m.set_clock(-DAY), Renames.kill_and_restore, rename, half_line)
    play(Renames(), *steps, Renames.drain)


@pytest.mark.parametrize("looks", [[], [Renames.drain]])
def test_clock_set_back_before_a_short_log_was_rotated_and_an_older_one_deleted(looks: list[Steps[Renames]]) -> None:
    """A file too short to be known by its text is no copy of the deleted one by a time from after the step."""
    steps = (lambda m: m.set_clock(DAY), Renames.delete, half_line, rotate, lambda m: m.set_clock(-DAY), Renames.kill_and_restore)
    play(Renames(), *steps, rename, half_line, *looks, Renames.open_again, Renames.delete)


def test_targets_of_a_link_are_in_order_when_the_clock_was_set_back() -> None:
    """The number of the newest tells that they count upwards."""
    machine = Links()
    machine.begin(40)
    machine.set_clock(-DAY)
    half_line(machine)
    machine.kill_and_restore()
    for _ in range(2):
        machine.swap()
        half_line(machine)
    machine.drain()
    machine.nothing_is_doubled_or_out_of_order()
    machine.teardown()


def test_target_of_a_link_that_could_not_be_read_before_its_descriptor_was_lost() -> None:
    """It is no target between the newest and the next, and was never seen to have anything."""
    machine = Links()
    machine.begin(40)
    machine.write(200, newline=False)
    for after in (1, 12):
        machine.swap()
        machine.fail_in_the_middle(errno.EIO, after)
    machine.swap()
    machine.fail_in_the_middle(errno.ESTALE, 1)
    machine.teardown()


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


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("read", [False, True])
def test_truncations_and_a_rename_between_two_looks(read: bool, copies: int, restore: bool) -> None:
    """The copies come before what the renamed file holds since the last of the truncations, and nothing of them is lost."""

    class Both(Renames, Copies):
        pass

    steps: list[Steps[Renames]] = [lambda m: m.write(30, newline=True), lambda m: m.write(300, newline=True)]
    play(
        Both(),
        *([steps[0], Renames.settle] if read else []),
        *([steps[1], lambda m: m.copy_and_truncate(compressed=False)] * copies),
        steps[0],
        lambda m: m.rotate(dated=True),
        steps[0],
        *([Renames.kill_and_restore] if restore else []),
        Renames.drain,
    )
