"""RDMA traffic of this machine: what its ports counted since inferlog began to look."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from exporter.counters import Sample
from exporter.evidence.rdma_ports import Port, ports

LOOK_SECONDS = 10.0
_MOST_SERIES = 4096


class RdmaReading(NamedTuple):
    """All bytes that the readable ports of this machine received, since some moment."""

    at: float
    """Epoch."""
    received: float | None
    """None where no port can be read, or one no longer that was."""


class RdmaTotals:
    """Counters that never fall, made of those of the hardware, which do; from any thread."""

    STATE = ("totals", "raw")

    def __init__(self, sysfs: str, publish: Callable[[RdmaReading], None] = lambda reading: None) -> None:
        """`sysfs` is its root as seen from here."""
        self.sysfs = sysfs
        self._publish = publish
        self.lock = threading.Lock()
        self._readable: dict[str, bool] = {}
        self.totals: dict[tuple[str, ...], float] = {}
        """By family, device, port and what it counts."""
        self.raw: dict[tuple[str, ...], int] = {}
        """What the hardware said last."""

    def look(self) -> None:
        """Read all ports."""
        found = ports(self.sysfs)
        with self.lock:
            for port in found:
                self._take(port)
            self._readable = {
                device: all(port.bytes.keys() >= {"receive", "transmit"} for port in found if port.device == device)
                for device in dict.fromkeys(port.device for port in found)
            }
            received = {key: value for key, value in self.totals.items() if key[-1] == "receive"}
        readable = bool(received) and all(self._readable.get(device) for _, device, *_ in received)
        self._publish(RdmaReading(time.time(), sum(received.values()) if readable else None))

    def _take(self, port: Port) -> None:
        for family, values in (("rdma_bytes_total", port.bytes), ("rdma_hardware_events_total", port.hardware)):
            for what, value in values.items():
                key = (family, port.device, port.port, what)
                if key in self.totals or len(self.totals) < _MOST_SERIES:
                    self.totals[key] = self.totals.get(key, 0.0) + _rise(self.raw.get(key), value)
                    self.raw[key] = value

    def samples(self) -> Iterator[Sample]:
        """What is readable, and what was counted."""
        with self.lock:
            readable, totals = dict(self._readable), dict(self.totals)
        for device, is_readable in readable.items():
            yield Sample("rdma_readable", (device,), is_readable)
        for (family, *labels), value in totals.items():
            yield Sample(family, tuple(labels), value)


def _rise(before: int | None, now: int) -> int:
    """What a counter rose by. The first sight is a beginning; after a fall (a reset, a wrap) what it counted since is the least."""
    if before is None:
        return 0
    return now - before if now >= before else now
