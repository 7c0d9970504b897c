"""The verdict of an engine that prints its lines more or less often than each ten seconds (VLLM_LOG_STATS_INTERVAL)."""

import pytest

from .conftest import API, POST, Reading, line, read, skipped, stats, transfers
from .test_verdict import decode


def clock(seconds: float) -> str:
    """So long after four in the morning."""
    return f"{4 + int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def fetched(seconds: float, requests: int = 4) -> list[str]:
    """An interval that ends then, with requests whose KV came."""
    return [*[POST] * requests, stats(clock(seconds), prompt=0.1, generation=40.0), transfers(requests, clock(seconds))]


def computed(seconds: float, prompt: float, requests: int = 4) -> list[str]:
    """An interval that ends then, with requests whose prompts were computed here, `prompt` tokens a second."""
    return [*[POST] * requests, stats(clock(seconds), prompt=prompt, generation=40.0)]


def busy(every: float, *, rounds: int = 4) -> Reading:
    """A decode engine that fetched KV for some intervals of `every` seconds."""
    return read(*decode(), *(each for number in range(rounds) for each in fetched(number * every)))


@pytest.mark.parametrize("every", [10, 60, 300, 600])
def test_whole_prompts_are_seen_however_long_an_interval_is(every: int) -> None:
    """Four prompts of a thousand tokens, of which the line tells the rate."""
    reading = busy(every)
    assert "proven" == reading.verdict

    for number in (4, 5):
        reading.feed(*computed(number * every, round(4000 / every, 1)))
    assert "router_bypass" == reading.verdict


def test_a_hole_in_a_log_is_no_interval() -> None:
    """Twenty minutes are missing, with the answers in them: 1.2 tokens/s in ten seconds are twelve tokens, and not 1,440."""
    reading = busy(10)
    reading.feed(POST, stats(clock(1230), prompt=1.2, generation=40.0), transfers(1, clock(1230)))

    assert "proven" == reading.verdict


@pytest.mark.parametrize(("every", "seconds"), [(10, 300), (60, 300), (300, 600), (600, 1200)])
@pytest.mark.parametrize("quiet", [True, False])
def test_an_engine_is_idle_when_its_next_line_is_long_overdue(every: int, seconds: int, quiet: bool) -> None:
    """Traffic that goes on is told of at the end of an interval: until then nobody knows."""
    reading = busy(every)
    last = 3 * every
    if quiet:
        last += every
        reading.feed(stats(clock(last), prompt=0.0, generation=0.0, running=0))

    assert "proven" == reading.feed(line("x", API, clock(last + seconds - 1))).verdict
    assert "idle" == reading.feed(line("x", API, clock(last + seconds))).verdict


@pytest.mark.parametrize("every", [1, 10])
def test_long_answers_without_access_lines_are_no_new_requests(every: int) -> None:
    """Thirty requests run for minutes, and one of four intervals brings a new one: the others bring no news."""
    reading, verdicts = read(*decode()), set()
    for number in range(20):
        at, new = clock(number * every), number % 4 == 0
        reading.feed(stats(at, prompt=round(new / every, 1), generation=900.0, running=30), *[transfers(1, at)] * new)
        verdicts.add(reading.verdict)

    assert {"proven"} == verdicts


@pytest.mark.parametrize("answers", [0, 4])
def test_a_new_request_whose_one_token_is_rounded_away_is_one(answers: int) -> None:
    """0.02 tokens/s are printed as 0.0: the connector's line tells of it, and a failure before it is over after two."""
    reading = read(*decode(), *[POST] * answers, *fetched(0, 4)[4:], skipped(at=clock(30)))
    assert "recomputing" == reading.verdict

    for number in range(1, 6):
        reading.feed(stats(clock(number * 60), prompt=0.0, generation=30.0), transfers(1, clock(number * 60)))
    assert "proven" == reading.verdict


@pytest.mark.parametrize("every", [10, 60, 600])
@pytest.mark.parametrize(("prompt", "verdict"), [(4.0, "unproven"), (14.0, "router_bypass")])
def test_probes_without_access_lines_do_not_add_up_to_a_prompt(prompt: float, verdict: str, every: int) -> None:
    """A probe of forty tokens each ten seconds asks the engine itself: in an interval of ten minutes they are 2,400 tokens."""
    reading = read(*decode(), *(stats(clock(number * every), prompt=prompt, running=0) for number in range(5)))

    assert verdict == reading.verdict


def test_a_second_that_the_clock_skips_doubles_no_prompt() -> None:
    """A line each 1.02 s: of two seconds between two of them one is a fraction that times do not have."""
    reading = busy(1, rounds=8)
    for second in (8, 10):
        reading.feed(POST, stats(clock(second), prompt=100.0), transfers(1, clock(second)))

    assert "proven" == reading.verdict
