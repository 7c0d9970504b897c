"""What a viewer or a user's own logging configuration puts before a line."""

import pytest

from tests.parsers.reading import STATS, header, read

BRACKETED = "[2026-07-14 03:12:17,123][loggers.py:310][INFO]: "


@pytest.mark.parametrize(
    "prefix",
    ["[pod/decode-0/engine] ", "ms-pd-decode-6458459f69-qxv6j vllm ", "engine-1  | ", "decode-0 engine "],
    ids=["kubectl logs --prefix", "stern", "docker compose", "stern, a stateful set"],
)
def test_a_viewers_prefix_comes_off(prefix):
    """The record behind it is read as if it stood alone."""
    assert read(prefix + header() + STATS + "\n").kinds == ["IntervalStats"]
    assert read(f'{prefix}INFO:     10.0.0.7:41022 - "POST /v1/completions HTTP/1.1" 200 OK\n').responses == {"2xx": 1}


def test_bracket_groups_are_a_header():
    """Level and time are read where they stand in brackets."""
    reading = read(BRACKETED + STATS + "\n")
    assert reading.kinds == ["IntervalStats"]
    assert reading.heads[0].level == "INFO"
    assert reading.heads[0].time == pytest.approx(1783998737.123)


@pytest.mark.parametrize("prefix", ["he said ", "[a][b] ", "one-two three four "])
def test_other_words_before_a_message_are_no_header(prefix):
    """Brackets without a level, or words that name no pod, stand before text."""
    assert read(f"{prefix}{STATS}\n").events == []
