"""What a container runtime or a log viewer puts around a line: CRI, docker json-file, prefixes of compose, kubectl, stern, syslog."""

import json
import re
from collections.abc import Collection
from typing import TypeAlias

from parsers.header import LogClock
from parsers.lines import LINE_LIMIT

PARTIAL_LIMIT = 256 * 1024
"""Characters of a line that a runtime delivers in parts; what is longer is cut."""

_TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
# 2026-07-14T03:12:07.123456789Z stdout F message. P is a part of a longer line.
_CRI = re.compile(rf"{_TIME} (stdout|stderr) ([FP])(?::\S*)? ?(.*)", re.ASCII | re.DOTALL)
# kubectl logs --timestamps, docker logs -t: 2026-07-14T03:12:07.123456789Z message. Before SGLang's router it is its own.
_TIMESTAMPS = re.compile(rf"{_TIME} (?! {{0,3}}[A-Z]{{4,5}} (?:http_request\{{|sglang_router_rs\b|smg::))", re.ASCII)
# journalctl, syslog: Jul 14 03:12:07 host vllm[123]: message
_SYSLOG = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,253} ([\w./@-]{1,64})(?:\[\d{1,10}\])?: ", re.ASCII)
# engine-1  | message, and [engine]  | message
_COMPOSE = re.compile(r"\[?([A-Za-z0-9][\w.-]{0,62})\]? +\| ", re.ASCII)
# kubectl logs --prefix: [pod/decode-0/engine] message
_KUBECTL = re.compile(r"\[pod/([\w.-]{1,253}/[\w.-]{1,63})\] ", re.ASCII)
# stern: decode-0 engine message, and with -A the namespace before it. Any such words look so: a header must follow once.
_POD = r"(?=[a-z0-9.]{1,252}-)([a-z0-9][a-z0-9.-]{0,252}) ([a-z0-9][a-z0-9-]{0,62}) "
_STERN = (re.compile(_POD, re.ASCII), re.compile(rf"([a-z0-9][a-z0-9-]{{0,62}}) {_POD}", re.ASCII))
_HEADER = re.compile(
    r"\([A-Za-z_][\w:./-]{0,127}(?: rank=\d+)?(?: pid=\d+)?(?:, ip=[\w.:]{1,63})?\) |[A-Z]{4,8}(?::| +\d\d-\d\d )|\[\d{4}-\d\d-\d\d \d\d:"
    r"|[DIWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d[T ]\d\d:",
    re.ASCII,
)
_DOCKER = '{"log":"'
_DOCKER_SPACED = '{"log": "'  # a collector wrote the object again
_DOCKER_STREAM = '\\n","stream":"std'
_DOCKER_STREAMS = ('out","time":"', 'err","time":"')
_DIGITS, _UPPER, _LOWER = frozenset("0123456789"), frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), frozenset("abcdefghijklmnopqrstuvwxyz")
_LONGEST_TIME = 40
PARTIAL_SECONDS = 10.0
"""After which a part is none of the next line: its writer died."""

_PODS = 64
_RAY_MARK = "[repeated "
_RAY = re.compile(r"\[repeated (\d{1,4})x across cluster\](?: \(Ray deduplicates [^\n]*)?\s*$", re.ASCII)
# Of a worker of Ray's that has no name yet.
_NAMELESS = re.compile(r"\(pid=\d{1,9}(?:, ip=[\w.:]{1,63})?\) ", re.ASCII)
# A prefix that is not the engine's own, at the first place or behind those.
_RAY_PREFIX = re.compile(
    r"(?:\([^()\n]{1,160}\) ){0,3}?\((?!APIServer|EngineCore|Worker[ _]|VllmWorker|DPCoordinator)[\w:./ -]{0,128}pid=\d+(?:, ip=[\w.:]{1,63})?\) ",
    re.ASCII,
)


Framed: TypeAlias = tuple[str | None, str | None, str]
"""A line without its wrapping (None: more parts follow), the runtime's own time, and the container where the wrapping names it."""


