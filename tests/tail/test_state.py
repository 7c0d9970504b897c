"""What a follower saves."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.tail import Follower

from .conftest import Life


def test_half_line_of_a_file_that_is_gone_is_lost_with_the_state(life: Life) -> None:
    """Once its file was truncated, only the living process can end it."""
    life.write(b"one\nhalf ")
    life.drain()
    life.truncate()
    assert b"" == life.follower.read().data
    state = life.follower.state(5)
    assert (9, 5, 0) == (state["read_bytes"], state["lost_bytes"], life.follower.stats.lost_bytes)


def test_state_of_a_follower_that_never_read_says_nothing(life: Life) -> None:
    """Then start_at holds."""
    life.save()
    life.kill()
    life.lines(1)
    life.restart()
    assert b"" == life.follower.read().data


def test_state_has_no_text_and_is_small(life: Life) -> None:
    """Fingerprints are digests, and marks are few."""
    life.lines(40)
    life.drain()
    for _ in range(50):
        life.rotate()
        life.lines(10)
        life.drain()
        life.drain()
    life.write(b"half a line with a secret")
    life.drain()
    life.save()
    text = json.dumps(life.saved)
    assert "words" not in text
    assert "secret" not in text
    assert len(text) < 8000


def leaves(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in a state."""
    yield path
    if isinstance(state, dict | list):
        for key in state if isinstance(state, dict) else range(len(state)):
            yield from leaves(state[key], (*path, key))


@pytest.mark.parametrize("wrong", [None, -5, 2**80, 1.5, True, "", "x\0", "/\ud800", [], {}, [1, 2], [1] * 10], ids=repr)
def test_malformed_state_is_a_value_error(life: Life, wrong: Any) -> None:
    """And what passes for a state never makes read() fail."""
    life.lines(40)
    life.rotate()
    life.lines(10)
    life.follower = Follower(life.path)
    life.drain()
    life.rotate()
    life.lines(10)
    life.drain()
    life.save()
    for path in leaves(life.saved):
        state = json.loads(json.dumps({"": life.saved}))
        place = state
        for key in ("", *path)[:-1]:
            place = place[key]
        place[("", *path)[-1]] = wrong
        try:
            follower = Follower(life.path, state=state[""])
        except ValueError:
            continue
        while follower.read().data:
            pass
        follower.close()
