"""Files that begin with the same bytes, as lines with a time do, are not taken for copies of each other."""

import pytest

from .conftest import Life

START = "2026-11-29T23:14:"


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("kind", ["rotated", "compressed", "copied"])
def test_unread_generation_while_the_log_has_half_a_line(life: Life, kind: str, killed: bool) -> None:
    """All that the log has so far is what the unread generation begins with."""
    life.lines(3, START)
    life.drain()
    life.save()
    if killed:
        life.kill()
    if kind == "copied":
        life.lines(10, START)
        life.copy()
        life.truncate()
    else:
        life.rotate()
        life.lines(10, START)
        life.rotate()
    if kind == "compressed":
        life.pack(".1")
    life.write(START[:11].encode())
    if killed:
        life.restart()
    life.drain()
    life.write(f"{START[11:]} the rest\n".encode())
    life.drain()
    life.rotate()
    life.lines(2, START)
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 0) == (life.follower.stats.read_bytes, life.follower.stats.lost_bytes)


@pytest.mark.parametrize("renamed", [False, True])
def test_half_a_line_was_read_before_two_truncations(life: Life, renamed: bool) -> None:
    """Each copy begins with it, and only the first one goes on with it."""
    life.write(START[:11].encode())
    life.drain()
    life.write(f"{START[11:]} the rest\n".encode())
    for _ in range(2):
        life.lines(3, START)
        life.copy()
        life.truncate()
        life.tick()
    life.lines(1)
    if renamed:
        life.rotate()
        life.lines(2, START)
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 0) == (life.follower.stats.read_bytes, life.follower.stats.lost_bytes)


def test_compressed_generation_while_half_a_line_is_held(life: Life) -> None:
    """What is held is no more than what the compressed one begins with."""
    life.lines(3, START)
    life.drain()
    life.rotate()
    life.write(START[:11].encode())
    life.drain()
    life.save()
    life.kill()
    life.write(f"{START[11:]} the rest\n".encode())
    life.rotate()
    life.lines(5, START)
    life.rotate()
    life.pack(".1")
    life.lines(2, START)
    life.restart()
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 0) == (life.follower.stats.read_bytes, life.follower.stats.lost_bytes)


def test_renamed_log_has_half_a_line(life: Life) -> None:
    """A generation of which only the first half line is there yet is no copy of the one before it."""
    life.lines(3, START)
    life.drain()
    life.rotate()
    life.rename()
    life.write(START[:11].encode())  # the writer has not noticed yet
    life.path.touch()
    life.drain()
    life.write(f"{START[11:]} the rest\n".encode())
    life.reopen()
    life.lines(2, START)
    life.drain()
    assert life.text == life.read
    assert 0 == life.follower.stats.lost_bytes
