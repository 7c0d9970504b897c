"""What a container runtime or a log viewer puts around a line: CRI, docker json-file, prefixes of compose, kubectl, stern, syslog."""

import json
import re
from typing import NamedTuple

PARTIAL_LIMIT = 256 * 1024
"""Characters of a line that a runtime delivers in parts; what is longer is cut."""

# 2026-07-14T03:12:07.123456789Z stdout F message. P is a part of a longer line.
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP])(?::\S*)? ?", re.ASCII)
# kubectl logs --timestamps, docker logs -t: 2026-07-14T03:12:07.123456789Z message
_TIMESTAMPS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ", re.ASCII)
# journalctl, syslog: Jul 14 03:12:07 host vllm[123]: message
_SYSLOG = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,253} [\w./@-]{1,64}(?:\[\d{1,10}\])?: ", re.ASCII)
# engine-1  | message, and [engine]  | message
_COMPOSE = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,62}|\[[A-Za-z0-9][\w.-]{0,62}\]) +\| ", re.ASCII)
# kubectl logs --prefix: [pod/decode-0/engine] message; stern: decode-0 engine message, where a header follows
_KUBECTL = re.compile(r"\[pod/[\w.-]{1,253}/[\w.-]{1,63}\] ", re.ASCII)
_STERN = re.compile(
    r"(?=[a-z0-9.]{1,252}-)[a-z0-9][a-z0-9.-]{0,252} [a-z0-9][a-z0-9-]{0,62} (?=\([A-Za-z][\w-]{0,63}(?: rank=\d+)?(?: pid=\d+)?\) |[A-Z]{4,8}(?::| +\d\d-\d\d )"
    r"|\[\d{4}-\d\d-\d\d \d\d:)",
    re.ASCII,
)
_DOCKER = '{"log":"'
_RAY_MARK = "[repeated "
_RAY = re.compile(r"\[repeated (\d{1,4})x across cluster\]", re.ASCII)


class Framed(NamedTuple):
    """A line without its wrapping (None: more parts follow) and the runtime's own time."""

    line: str | None
    time: str | None


class Framing:
    """Takes the wrapping off the lines of one file and joins the parts of long lines, for stdout and stderr apart."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}

    @property
    def open(self) -> bool:
        """Whether a line has begun of which more parts will follow."""
        return bool(self._parts)

    def unwrap(self, line: str) -> Framed | None:
        """The line inside, or None when there is no wrapping around it."""
        if found := _CRI.match(line):
            time, stream, tag = found.groups()
            return Framed(self._joined(stream, line[found.end() :], last=tag == "F"), time)
        if line.startswith(_DOCKER):
            return self._docker(line)
        if found := _TIMESTAMPS.match(line):
            return Framed(line[found.end() :], found[1])
        found = _COMPOSE.match(line) if " | " in line else None
        found = found or _KUBECTL.match(line) or _SYSLOG.match(line) or _STERN.match(line)
        return Framed(line[found.end() :], None) if found else None

    def _docker(self, line: str) -> Framed | None:
        try:
            entry = json.loads(line)
            text, stream, time = entry["log"], entry["stream"], entry["time"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not (isinstance(text, str) and isinstance(stream, str) and isinstance(time, str)):
            return None
        return Framed(self._joined(stream, text.rstrip("\n"), last=text.endswith("\n")), time)

    def _joined(self, stream: str, part: str, *, last: bool) -> str | None:
        whole = self._parts.pop(stream, "") + part
        if last:
            return whole
        if len(self._parts) < 2:  # noqa: PLR2004 - stdout and stderr; anything else is forged
            self._parts[stream] = whole[:PARTIAL_LIMIT]
        return None


def repetitions(line: str, start: int) -> int:
    """For how many equal lines of Ray's workers this one stands: `... [repeated 7x across cluster]`, behind `start`."""
    at = line.rfind(_RAY_MARK, start)
    found = _RAY.match(line, at) if at >= 0 else None
    return int(found[1]) if found else 1
