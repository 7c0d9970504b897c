"""The headers of gateways that are no Go programs, and of Go programs that log with zap; klog's is absl's, with a `.go` file."""

import json
import re
from collections.abc import Mapping
from typing import Any

from parsers.gateway.klog import quoted
from parsers.header import NativeHead

_RUST = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?Z?) {1,4}(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) "
    r"(?=http_request\{|sglang_router_rs\b|smg::)",
    re.ASCII,
)
"""SGLang's router: spans of the request, target and source line are part of the message."""

_PROXY = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<level>[A-Z]{4,8})\] disagg_proxy: ", re.ASCII)
"""vLLM's disagg_proxy_multiturn.py."""

_ZAP = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))\t(?P<level>DEBUG|INFO|WARN|ERROR|DPANIC|PANIC|FATAL)\t"
    r"(?:[\w. -]{1,64}\t)?(?:(?P<where>[\w./@-]{1,256}\.go:\d{1,6})\t)?(?P<message>[^\t\n]{1,512})(?:\t(?P<fields>\{[^\n]*\}))?$",
    re.ASCII,
)
"""zap for people: time, level, logger, caller, message and the fields as JSON, with tabs between."""

_GO_SOURCE = re.compile(r"[\w./@-]{1,256}\.go:\d{1,9}", re.ASCII)
_GO_LOGGER = "proxy server"  # llm-d's sidecar prints no source line
_LEVELS = {"TRACE": "DEBUG", "WARN": "WARNING", "DPANIC": "CRITICAL", "PANIC": "CRITICAL", "FATAL": "CRITICAL"}
_OF_THE_HEADER = frozenset({"level", "ts", "time", "logger", "caller", "msg", "message", "stacktrace", "error"})


def gateway_head(line: str, start: int) -> NativeHead | None:
    """The header of SGLang's router or vLLM's proxy at `start`."""
    found = _RUST.match(line, start) or _PROXY.match(line, start)
    return NativeHead(_LEVELS.get(found["level"], found["level"]), found["time"], "", found.end()) if found else None


def zap_record(line: str) -> tuple[NativeHead, str] | None:
    """The header of a record of zap's console encoder, and the record in klog's shape."""
    found = _ZAP.match(line) if "\t" in line else None
    if found is None:
        return None
    try:
        fields = json.loads(found["fields"] or "{}")
    except (ValueError, RecursionError):
        fields = {}
    head = NativeHead(_LEVELS.get(found["level"], found["level"]), found["time"], found["where"] or "", found.end())
    return head, klog_text(found["message"], fields)


def is_go_record(entry: Mapping[str, Any]) -> bool:
    """Whether a JSON record is zap's: a source line in Go, or the logger of llm-d's sidecar."""
    caller, logger = entry.get("caller"), entry.get("logger")
    if isinstance(caller, str):
        return _GO_SOURCE.fullmatch(caller) is not None
    return isinstance(logger, str) and logger.startswith(_GO_LOGGER)


def klog_text(message: str, fields: Mapping[str, Any]) -> str:
    """A record of zap's as klog prints it, so that one rule reads both: the error comes first."""
    error = fields.get("error")
    pairs = [("err", error)] if isinstance(error, str) else []
    pairs += [(key, value) for key, value in fields.items() if key not in _OF_THE_HEADER]
    return " ".join([quoted(message), *(f"{key}={_value(value)}" for key, value in pairs)])


def _value(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, separators=(",", ":"))
