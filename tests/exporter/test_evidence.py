"""Which intervals count as evidence, how many requests came in during one, and what a log without its start proves."""

from .conftest import POST, READY, connector, logo, read, skipped, stats, transfers


def decode(version: str = "0.32.0") -> list[str]:
    """A decode engine that just started."""
    return [logo(version), connector("kv_consumer"), READY]


def healthy(at: str) -> list[str]:
    """An interval of 10 s with four requests, whose prompts came by transfer."""
    return [POST, POST, POST, POST, stats(at, prompt=1.2, generation=40.0), transfers(8, at)]


def busy(at: str, *, answered: int, prompt: float, running: int = 256) -> list[str]:
    """An interval of an engine with many requests at work."""
    return [*[POST] * answered, stats(at, prompt=prompt, generation=2000.0, running=running)]


def test_bypass_of_a_busy_engine_is_seen() -> None:
    """Requests that run on must not hide that the ten new ones were computed here."""
    reading = read(*decode(), *(each for at in ("03:14:20", "03:14:30", "03:14:40") for each in busy(at, answered=10, prompt=2000.0)))

    assert "router_bypass" == reading.verdict


def test_ramp_of_requests_is_no_bypass() -> None:
    """Hundreds come in and few are answered yet: what was computed here is the last block of each."""
    first = [*busy("03:14:20", answered=1, prompt=10.0, running=1), transfers(8, "03:14:20")]
    reading = read(*decode(), *first, *busy("03:14:30", answered=1, prompt=2500.0, running=256), transfers(2048, "03:14:30"))

    assert "pass" == reading.check("local_prefill_low")


def test_long_answers_do_not_unprove_what_was_proven() -> None:
    """Intervals in which no request came in say nothing about the next."""
    lines = [*decode(), *healthy("03:14:20"), *healthy("03:14:30")]
    assert "proven" == read(*lines).verdict

    assert "proven" == read(*lines, *(stats(f"03:15:{second}", generation=40.0) for second in range(10, 50, 10))).verdict


def test_answers_without_any_transfer_are_no_transfers() -> None:
    """An engine from 0.14 on would have told of them."""
    served = [POST, stats("03:14:20", prompt=1.0, generation=40.0), POST, stats("03:14:30", prompt=1.0, generation=40.0)]

    assert "fail" == read(*decode(), *served).check("transfers_growing")
    assert "unknown" == read(*decode("0.10.2"), *served).check("transfers_growing")


def test_form_of_a_line_tells_the_version_that_the_log_does_not() -> None:
    """A log that begins behind the start lines is judged all the same."""
    failed = [
        each
        for at in ("03:14:20", "03:14:30")
        for each in (skipped(at=at), stats(at, prompt=2000.0), transfers(0, at, more=", Num failed transfers=10"))
    ]

    assert "recomputing" == read(*failed, pd_role="decode").verdict
