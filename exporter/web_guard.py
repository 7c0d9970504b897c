"""Who may ask, how often, and how much: in front of the application, as the Prometheus exporter toolkit does it."""

import asyncio
import base64
import binascii
import hashlib
import logging
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporter.config_errors import MAX_BYTES, ConfigError
from exporter.limits import MOST_BODY_BYTES, Listener
from exporter.web_tls import ReloadingContext
from exporter.webconfig import RateLimit, TlsServerConfig, WebSettings, load_web_settings

_MOST_REMEMBERED = 128
_LONGEST_PASSWORD = 72
"""What follows is nothing to bcrypt."""

logger = logging.getLogger("inferlog.web")


class WebConfigFile:
    """The web configuration file: read at each request, parsed when it is another than before."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises ConfigError."""
        self._path = Path(path)
        self._text = self._read()
        self._settings: WebSettings | None = load_web_settings(path)
        self._has_tls = self._settings.tls_server_config is not None

    def current(self) -> WebSettings | None:
        """What it says now; None while it cannot be used."""
        text = self._read()
        if text != self._text:
            self._text = text
            self._settings = self._load()
        return self._settings

    def tls(self) -> TlsServerConfig | None:
        """What it says of TLS now."""
        settings = self.current()
        return settings.tls_server_config if settings else None

    def context(self) -> ReloadingContext | None:
        """TLS for a server, None when there is to be none. Raises ConfigError."""
        return ReloadingContext(self.tls) if self._has_tls else None

    def _load(self) -> WebSettings | None:
        try:
            settings = load_web_settings(self._path)
            reason = (
                "" if self._has_tls == (settings.tls_server_config is not None) else f"{self._path}: to turn TLS on or off takes a restart"
            )
        except ConfigError as error:
            reason = str(error)
        if reason:
            logger.error("the web configuration cannot be used, all requests are refused: %s", reason)
            return None
        logger.info("%s: the new web configuration is in force", self._path)
        return settings

    def _read(self) -> bytes | None:
        try:
            with self._path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            return None


class Passwords:
    """Compares passwords with bcrypt hashes, one at a time, and remembers the outcome.

    What is remembered is a keyed hash of user, hash and password: no password is kept, and the time of a look-up tells
    nothing. Wrong ones are remembered apart, so that a flood of them pushes no right one out.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}
        self._one_at_a_time = asyncio.Lock()

    async def match(self, users: Mapping[str, str], credentials: tuple[str, bytes] | None) -> bool:
        """Whether these are the credentials of one of the users."""
        if credentials is None:
            return False
        user, password = credentials
        # Of a user that there is not, another's hash is computed: the time tells nobody who there is.
        hashed = users.get(user) or next(iter(users.values()))
        exists = user in users
        digest = hashlib.blake2b(repr((user, exists, hashed, password)).encode(), key=self._key, digest_size=16).digest()
        if (known := self._recall(digest)) is not None:
            return known
        async with self._one_at_a_time:
            known = self._recall(digest)  # who waited may have waited for this one
            if known is None:
                known = await asyncio.to_thread(_compare, password, hashed) and exists
                self._known[known][digest] = None
                if len(self._known[known]) > _MOST_REMEMBERED:
                    self._known[known].popitem(last=False)
        return known

    def _recall(self, digest: bytes) -> bool | None:
        for outcome, digests in self._known.items():
            if digest in digests:
                digests.move_to_end(digest)
                return outcome
        return None


def _compare(password: bytes, hashed: str) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password[:_LONGEST_PASSWORD], hashed.encode())
    except ValueError:
        return False


def _credentials(headers: Mapping[bytes, bytes]) -> tuple[str, bytes] | None:
    """User and password of basic authentication."""
    scheme, _, encoded = headers.get(b"authorization", b"").partition(b" ")
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return (user.decode(), password) if scheme.lower() == b"basic" and colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


class _Bucket:
    """Tokens that requests take, and that come back with time."""

    def __init__(self) -> None:
        self._limit = RateLimit()
        self._tokens, self._at = 0.0, 0.0

    def take(self, limit: RateLimit) -> bool:
        """Whether there was one."""
        if not limit.seconds:
            return True
        now = time.monotonic()
        if limit != self._limit:
            self._limit, self._tokens, self._at = limit, limit.burst, now
        self._tokens = min(limit.burst, self._tokens + (now - self._at) / limit.seconds)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Guard:
    """The application behind its limits and, with a web configuration, behind that."""

    def __init__(self, app: ASGIApp, listener: Listener, web_config: WebConfigFile | None = None) -> None:
        self._app, self._listener, self._web_config = app, listener, web_config
        self._passwords, self._bucket = Passwords(), _Bucket()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request pass, or say why not."""
        try:
            settings = self._web_config.current() if self._web_config else WebSettings()
            refused = await self._refused(settings, dict(scope["headers"]))
            if settings and settings.http_server_config.headers:
                send = _with_headers(send, settings.http_server_config.headers)
            if not refused:
                self._listener.answering(scope["client"])
            await (refused or self._app)(scope, receive, self._telling(scope["client"], send))
        finally:
            self._listener.answered(scope["client"])

    def _telling(self, peer: tuple[str, int] | None, send: Send) -> Send:
        async def send_and_tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._listener.begins_to_answer(peer)
            await send(message)

        return send_and_tell

    async def _refused(self, settings: WebSettings | None, headers: Mapping[bytes, bytes]) -> PlainTextResponse | None:
        if settings is None:
            return PlainTextResponse("Internal Server Error\n", 500)
        if not self._bucket.take(settings.rate_limit):
            return PlainTextResponse("Too Many Requests\n", 429)
        if b"transfer-encoding" in headers or int(headers.get(b"content-length", b"0")) > MOST_BODY_BYTES:
            return PlainTextResponse("Content Too Large\n", 413, {"Connection": "close"})
        users = settings.basic_auth_users
        if users and not await self._passwords.match(users, _credentials(headers)):
            return PlainTextResponse("Unauthorized\n", 401, {"WWW-Authenticate": "Basic"})
        return None


def _with_headers(send: Send, headers: Mapping[str, str | None]) -> Send:
    added = [(name.lower().encode(), (value or "").encode()) for name, value in headers.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return send_with_headers
