"""Log records that are one JSON object a line: the engine's own formatter (vLLM 0.33) and those of a user's dictConfig."""

import json
from collections.abc import Mapping
from typing import NamedTuple

_MESSAGE = ("message", "msg")
_LEVEL = ("levelname", "level", "severity")
_TIME = ("asctime", "timestamp", "ts", "time")
_PROCESS = ("vllm_process_name", "processName")
_SOURCE = ("name", "logger", "filename")
_TRACEBACK = ("exc_info", "exc_text", "stack_trace")
_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL"}


class JsonRecord(NamedTuple):
    """A record in the terms of a header; `lines` are the message's and then the traceback's."""

    process: str
    identity: str
    level: str
    time: str
    where: str
    lines: list[str]


def json_record(line: str) -> JsonRecord | None:
    """The record in a line that begins with `{`, or None when it is no log record."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    message = _text(entry, _MESSAGE)
    level = _text(entry, _LEVEL).upper()
    if not message or not level:
        return None
    pid = entry.get("process")
    return JsonRecord(
        process=_text(entry, _PROCESS),
        identity=f" pid={pid}" if isinstance(pid, int) else "",
        level=_LEVELS.get(level, level),
        time=_text(entry, _TIME),
        where=_text(entry, _SOURCE),
        lines=message.split("\n") + _text(entry, _TRACEBACK).split("\n"),
    )


def _text(entry: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := entry.get(name), str)), "")
