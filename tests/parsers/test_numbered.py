"""Events know their lines, however the bytes come and whatever is around them."""

import pytest

from parsers.events import Event, HttpResponses
from parsers.log import Log
from parsers.numbered import NumberedHead, NumberedLog
from tests.conftest import DATA
from tests.wrappings import WRAPS, wrapped

LOGS = sorted(DATA.glob("*/*.log"))
SIZES = (1 << 18, 700, 7)


def events_by_line(data: bytes) -> list[tuple[int, str]]:
    """As a plain log tells that is given one line after the other."""
    log, found = Log(2026), []
    for number, line in enumerate(data.split(b"\n"), 1):
        found += [(number, told(event)) for event, _ in log.feed(line + b"\n")]
    return [each for each in found if not each[1].startswith(HttpResponses.__name__)]


def numbered(data: bytes, size: int) -> list[tuple[int, str]]:
    """As it comes in pieces. Answers come together with a later event, so that their lines are those of blocks."""
    log, found = NumberedLog(2026), []
    for at in range(0, len(data), size):
        found += log.feed(data[at : at + size])
    found += log.close()
    assert all(isinstance(head, NumberedHead) for _, head in found)
    return [(head.line, told(event)) for event, head in found if not isinstance(event, HttpResponses)]  # type: ignore[attr-defined]


def told(event: Event) -> str:
    """In words, as a number that is none equals nothing."""
    return repr(event)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_event_knows_its_line(path) -> None:
    """The same events in the same order, in pieces of any size."""
    data = path.read_bytes()
    expected = events_by_line(data)
    for size in SIZES if len(data) < 5000 else SIZES[:2]:
        assert numbered(data, size) == expected


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_also_within_a_wrapping(wrap) -> None:
    """Of a container runtime, of compose, of kubectl."""
    data = b"".join(wrapped((DATA / "vllm-0.32/captured-pd-decode.log").read_bytes(), wrap, 2026))
    assert numbered(data, 1 << 18) == events_by_line(data)


@pytest.mark.parametrize(
    "wrap",
    [lambda data, year: [data], *(wrap for wrap in (lambda data, year, wrap=wrap: wrapped(data, wrap, year) for wrap in WRAPS.values()))],
    ids=["bare", *WRAPS],
)
@pytest.mark.parametrize("size", SIZES)
def test_errors_that_are_told_together_know_their_lines(wrap, size) -> None:
    """The first and the last of class 5xx, as late as the last header before them."""
    data = b"".join(wrap((DATA / "vllm-0.32/captured-pd-decode.log").read_bytes(), 2026))
    log, found = NumberedLog(2026), []
    for at in range(0, len(data), size):
        found += log.feed(data[at : at + size])
    spans = [head.errors for event, head in [*found, *log.close()] if isinstance(event, HttpResponses) and "5xx" in event.counts]
    numbers = [number for number, line in enumerate(data.split(b"\n"), 1) if b'" 500' in line or b'\\" 500' in line]
    assert (spans[0][0].line, spans[-1][1].line) == (numbers[0], numbers[-1])
    assert {line.line for span in spans for line in span} <= set(numbers)
    assert {int(line.time) for line in spans[0]} <= {1795957991, 1795958149}


def test_a_line_without_end_is_one_line() -> None:
    """However much of it is read and however much is skipped."""
    ready = b"INFO 11-29 13:04:15 [api_server.py:1] Starting vLLM API server 0 on http://0.0.0.0:8000\nINFO:     Application startup complete.\n"
    for long in (b"x" * 600_000, b"\r".join([b"bar" * 60_000] * 5)):
        data = b"first\n" + long + b"\n" + ready
        assert {line for line, event in numbered(data, 1 << 16) if "EngineReady" in event} == {4}
