"""The exporter's own log on standard error, as logfmt or JSON. It never quotes a line of an engine's log."""

import json
import logging
import sys
import time
from typing import Literal


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
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
