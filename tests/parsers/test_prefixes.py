"""What a viewer or a user's own logging configuration puts before a line."""

import pytest

from tests.parsers.reading import STATS, header, read

BRACKETED = "[2026-07-14 03:12:17,123][loggers.py:310][INFO]: "


@pytest.mark.parametrize(
    "prefix",
    [
        "[pod/decode-0/engine] ",
        "2026-07-14T03:12:17.123456789Z ",
        "[pod/decode-0/engine] 2026-07-14T03:12:17.123456789Z ",
        "ms-pd-decode-6458459f69-qxv6j vllm ",
        "decode-0 engine ",
        "engine-1  | ",
        "engine-1  | 2026-07-14T03:12:17.123456789Z ",
        "Jul 14 03:12:17 gpu-host-1 vllm[4711]: ",
        "Jul  4 03:12:17 gpu-host-1 docker/engine[4711]: ",
    ],
    ids=[
        "kubectl logs --prefix",
        "kubectl logs --timestamps",
        "kubectl logs with both",
        "stern",
        "stern, a stateful set",
        "docker compose",
        "docker compose with times",
        "journalctl",
        "syslog",
    ],
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
