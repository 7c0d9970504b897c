r"""What stands behind a message of klog's structured log: `"request_end" request_id="6f0c" prompt_tokens=128 ttft="136.4ms"`.

Strings are quoted as in Go, a value of several lines is not: `err=<`, lines with a tab before each, ` > request_id="6f0c"`.
"""

import re

_KEY = re.compile(r" ?([A-Za-z][\w.-]{0,63})=", re.ASCII)
_BARE = re.compile(r"[^\s\"]{0,4096}")
_ID_KEYS = ("request_id", "requestID", "requestId", "x-request-id")
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,4})m)?(?:(\d{1,9}(?:\.\d{1,9})?)(ns|us|[µμ]s|ms|s))?")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_LONGEST_SECONDS = 86400.0
OPENS = "=<"
"""The end of a line whose last value goes on in the next ones."""


class Fields(dict[str, str]):
    """The values of one line by their keys."""

    def __init__(self, text: str, start: int) -> None:
        """Read them in order from `start`, as far as they have klog's shape: what a value quotes is no key."""
        super().__init__()
        while key := _KEY.match(text, start):
            start = key.end()
            if text.startswith('"', start):
                end = _closing_quote(text, start + 1)
                if end < 0:
                    return  # torn
                value = text[start + 1 : end]
                start = end + 1
            else:
                bare = _BARE.match(text, start)
                value = bare[0] if bare else ""
                start += len(value)
            self.setdefault(key[1], value)

    @property
    def request(self) -> str | None:
        """The request's id, however this line spells its key."""
        return next((self[key] for key in _ID_KEYS if self.get(key)), None)

    def number(self, key: str) -> int:
        """A bare number of three digits, such as a status code; 0 when there is none."""
        value = self.get(key, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) == 3 else 0  # noqa: PLR2004

    def seconds(self, key: str) -> float | None:
        """A Go duration. None for what cannot be one: times that were never set make it negative or saturate it."""
        found = _DURATION.fullmatch(self.get(key) or "-")
        if found is None:
            return None
        hours, minutes, number, unit = found.groups()
        seconds = int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + float(number or 0) * _UNITS.get(unit, 1.0)
        return seconds if seconds <= _LONGEST_SECONDS else None


def quoted(text: str) -> str:
    """A value as Go quotes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _closing_quote(text: str, start: int) -> int:
    """The quote that ends a string, -1 when there is none. Each run of backslashes before a quote is looked at once."""
    at = text.find('"', start)
    while at >= 0:
        first = at
        while first > start and text[first - 1] == "\\":
            first -= 1
        if (at - first) % 2 == 0:
            return at
        at = text.find('"', at + 1)
    return -1
