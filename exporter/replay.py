"""Writes a saved log again in the rhythm in which it was written."""

import threading
from pathlib import Path

from parsers.header import HEADER, LogClock

LONGEST_PAUSE_SECONDS = 60.0
"""A longer gap in the log is cut to this."""


def replay_log(saved: Path, target: Path, *, speed: float, stop: threading.Event | None = None) -> None:
    """Append the lines of `saved` to a new `target`, `speed` times as fast as their headers tell; 0 does not wait.

    Lines without a time follow at once. Ends early when `stop` is set. Raises OSError.
    """
    stopped = stop or threading.Event()
    clock = LogClock(1)
    before: float | None = None
    with saved.open("rb") as lines, target.open("wb", buffering=0) as log:
        for line in lines:
            header = HEADER.match(line[:1024].decode("utf-8", "replace"))
            now = clock.read(header[4]) if header and header[4] else before
            if speed and now is not None and before is not None and now > before:
                stopped.wait(min(now - before, LONGEST_PAUSE_SECONDS) / speed)
            if stopped.is_set():
                return
            before = now
            log.write(line)
