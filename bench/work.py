"""What reading a log takes, counted: the same numbers on any machine, however busy. `python -m bench.work` prints them.

Counted is what code of ours does after a first reading has compiled the patterns and filled the caches. Python's profiler tells of each
call, its tracer of each statement that is run, and tracemalloc what is held at the most. Python 3.11 to 3.13 agree but for a few
in a hundred: comprehensions are calls in 3.11 only, and not counted; the standard library's own calls and statements are left out, too.
What a builtin calls by itself (`map(pattern.match, lines)`) no profiler sees: of such a line only the statement and the memory count.
"""

import gc
import json
import re
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bench.corpus import ROOT, engine_log
from exporter.source import Source
from tests.wrappings import WRAPS, wrapped

KINDS = ("typical", "dense", "typical-cri", "typical-docker")
HEADROOM = 0.10
STALE = 0.30
_BYTES = 1_000_000
_BLOCK = 256 * 1024
_YEAR = 2026
_OURS = tuple(str(ROOT / name) for name in ("parsers", "exporter", "tests"))
_COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})

Work = dict[str, float]
"""By what is counted, its number for each thousand lines; `bytes held` for each byte of a block."""


@cache
def log(kind: str) -> bytes:
    """A small log of this kind."""
    name, wrap = kind.partition("-")[::2]
    data = b"".join(engine_log(name, _BYTES)[0])
    return b"".join(wrapped(data, WRAPS[wrap], _YEAR)) if wrap else data


def work(kind: str) -> Work:
    """What it takes to read the log of this kind, up to the metrics."""
    data = log(kind)
    blocks = [data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK)]
    _read(blocks)
    counts = _counted(blocks)
    thousands = data.count(b"\n") / 1000
    return {name: round(count / thousands, 1) for name, count in counts.items()} | {"bytes held": round(_held(blocks), 2)}


def excess(found: Work, table: Work) -> list[str]:
    """What takes more work than the table allows."""
    return [f"{name}: {found[name]} instead of {most}" for name, most in table.items() if found[name] > most * (1 + HEADROOM)]


def stale(found: Work, table: Work) -> list[str]:
    """Where the table allows far more than it takes, so that somebody could waste it."""
    return [f"{name}: only {found[name]}, the table has {most}" for name, most in table.items() if found[name] < most * (1 - STALE)]


def _read(blocks: Sequence[bytes]) -> int:
    """How many events."""
    source, events = Source("work", year=_YEAR), 0
    for block in blocks:
        events += len(source.feed(block))
    return events + len(source.end_of_file())


def _counted(blocks: Sequence[bytes]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    layers: dict[CodeType, str] = {}

    def layer(code: CodeType) -> str:
        """The folder that holds the code, empty for that of others."""
        if code not in layers:
            path = code.co_filename
            layers[code] = Path(path).relative_to(ROOT).parts[0] if path.startswith(_OURS) else ""
        return layers[code]

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(getattr(called, "__self__", None), re.Pattern):
            counts["regex calls"] += 1
        elif event == "c_call" and layer(frame.f_code):
            counts["builtin calls"] += 1
        elif event == "call" and layer(frame.f_code) and frame.f_code.co_name not in _COMPREHENSIONS:
            counts["calls"] += 1

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        name = layer(frame.f_code)
        if event == "line":
            counts["statements in parsers" if name == "parsers" else "statements in exporter"] += 1
        return trace if name else None

    tracer, profiler = sys.gettrace(), sys.getprofile()
    gc.disable()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        events = _read(blocks)
    finally:
        sys.settrace(tracer)
        sys.setprofile(profiler)
        gc.enable()
    names = ("calls", "regex calls", "builtin calls", "statements in parsers", "statements in exporter")
    return {name: counts[name] for name in names} | {"events": events}


def _held(blocks: Sequence[bytes]) -> float:
    """Bytes that a block makes us hold at the most, for each of its own: copies, lines, events."""
    source, shares = Source("work", year=_YEAR), []
    tracemalloc.start(1)
    try:
        for block in blocks[:-1]:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            source.feed(block)
            shares.append((tracemalloc.get_traced_memory()[1] - before) / len(block))
    finally:
        tracemalloc.stop()
    return sum(shares) / len(shares)


def table(kinds: Iterable[str] = KINDS) -> dict[str, Work]:
    """All of them."""
    return {kind: work(kind) for kind in kinds}


if __name__ == "__main__":
    print(json.dumps(table(sys.argv[1:] or KINDS), indent=1))
