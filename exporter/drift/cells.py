"""One cell of the compatibility page: a release's own format strings, rendered, through our parser."""

import re
from collections.abc import Iterable

from exporter.drift.python_source import EXCEPTION, KEYS
from exporter.drift.shapes import rendered
from exporter.drift.signals import BUILT, SGLANG, Signal
from parsers import Log

Printed = tuple[str, str]
"""A level and a format string."""

_WORD_SLOT = re.compile(r"%\((\w+)\)s")
_KEYS = "keys:"


def parses(signal: Signal, printed: Printed, others: Iterable[Printed]) -> bool:
    """Whether the line that a release prints becomes an event of the signal. `others` are the release's further strings."""
    level, shape = printed
    if level == BUILT:
        return True
    log = Log(2026)
    head, next_head = _heads(signal.package, level)
    text = rendered(shape, _values(signal, shape, others))
    lines = "\n".join((head if at == 0 else next_head) + line for at, line in enumerate(text.split("\n")))
    found = [*log.feed(_before(signal.package, level).encode() + lines.encode() + b"\n"), *log.close()]
    return any(
        type(event).__name__ in signal.events and all(getattr(event, field) not in (None, {}, "") for field in signal.tells)
        for event, _ in found
    )


def _values(signal: Signal, shape: str, others: Iterable[Printed]) -> dict[str, str]:
    values = {}
    for name in _WORD_SLOT.findall(shape):
        for pattern, value in signal.values.items():
            if re.search(pattern, name):
                values[name] = _pairs(value.removeprefix(_KEYS), others) if value.startswith(_KEYS) else value
                break
    return values


def _pairs(first_key: str, others: Iterable[Printed]) -> str:
    """The `key=value` pairs of the dictionary that the release builds, the longest of them."""
    found = [shape for level, shape in others if level == KEYS and re.match(first_key, shape)]
    return rendered(max(found, key=len), {}) if found else ""


_HEADS = {
    "nixl": "2026-07-14 03:12:15 NIXL INFO    _api.py:405 ",
    "uvicorn": "INFO:     ",
    "tilelang": "2026-07-14 03:14:54  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): ",
    "triton": "",
    "flashinfer": "2026-07-14 03:12:15,000 - INFO - autotuner.py:310 - flashinfer.jit: ",
}


def _heads(package: str, level: str) -> tuple[str, str]:
    """What stands before a line, and before its further lines."""
    if package in _HEADS:
        return _HEADS[package], ""
    if package == SGLANG:
        return ("", "") if level == EXCEPTION else ("[2026-07-14 03:12:15 TP0] ", "")
    head = f"(EngineCore pid=318) {'ERROR' if level == EXCEPTION else level} 07-14 03:12:15 [core.py:76] "
    return head, head


def _before(package: str, level: str) -> str:
    """The lines above an exception."""
    if level != EXCEPTION:
        return ""
    traceback = "Traceback (most recent call last):\n"
    head, _ = _heads(package, "ERROR")
    return f"{head}{traceback}" if package != SGLANG else f"{head}Scheduler hit an exception: {traceback}"
