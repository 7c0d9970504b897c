"""Whether the KV that an engine received is seen on the wire."""

from collections import deque
from collections.abc import Collection
from itertools import pairwise

from exporter.evidence.rdma import RdmaReading

KV_SECONDS = 45.0
"""KV counts that periodic lines told of within this time."""

LEAD_SECONDS = 30.0
"""It came up to an interval before its line; and the ports are read every ten seconds."""

_SLACK_SECONDS = 15.0
_STALE_SECONDS = 35.0
LEAST_BYTES = 1 << 20
"""Fewer KV bytes are no evidence."""

_ON_THE_MACHINE = ("cuda_", "rocm_", "ze_", "gdr_", "sm", "self", "shm", "sysv", "posix", "cma", "xpmem", "knem", "mm")
"""How names of UCX transports begin that use no wire."""


class RdmaWindow:
    """Ports are everybody's: enough bytes are no proof whose they are, too few are one that the KV came another way."""

    STATE = ("_readings", "_kv")

    def __init__(self) -> None:
        self._readings: deque[RdmaReading] = deque(maxlen=16)
        self._kv: deque[tuple[float, float]] = deque(maxlen=256)

    def restart(self) -> None:
        """Another engine process begins."""
        self._kv.clear()

    def take(self, reading: RdmaReading) -> None:
        """The ports once more."""
        self._readings.append(reading)

    def moved(self, log_time: float | None, size: float) -> None:
        """A line tells of KV that came over, at this time of the log's clock."""
        if log_time is not None and size > 0:
            self._kv.append((log_time, size))

    def status(self, now: float, log_now: float | None, transports: Collection[str] = ()) -> str:
        """The check's; `transports` are what UCX says carries KV, none where it does not say. `log_now` is `now` by the log's clock."""
        if transports and all(name.startswith(_ON_THE_MACHINE) for name in transports):
            return "unknown"
        readings = [each for each in self._readings if now - each.at <= KV_SECONDS + LEAD_SECONDS + _SLACK_SECONDS]
        if log_now is None or not readings or any(each.received is None for each in readings):
            return "unknown"
        first, last = readings[0], readings[-1]
        if first.at > now - KV_SECONDS - LEAD_SECONDS or now - last.at > _STALE_SECONDS:
            return "unknown"  # not watched for long enough, or no longer
        if any((later.received or 0.0) < (each.received or 0.0) for each, later in pairwise(readings)):
            return "unknown"  # other ports than before
        kv = sum(size for at, size in self._kv if now - last.at <= log_now - at <= KV_SECONDS)
        if kv < LEAST_BYTES:
            return "unknown"
        return "pass" if (last.received or 0.0) - (first.received or 0.0) >= kv / 2 else "fail"
