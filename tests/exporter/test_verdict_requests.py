"""How many requests an interval had, where access lines, engines or periodic lines leave it open."""

import pytest

from .conftest import API, CORE, POST, RANK0, line, read, stats, transfers
from .test_verdict import decode


@pytest.mark.parametrize(("posts", "verdict"), [(1, "unproven"), (0, "idle")])
def test_answers_end_the_idle_time_where_no_periodic_line_is_printed(posts: int, verdict: str) -> None:
    """With --disable-log-stats they are all there is, and they prove nothing."""
    assert verdict == read(*decode(), *[POST] * posts, line("x", API, "03:45:00"), *[POST] * posts).verdict


@pytest.mark.parametrize(("prompt", "verdict"), [(500.0, "partial"), (60.0, "proven")])
def test_bypassed_engine_of_a_data_parallel_group_is_not_hidden_by_the_other(prompt: float, verdict: str) -> None:
    """Ten requests of each: 500 tokens of a request that no transfer brought, or half a block."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(*[POST] * 50, stats(at, prompt=0.2, running=10, engine="Engine 000"), transfers(80, at))
        reading.feed(stats(at, prompt=prompt, running=10, engine="Engine 001"))

    assert verdict == reading.verdict


@pytest.mark.parametrize(
    ("prompt", "moved", "verdict"),
    [
        pytest.param(600.0, 16, "partial", id="half"),
        pytest.param(12.0, 16, "proven", id="last-blocks"),
        pytest.param(600.0, 0, "router_bypass", id="nothing-ever-came"),
        pytest.param(2.0, 0, "unproven", id="nothing-ever-came-and-less-than-a-block"),
    ],
)
def test_requests_that_run_are_no_requests_of_an_interval(prompt: float, moved: int, verdict: str) -> None:
    """Without access lines 60 requests that run for minutes would hide 6,000 tokens of whole prompts (256 bytes a token)."""
    pool = [line("Available KV cache memory: 1.00 GiB", RANK0), line("GPU KV cache size: 4,194,304 tokens", CORE)]
    reading = read(*decode(), *pool)
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(stats(at, prompt=prompt, running=60), *[transfers(moved, at, size=0.25)] * bool(moved))

    assert verdict == reading.verdict


@pytest.mark.parametrize(("moved", "verdict"), [(16, "proven"), (2, "partial")])
def test_a_request_whose_kv_came_is_a_request(moved: int, verdict: str) -> None:
    """Without access lines two requests that run are not all there were: 1,000 tokens are last blocks of sixteen, not of two."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(stats(at, prompt=100.0, running=2), transfers(moved, at))

    assert verdict == reading.verdict


@pytest.mark.parametrize(("answered", "moved", "verdict"), [(4, 1, "unproven"), (4, 4, "proven"), (1, 1, "partial")])
def test_tokens_that_no_request_whose_kv_came_explains_are_not_proven(answered: int, moved: int, verdict: str) -> None:
    """Of four short prompts three came without KV: 300 tokens are less than a block each, and more than one of the fourth."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(*[POST] * answered, stats(at, prompt=30.0, running=0), transfers(moved, at))

    assert verdict == reading.verdict


@pytest.mark.parametrize(
    ("prompt", "verdict", "local"),
    [
        pytest.param(600.0, "router_bypass", "fail", id="whole-prompts"),
        pytest.param(150.0, "unproven", "unknown", id="perhaps-last-blocks"),
    ],
)
def test_kv_that_came_no_more_is_seen_without_access_lines(prompt: float, verdict: str, local: str) -> None:
    """Sixty long answers hide how many requests are new: sixteen as before have 375 tokens each, or less than a block."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(stats(at, prompt=1.0, running=60), transfers(16, at))
    assert "proven" == reading.verdict

    for at in ("03:14:40", "03:14:50"):
        reading.feed(stats(at, prompt=prompt, running=60))
    assert verdict == reading.verdict
    assert (local, "fail") == (reading.check("local_prefill_low"), reading.check("transfers_growing"))


def test_prompts_that_are_cached_here_are_none_that_bypass() -> None:
    """Their KV came before; thirty short requests with a last block each ran at the end of no interval."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(stats(at, prompt=3.0, running=0), transfers(30, at))
    for at in ("03:14:40", "03:14:50"):
        reading.feed(stats(at, prompt=48.0, running=0))

    assert "unproven" == reading.verdict


@pytest.mark.parametrize(("answers", "running"), [(1, 0), (1, 1), (0, 0), (0, 1)])
def test_the_first_request_of_all_is_no_bypass(answers: int, running: int) -> None:
    """Somebody tries the engine itself before any gateway knows it: two such requests are, as nobody can tell them from others."""
    reading = read(*decode(), *[POST] * answers, stats("03:14:10", prompt=100.0, running=running))
    assert ("unproven", "unknown") == (reading.verdict, reading.check("local_prefill_low"))
    reading.feed(stats("03:14:20", prompt=0.0, running=running), stats("03:14:30", prompt=0.0, generation=0.0, running=0))
    assert "idle" == reading.feed(line("x", API, "03:20:00")).verdict

    reading.feed(*[POST] * answers, stats("03:20:10", prompt=100.0, running=0))
    assert ("router_bypass", "fail") == (reading.verdict, reading.check("local_prefill_low"))
