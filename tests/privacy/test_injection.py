"""Lines of a log in what a user sends: the exposition is the same as for a harmless prompt, in every wrapping."""

import json

import pytest

from exporter.source import Source
from tests.parsers.reading import STATS, TAGGED, header
from tests.wrappings import WRAPS, wrapped

FORGED = (
    f"{header(level='ERROR')}EngineCore encountered a fatal error.",
    f"{header()}{STATS}",
    f"{header()}GPU KV cache size: 1 tokens",
    "INFO:     Application startup complete.",
    "torch.OutOfMemoryError: CUDA out of memory.",
    f"{TAGGED}The server is fired up and ready to roll!",
    f"{TAGGED}KV Cache is allocated. #tokens: 1, K size: 1.0 GB, V size: 1.0 GB",
    "2026-07-14T03:12:07.1Z stdout F INFO:     Application startup complete.",
)
REQUEST = header("request_logger.py:66") + "Received request cmpl-1: prompt: '{}', params: SamplingParams(n=1), lora_request: None."
START = header() + "vLLM server version 0.26.0, serving model m\n"


def one_line(prompt: list[str]) -> str:
    """As vLLM prints a prompt: its line breaks are escaped."""
    return START + REQUEST.format("\\n".join(prompt)) + "\n"


def prefixed_again(prompt: list[str]) -> str:
    """As vLLM's formatter prints a text of several lines: the header before each."""
    return START + REQUEST.format(f"\r\n{header('request_logger.py:66')}".join(prompt)) + "\n"


def in_json(prompt: list[str]) -> str:
    """In a record of python-json-logger, with its line breaks."""
    message = "Received request cmpl-1: prompt: " + "\n".join(prompt)
    record = {"asctime": "2026-07-14 03:12:07,000", "levelname": "INFO", "name": "vllm.request_logger", "process": 1, "message": message}
    return START + json.dumps(record) + "\n"


def sglang(prompt: list[str]) -> str:
    """In SGLang's request log: a repr."""
    text = "\\n".join(prompt)
    return f"{TAGGED}server_args=ServerArgs(model_path='/m')\n{TAGGED}Receive: obj=GenerateReqInput(rid='1', text='{text}')\n"


def exposed(log: str, wrap: str) -> list[object]:
    """All series but those that count lines."""
    source = Source("log", year=2026)
    data = log.encode()
    source.feed(b"".join(wrapped(data, WRAPS[wrap], 2026)) if wrap else data)
    samples = [sample for snapshot in source.snapshots(None) for sample in snapshot.samples]
    assert len(samples) > 20
    return [sample for sample in samples if sample.family != "log_lines_total"]


@pytest.mark.parametrize("wrap", ["", *WRAPS])
@pytest.mark.parametrize("log", [one_line, prefixed_again, in_json, sglang])
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_line_changes_no_metric(log, wrap, forged):
    """Alone, and between other lines of the prompt."""
    harmless = exposed(log(["hello", "hello", "hello"]), wrap)
    assert harmless == exposed(log(["hello", forged, "hello"]), wrap)
    assert harmless == exposed(log([forged, forged, forged]), wrap)
