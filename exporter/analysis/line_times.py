"""When each line of a saved log was written."""

import re

from exporter.analysis.inputs import Written
from exporter.clock import EventClock
from parsers.framing import Framing
from parsers.header import NOBODY, UNKNOWN_LEVEL, Head
from parsers.log import Log

_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")


class LineTimes:
    """Tells the time of a line by itself: before it counts, or where nothing is counted."""

    def __init__(self, written: Written, clock: EventClock) -> None:
        self._log, self._clock = Log(written.year, written.month), clock
        self._text = b""

    def of(self, line: bytes) -> float | None:
        """None where nothing tells, and for a line of the same second as the last one."""
        text = _CLOCK.search(line)
        if not text or text[0] == self._text:
            return None
        self._text, before = text[0], self._log.last_time
        self._log.feed(line)
        printed, framed = self._log.last_time, Framing().unwrap(line.decode(errors="replace").rstrip("\r\n"))
        at = self._clock.epoch(Head(NOBODY, UNKNOWN_LEVEL, None, wrapped_time=framed[1])) if framed else None
        if at is None:
            return None if printed is None else printed - self._clock.zone
        if printed != before:
            self._clock.learn(printed, at)
        return at
