"""Patterns of users: what they count, and what one that explodes costs."""

import time

import pytest

from exporter.patterns import SECONDS_A_READ, TIMEOUTS, Patterns
from parsers.log import Log

EXPLODES = r"(a|aa)+$"
FUSE = b"a" * 60 + b"!\n"


def log_of(**texts: str) -> Log:
    """A log in which these are looked for."""
    patterns = Patterns()
    patterns.replace(texts)
    return Log(2026, patterns=patterns)


def counts(log: Log) -> tuple[dict[str, int], dict[str, int]]:
    """Lines, and timeouts, by pattern."""
    return log.counts()["pattern_lines_total"], log.counts()["pattern_timeouts_total"]


def test_lines_count_once_in_any_wrapping_and_any_piece() -> None:
    """As they stand in the file; one that is not complete does not count yet."""
    log = log_of(tool=r"tool call \w+ failed", quiet="never")
    log.feed(b"INFO 07-14 03:14:20 [a.py:1] tool call x failed, tool call y failed\n2026-07-14T03:12:07.1Z stdout F tool call")
    assert counts(log) == ({"tool": 1, "quiet": 0}, {"tool": 0, "quiet": 0})
    log.feed(b' z failed\n{"log":"tool call 1 failed\\n","stream":"stdout","time":"2026-07-14T03:12:07Z"}\ntool call 5 failed')
    assert counts(log)[0] == {"tool": 3, "quiet": 0}
    log.close()
    assert counts(log)[0] == {"tool": 4, "quiet": 0}


@pytest.mark.parametrize("line", [FUSE, FUSE * 1000], ids=["one line", "many"])
def test_one_that_explodes_is_given_up_and_the_others_go_on(line: bytes) -> None:
    """It costs its time three times, and then nothing."""
    log, began = log_of(bomb=EXPLODES, other="a!"), time.thread_time()
    for _ in range(TIMEOUTS + 5):
        log.feed(line)
    assert time.thread_time() - began < SECONDS_A_READ * (TIMEOUTS + 2)
    lines = (TIMEOUTS + 5) * line.count(b"\n")
    assert counts(log) == ({"bomb": 0, "other": lines}, {"bomb": TIMEOUTS, "other": 0})


def test_a_new_configuration_gives_another_chance() -> None:
    """What was counted stays."""
    patterns = Patterns()
    patterns.replace({"bomb": EXPLODES})
    log = Log(2026, patterns=patterns)
    for _ in range(TIMEOUTS):
        log.feed(FUSE)
    patterns.replace({"bomb": r"a+!$"})
    log.feed(FUSE)
    assert counts(log) == ({"bomb": 1}, {"bomb": TIMEOUTS})
    with pytest.raises(ValueError, match="no valid pattern"):
        patterns.replace({"bomb": "("})
    log.feed(FUSE)
    assert counts(log)[0] == {"bomb": 2}
