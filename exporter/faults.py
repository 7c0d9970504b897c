"""Faults of our own code: counted and logged, without ever ending the daemon."""

import logging
import traceback

logger = logging.getLogger("inferlog.faults")


class Faults:
    """Of one source. Each place is logged once and its text never: it may quote the log."""

    STATE = ("count",)

    def __init__(self, source: str) -> None:
        self._source = source
        self._places: set[tuple[str, str]] = set()
        self.count = 0

    def note(self, error: Exception) -> None:
        """Count a fault, and tell where it happened when it is new."""
        self.count += 1
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = (type(error).__name__, f"{frame.name}:{frame.lineno}")
        if place not in self._places:
            self._places.add(place)
            logger.error("source %s: %s in %s (this is a bug of inferlog: what follows is still read)", self._source, *place)
