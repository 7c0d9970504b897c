"""How the tests of the parsers read a log, and the lines that several of them use."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from parsers import Log
from parsers.events import PRIVATE_FIELDS, Event, HttpResponses
from parsers.header import Head
from parsers.log import Counts
from parsers.stream import LogStream

DATA = Path(__file__).parent / "data"
YEAR = 2026

STATS = (
    "Engine 000: Avg prompt throughput: 0.1 tokens/s, Avg generation throughput: 3.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%, External prefix cache hit rate: 100.0%"
)
JIT = (
    "Triton kernel JIT compilation during inference: _fwd_kernel_stage1. This causes a latency spike; consider extending warmup to cover "
    "this shape/config."
)
KV_TRANSFER = (
    "KV Transfer metrics: Num successful transfers=4, Avg xfer time (ms)=7.574, P90 xfer time (ms)=8.017, Avg post time (ms)=1.93, "
    "P90 post time (ms)=1.93, Avg MB per transfer=6.937, Throughput (MB/s)=915.962, Avg number of descriptors=122.0"
)
SPEC = (
    "SpecDecoding metrics: Mean acceptance length: 3.50, Accepted throughput: 998.55 tokens/s, Drafted throughput: 1998.30 tokens/s, "
    "Accepted: 9994 tokens, Drafted: 20000 tokens, Per-position acceptance rate: 0.834, 0.676, 0.499, 0.328, 0.161, "
    "Avg Draft acceptance rate: 50.0%"
)
HANDSHAKE_FAILED = (
    "NIXL transfer failure: handshake_setup_failed | Context: {'failure_type': 'handshake_setup_failed', 'request_id': None, "
    "'engine_id': 'b1e2f7c4-2d3a', 'remote_engine_id': 'e6d0c1aa-77a2'}"
)
MISMATCH = (
    "RuntimeError: NIXL compatibility hash mismatch. Local: 3f0c8a5b1d9e7c42, Remote: 9b9b9b9b9b9b9b9b. Prefill and decode instances have "
    "incompatible configurations."
)
LOGO = " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.0"


class Reading(NamedTuple):
    """What one log told."""

    found: list[tuple[Event, Head]]
    log: LogStream
    """What was not said of a container, or of the only one."""
    counts: Counts

    @property
    def events(self) -> list[Event]:
        return [event for event, _ in self.found]

    @property
    def heads(self) -> list[Head]:
        return [head for _, head in self.found]

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    @property
    def told(self) -> list[str]:
        """The events with their names: events without fields are all equal as tuples."""
        return [repr(event) for event in self.events]

    @property
    def responses(self) -> Counter[str]:
        """Responses by class, however they are spread over events."""
        return sum((Counter(event.counts) for event in self.events if isinstance(event, HttpResponses)), Counter())

    def public_text(self) -> str:
        """All that an event shows of a log."""
        return " ".join(
            repr(value) for event in self.events for name, value in zip(event._fields, event, strict=True) if name not in PRIVATE_FIELDS
        )


def read(*chunks: str | bytes, year: int = YEAR) -> Reading:
    """Feed the chunks to a log of its own and close it."""
    log = Log(year)
    found = [each for chunk in chunks for each in log.feed(chunk.encode() if isinstance(chunk, str) else chunk)]
    found += log.close()
    stream = next((each for each in log.streams.values() if each.runtime), log.streams[""])
    return Reading(found, stream, log.counts())


def header(where: str = "loggers.py:310", *, level: str = "INFO", who: str = "APIServer pid=1", time: str = "07-14 03:12:07") -> str:
    """What vLLM puts before a message."""
    return f"({who}) {level} {time} [{where}] "


TAGGED = "[2026-08-03 02:00:00 TP0] "
"""What SGLang puts before a message."""


def gateway_header(runtime: str, *, level: str = "I", time: str = "17:09:33") -> str:
    """What a gateway puts before a message: klog's header, or that of Rust's tracing or Python's logging. `level` is I, W or E."""
    word = {"I": "INFO", "W": "WARN", "E": "ERROR"}[level]
    if runtime == "sglang_router":
        return f"2026-06-17 {time} {word:>5} "
    if runtime == "vllm_proxy":
        return f"2026-06-17 {time} [{'WARNING' if level == 'W' else word}] disagg_proxy: "
    return f"{level}0617 {time}.100001       1 file.go:170] "


def utc(*parts: int) -> float:
    """Seconds since the epoch of a date and time."""
    return datetime(*parts, tzinfo=UTC).timestamp()
