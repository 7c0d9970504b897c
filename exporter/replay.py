"""Writes a saved log again in the rhythm in which it was written."""

import threading
from pathlib import Path

from exporter.analysis.inputs import chunks, lines, saved_logs
from exporter.analysis.line_times import LineTimes
from exporter.clock import EventClock

LONGEST_PAUSE_SECONDS = 60.0
"""A longer gap in the log is cut to this."""


def replay_log(saved: Path, target: Path, *, speed: float, stop: threading.Event | None = None) -> None:
    """Append the lines of `saved` to a new `target`, `speed` times as fast as their headers tell; 0 does not wait.

    Lines without a time follow at once. Ends early when `stop` is set. Raises OSError and DamagedError.
    """
    stopped = stop or threading.Event()
    [log] = saved_logs([str(saved)])
    times = LineTimes(log.written, EventClock())
    before: float | None = None
    with target.open("wb", buffering=0) as copy:
        for line in lines(chunks(log.path)):
            now = (times.of(line) if speed else None) or before
            if now is not None and before is not None and now > before:
                stopped.wait(min(now - before, LONGEST_PAUSE_SECONDS) / speed)
            if stopped.is_set():
                return
            before = now
            copy.write(line)
