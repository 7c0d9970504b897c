"""Log records that are one JSON object a line: the engine's own formatter (vLLM 0.33) and those of a user's dictConfig."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from parsers.gateway.heads import is_go_record, klog_text

_MESSAGE = ("message", "msg")
_LEVEL = ("levelname", "level", "severity")
_TIME = ("asctime", "timestamp", "ts", "time")
_PROCESS = ("vllm_process_name", "processName")
_SOURCE = ("name", "logger", "logger_name", "filename")
_TRACEBACK = ("exc_info", "exc_text", "stack_trace", "exception")
_PROCESS_NAME = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
# What uvicorn says, for records without a logger's name: an access line, or its life cycle.
_OF_THE_SERVER = re.compile(
    r'[^\s"]{1,64} - "[A-Z]{1,16} [^\s"]+ HTTP/|(?:Started|Finished) server process \[|Waiting for application |Application (?:startup|shutdown) '
    r"|Shutting down$|Uvicorn running on |\[Errno 98\] error while attempting to bind on address ",
    re.ASCII,
)
_MILLISECONDS_FROM = 1e11
_SPACE = " \t\n\r"
_decode = json.JSONDecoder().raw_decode
_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_ZAP_VERBOSE = "LEVEL(-"  # Level(-4): zap's name for klog's --v=4


class JsonRecord(NamedTuple):
    """A record in the terms of a header; `lines` are the message's and then the traceback's."""

    process: str
    identity: str
    level: str
    time: str
    where: str
    server: bool
    """Whether uvicorn said it."""
    lines: list[str]
    go: str = ""
    """The record as klog prints it, when a Go program wrote it."""


def json_record(line: str) -> JsonRecord | None:
    """The record in a line that begins with `{`, or None when it is no log record."""
    try:
        entry, end = _decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or line[end:].strip(_SPACE):
        return None
    message = _text(entry, _MESSAGE)
    level = _text(entry, _LEVEL).upper()
    if not message or not level:
        return None
    pid, where = entry.get("process"), _text(entry, _SOURCE)
    return JsonRecord(
        process=process if _PROCESS_NAME.fullmatch(process := _text(entry, _PROCESS)) else "",
        identity=f" pid={pid}" if isinstance(pid, int) else "",
        level="DEBUG" if level.startswith(_ZAP_VERBOSE) else _LEVELS.get(level, level),
        time=_time(entry),
        where=where,
        server=where.startswith("uvicorn") or (not where.startswith("vllm") and _OF_THE_SERVER.match(message) is not None),
        lines=message.split("\n") + _text(entry, _TRACEBACK).split("\n"),
        go=klog_text(message, entry) if is_go_record(entry) else "",
    )


def _time(entry: Mapping[str, object]) -> str:
    """The time as text; a number counts seconds, or milliseconds, since the epoch."""
    for name in _TIME:
        if isinstance(seconds := entry.get(name), (int, float)):
            return f"{seconds / 1000 if seconds > _MILLISECONDS_FROM else seconds:.6f}"
    return _text(entry, _TIME)


def _text(entry: Mapping[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        if isinstance(value := entry.get(name), str):
            return value
    return ""
