"""From the times that a log prints to times since the epoch."""

from parsers.header import Head, LogClock

ZONE_STEP_SECONDS = 900
"""Zones differ in quarters of an hour."""

_LARGEST_ZONE_SECONDS = 15 * 3600
_LIVE_ERROR_SECONDS = 60


def zone_between(log_time: float | None, real_time: float) -> float | None:
    """Seconds east of UTC, where a log printed a time at a moment (epoch); None where they are no zone apart."""
    if log_time is None:
        return None
    ahead = log_time - real_time
    zone = round(ahead / ZONE_STEP_SECONDS) * ZONE_STEP_SECONDS
    return float(zone) if abs(zone) <= _LARGEST_ZONE_SECONDS and abs(ahead - zone) <= _LIVE_ERROR_SECONDS else None


class EventClock:
    """Gives an event its time: the container runtime's, else the log's own, corrected by the zone that was given or learnt."""

    STATE = ("_zone",)

    def __init__(self, zone_seconds: float | None = None) -> None:
        """`zone_seconds` east of UTC when the configuration gives it."""
        self.given = zone_seconds
        self._zone = 0.0
        self._runtime_clock = LogClock(1)  # its times have a year

    @property
    def zone(self) -> float:
        """Seconds east of UTC: as given, else as learnt."""
        return self._zone if self.given is None else self.given

    def learn(self, log_time: float | None, real_time: float) -> None:
        """Compare a time that the log has just printed with the real one."""
        if self.given is None and (zone := zone_between(log_time, real_time)) is not None:
            self._zone = zone

    def epoch(self, head: Head) -> float | None:
        """Seconds since the epoch, None when nothing tells."""
        if head.wrapped_time and (at := self._runtime_clock.read(head.wrapped_time)) is not None:
            return at
        return None if head.time is None else head.time - self.zone
