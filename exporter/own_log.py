"""The exporter's own log on standard error, as logfmt or JSON. It never quotes a line of an engine's log."""

import json
import logging
import sys
import time
from collections import Counter
from typing import Literal

_OFTEN = 10
_WINDOW_SECONDS = 60.0


class _FewOfEach(logging.Filter):
    """Lets ten of one message a minute pass: what anybody on the network can cause must not fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._began = 0.0
        self._seen: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if not 0 <= record.created - self._began < _WINDOW_SECONDS:
            self._began, self._seen = record.created, Counter()
        self._seen[record.msg] += 1
        return self._seen[record.msg] <= _OFTEN


class _Formatter(logging.Formatter):
    """Time in UTC, level, logger, message."""

    def __init__(self, style: Literal["logfmt", "json"]) -> None:
        super().__init__()
        self._json = style == "json"

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}: {self.formatException(record.exc_info)}"
        fields = {"ts": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "logger": record.name, "msg": message}
        if self._json:
            return json.dumps(fields)
        return " ".join(f"{key}={json.dumps(value) if key == 'msg' else value}" for key, value in fields.items())


def set_up_logging(level: str, style: Literal["logfmt", "json"]) -> None:
    """Log to standard error; uvicorn's errors go the same way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(style))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.filters[:] = [_FewOfEach()]
