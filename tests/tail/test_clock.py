"""The clock may be set back: then the time of a file tells nothing about the others."""

import os
import time

import pytest

from .conftest import Life

HOUR = 3600


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "live"])
@pytest.mark.parametrize("naming", [("2", "1"), ("8", "9")], ids=["down", "up"])
def test_generations_that_look_old_are_not_passed_over(life: Life, naming: tuple[str, str], killed: bool) -> None:
    """The log is of an hour ahead; two rotations pass unseen; and what was history stays history."""
    for number in (4, 3) if naming == ("2", "1") else (6, 7):
        history = life.path.with_name(f"{life.path.name}.{number}")
        history.write_bytes(b"history\n" * number)
        os.utime(history, (time.time() + HOUR - number,) * 2)
    life.lines(10)
    ahead = time.time() + HOUR
    os.utime(life.path, (ahead, ahead))
    life.drain()
    life.save()
    if killed:
        life.kill()
    for number in naming:
        os.rename(life.path, f"{life.path}.{number}")
        life.reopen()
        life.lines(5)
    if killed:
        life.restart()
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 2, 0, 0) == life.figures


def test_a_compressed_file_that_looks_old_is_found(life: Life) -> None:
    """What was being read was written to after the clock was set back, rotated and compressed."""
    life.lines(20)
    ahead = time.time() + HOUR
    os.utime(life.path, (ahead, ahead))
    life.drain()
    life.save()
    life.kill()
    life.lines(5)
    life.rotate()
    life.pack(".1")
    life.lines(5)
    life.restart()
    life.drain()
    assert life.text == life.read
    assert 0 == life.figures[3]


def test_history_is_not_read_after_many_restarts(life: Life) -> None:
    """A state keeps what was passed over, for many files as for few."""
    for number in range(1, 100):
        life.path.with_name(f"{life.path.name}.{number}").write_bytes(b"history\n" * number)
    ahead = time.time() + HOUR
    for turn in range(6):
        life.lines(2)
        if turn < 4:
            os.utime(life.path, (ahead + turn, ahead + turn))
        life.drain()
        life.save()
        life.kill()
        life.shift(keep=200)
        os.rename(life.path, f"{life.path}.1")
        life.reopen()
        life.restart()
    life.lines(2)
    life.drain()
    assert life.text == life.read
