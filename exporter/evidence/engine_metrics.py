"""Asks an engine for its own /metrics. Nothing is ever sent but GET, and no answer is trusted to be short, quick or sane."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from exporter.evidence.engine_text import EngineFigures, figures, is_wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

POLL_SECONDS = 10.0
"""The engines print their own figures as often."""

TIMEOUT_SECONDS = 2.0
"""How long the engine may take to accept, and between two parts of its answer."""

WHOLE_SECONDS = 5.0
"""How long its whole answer may take."""

MOST_BYTES = 16 * 1024 * 1024

REASONS = ("auth", "not_metrics", "redirect", "status", "timeout", "token_file", "too_large", "unreachable")
"""Why there is no reading."""

_MOST_REST_BYTES = 64 * 1024
_MOST_TOKEN_BYTES = 16 * 1024
_OK, _REDIRECT, _REFUSED = 200, range(300, 400), (401, 403)


class EngineReading(NamedTuple):
    """What an engine said of itself at one moment, or why it did not."""

    at: float
    """Epoch."""
    reason: str
    """One of REASONS, empty when there are figures."""
    figures: EngineFigures | None


class _NoReadingError(Exception):
    """One of REASONS."""


class EngineMetrics:
    """One address. httpx is imported with the first question: without this witness it costs no memory."""

    def __init__(self, url: str, token_file: str | None = None) -> None:
        """The token is read anew each time, as Kubernetes replaces it."""
        self._url, self._token_file = url, token_file
        self._client: httpx.Client | None = None

    def read(self) -> EngineReading:
        """Ask once."""
        try:
            return EngineReading(time.time(), "", self._figures())
        except _NoReadingError as error:
            return EngineReading(time.time(), str(error), None)

    def close(self) -> None:
        """Let go of what the client holds."""
        if self._client:
            self._client.close()

    def _figures(self) -> EngineFigures:
        import httpx

        if self._client is None:
            for name in ("httpx", "httpcore"):  # they tell of each question, and where it went
                logging.getLogger(name).setLevel(logging.WARNING)
            # trust_env: a proxy or a .netrc of the environment is not for an engine next door. verify: a context costs memory.
            self._client = httpx.Client(trust_env=False, verify=self._url.startswith("https:"), timeout=TIMEOUT_SECONDS)
        try:
            with self._client.stream("GET", self._url, headers=self._headers(), follow_redirects=False) as response:
                _refuse(response)
                return figures(filter(is_wanted, _lines(response)))
        except httpx.TimeoutException:
            raise _NoReadingError("timeout") from None
        except httpx.RemoteProtocolError:
            raise _NoReadingError("not_metrics") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            raise _NoReadingError("unreachable") from None
        except ValueError:  # a text that is none, or not of an engine
            raise _NoReadingError("not_metrics") from None

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "inferlog"}
        if self._token_file:
            try:
                file = os.open(self._token_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                with os.fdopen(file, "rb") as text:
                    token = text.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
            except (OSError, ValueError):
                raise _NoReadingError("token_file") from None
            if not token.isprintable() or " " in token:
                raise _NoReadingError("token_file")
            headers["Authorization"] = f"Bearer {token}"
        return headers


def _refuse(response: httpx.Response) -> None:
    """Take nothing but the answer of this very address."""
    status = response.status_code
    if status in _REFUSED:
        raise _NoReadingError("auth")
    if status in _REDIRECT:
        raise _NoReadingError("redirect")
    if status != _OK:
        raise _NoReadingError("status")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _NoReadingError("not_metrics")  # a few bytes may unfold to gigabytes


def _lines(response: httpx.Response) -> Iterator[bytes]:
    """The lines of an answer, within its limits; of one without line breaks no more than a part is kept."""
    deadline, size, rest = time.monotonic() + WHOLE_SECONDS, 0, b""
    for data in response.iter_raw():
        size += len(data)
        if size > MOST_BYTES:
            raise _NoReadingError("too_large")
        if time.monotonic() > deadline:
            raise _NoReadingError("timeout")
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
        rest = rest[:_MOST_REST_BYTES]
    yield rest
