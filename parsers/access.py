"""Access lines of uvicorn: `10.0.0.1:41022 - "POST /v1/completions HTTP/1.1" 200 OK`."""

import re

MARK = ' - "'
"""Stands between the client's address and the request of every access line."""

_REQUEST = re.compile(r'([A-Z]{1,16}) ([^\s"?]++)[^\s"]* HTTP/[\d.]+" ([2-5])\d\d\b', re.ASCII)
_PROBES = ("/metrics", "/ping", "/version", "/v1/models", "/model_info", "/get_model_info", "/server_info", "/get_server_info")
ANSWERED = "answered"
"""The class of 2xx for a request that made an engine generate; the others say nothing about its prompts."""

_GENERATING = ("completions", "responses", "generate", "messages", "embeddings", "inference", "invocations")
_MEMORY = 512
_LONGEST_KNOWN = 128  # longer ones are looked at each time: nothing a client sends may fill the memory


class Requests:
    """Classifies requests, and remembers the short ones: most of a log's lines are a few requests over and over."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """By request, its class: for a loop that cannot afford a call a line. Never for an empty one: that is a line without MARK."""

    def response_class(self, request: str) -> str:
        """`2xx` to `5xx` of a request that begins behind MARK, ANSWERED for a 2xx that generated; empty for probes, scrapes and anything that is no access line."""
        found = self.known.get(request)
        if found is None:
            found = _classify(request)
            if 0 < len(request) <= _LONGEST_KNOWN and "?" not in request:
                if len(self.known) >= _MEMORY:
                    self.known.clear()
                self.known[request] = found
        return found


def _classify(request: str) -> str:
    found = _REQUEST.match(request)
    if not found or found[2] in _PROBES or found[2].startswith("/health"):
        return ""
    # The path's end decides: gateways put prefixes before it, and /tokenize or /v1/messages/count_tokens generate nothing.
    if found[3] == "2" and found[1] == "POST" and found[2].rstrip("/").rpartition("/")[2] in _GENERATING:
        return ANSWERED
    return found[3] + "xx"