class Framing:
    """Takes the wrapping off the lines of one file and joins the parts of long lines, for stdout and stderr apart."""

    STATE = ("prefixed", "cut_lines")

    def __init__(self, containers: Collection[str] = ()) -> None:
        """`containers` are those that are known at any time: their prefix needs no header behind it."""
        self.parts: dict[str, tuple[str, str]] = {}
        """By output, lines of which more parts will follow, and when the last part came."""
        self.prefixed = 0
        """Lines that named a container."""
        self.cut_lines = 0
        """Lines in parts that were longer than LINE_LIMIT."""
        self._containers = containers
        self._pods: set[str] = set()

    @property
    def open(self) -> bool:
        """Whether a line has begun of which more parts will follow."""
        return bool(self.parts)

    def unwrap(self, line: str) -> Framed | None:
        """The line inside, or None when there is no wrapping around it."""
        first = line[:1]  # tells which shapes there can be: most lines that have none are asked for none
        if first in _DIGITS:
            if found := _CRI.match(line):
                time, stream, tag, text = found.groups()
                return (text if tag == "F" and not self.parts else self._joined(stream, text, time, last=tag == "F")), time, ""
            if found := _TIMESTAMPS.match(line):
                return line[found.end() :], found[1], ""
        elif first == "{":
            return self._docker(line)
        elif first == "(":
            found = _NAMELESS.match(line) if line.startswith("(pid=") else None
            return (line[found.end() :], None, "") if found else None
        found = _COMPOSE.match(line) if " | " in line else None
        if not found and (first == "[" or first in _UPPER):
            found = _KUBECTL.match(line) if first == "[" else _SYSLOG.match(line)
        if found:
            framed: Framed | None = (line[found.end() :], None, found[1])
        else:
            framed = self._stern(line) if first in _LOWER or first in _DIGITS else None
        self.prefixed += framed is not None
        return framed

    def _docker(self, line: str) -> Framed | None:
        """An object of three strings: read without JSON where quotes are all that is escaped, as in access lines."""
        if not line.startswith((_DOCKER, _DOCKER_SPACED)):
            return None
        head, _, tail = line.rpartition(_DOCKER_STREAM)
        if head[:8] == _DOCKER and tail[:13] in _DOCKER_STREAMS and tail[-2:] == '"}' and not self.parts:
            text, time = head[8:].replace('\\"', "\0"), tail[13:-2]
            if "\\" not in text and '"' not in text and time.isascii() and len(time) <= _LONGEST_TIME and '"' not in time:
                return text.replace("\0", '"'), time, ""
        try:
            entry = json.loads(line)
            text, stream, time = entry["log"], entry["stream"], entry["time"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not (isinstance(text, str) and isinstance(stream, str) and isinstance(time, str)):
            return None
        return self._joined(stream, text.rstrip("\n"), time, last=text.endswith("\n")), time, ""

    def _stern(self, line: str) -> Framed | None:
        for shape in _STERN:
            if (found := shape.match(line)) and self._is_pod(container := "/".join(found.groups()), line, found.end()):
                return line[found.end() :], None, container
        return None

    def _is_pod(self, container: str, line: str, end: int) -> bool:
        """Whether these words are known as a pod and its container, or are shown to be by the header behind them."""
        if container in self._pods or container in self._containers:
            return True
        if _HEADER.match(line, end) is None:
            return False
        if len(self._pods) < _PODS:
            self._pods.add(container)
        return True

    def _joined(self, stream: str, part: str, time: str, *, last: bool) -> str | None:
        begun, at = self.parts.pop(stream, ("", time))
        whole = part if _seconds_between(at, time) > PARTIAL_SECONDS else begun + part
        if last:
            return whole if "\r" in whole else self._cut(whole)
        if len(self.parts) < 2:  # noqa: PLR2004 - stdout and stderr; anything else is forged
            self.parts[stream] = whole[:PARTIAL_LIMIT], time
        return None

    def _cut(self, line: str) -> str:
        """At the most LINE_LIMIT characters of a line that came in parts, of which each was shorter."""
        if len(line) <= LINE_LIMIT:
            return line
        self.cut_lines += 1
        return line[:LINE_LIMIT]


def _seconds_between(before: str, after: str) -> float:
    """0 where one is no time."""
    clock = LogClock(1)  # the times of runtimes have a year
    begun, ended = clock.read(before), clock.read(after)
    return 0.0 if begun is None or ended is None else ended - begun


def repetitions(line: str, start: int) -> int:
    """For how many equal lines of Ray's workers this one stands: it ends in `[repeated 7x across cluster]`, behind `start`.

    Only a driver of Ray's writes so, with its own prefix before the line: what a user may write is no number of records.
    """
    at = line.rfind(_RAY_MARK, start)
    found = _RAY.match(line, at) if at >= 0 and _RAY_PREFIX.match(line) else None
    return int(found[1]) if found else 1
