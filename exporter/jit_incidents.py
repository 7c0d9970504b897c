"""Compiles of an engine that serves, as incidents: who warms an engine up after it is ready is not to be woken."""

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.counters import Counters, Sample
from exporter.history import Moment, moment_of
from exporter.lifecycle import LifeCycle
from parsers.header import Head
from parsers.units import label

WARMUP_GRACE_SECONDS = 600.0
"""How long after it became ready an engine may still be warmed up by its users."""

BURST_SECONDS = 60.0
"""Compiles that are less than this apart are one incident."""

KERNELS_LIMIT = 64
"""Names of kernels that are kept."""

PERIODS = ("warmup_grace", "service")


@dataclass(slots=True)
class Kernel:
    """A kernel that was compiled while the engine served."""

    backend: str
    kind: str
    name: str
    last: Moment
    count: int = 0


class JitIncidents:
    """Bursts of compiles by the period that they fell into."""

    STATE = ("last", "kernels")

    def __init__(self, counters: Counters, life: LifeCycle) -> None:
        self.grace_seconds = WARMUP_GRACE_SECONDS
        self.last: dict[str, Head] = {}
        """The last compile of each period."""
        self.kernels: dict[tuple[str, str, str], Kernel] = {}
        self._counters, self._life = counters, life

    def compiled(self, backend: str, kind: str, kernel: str, phase: str, head: Head) -> None:
        """A compile that counts, with the line that told of it."""
        now = moment_of(head)
        self._life.history.compiled(backend, kind, phase, now)
        if phase == "serving":
            self._serving(head)
            if kernel:
                self._named(backend, kind, label(kernel), now)

    def _named(self, backend: str, kind: str, name: str, now: Moment) -> None:
        kernel = self.kernels.get((backend, kind, name))
        if not kernel:
            if len(self.kernels) >= KERNELS_LIMIT:
                del self.kernels[next(iter(self.kernels))]
            kernel = self.kernels[backend, kind, name] = Kernel(backend, kind, name, now)
        kernel.last, kernel.count = now, kernel.count + 1

    def _serving(self, head: Head) -> None:
        """One compile while the engine serves.

        A burst that lasts beyond the grace is an incident of each period: the second one is what users of the engine feel.
        """
        period = "warmup_grace" if self._is_warming_up(head.time) else "service"
        before = self.last.get(period)
        if before is None or abs((head.time or 0.0) - (before.time or 0.0)) > BURST_SECONDS:
            self._counters.add("jit_incidents_total", period)
        self.last[period] = head

    def is_recent(self, now: float | None) -> bool:
        """Whether a burst may go on."""
        return now is not None and any(now - (head.time or 0.0) <= BURST_SECONDS for head in self.last.values())

    def _is_warming_up(self, now: float | None) -> bool:
        """Whether the engine is not ready yet or has become so just now. One whose start nobody saw may serve for days."""
        life = self._life
        if not life.ready_observed and life.started is None:
            return False
        if life.ready is None:
            return True
        return now is not None and life.ready.time is not None and now - life.ready.time < self.grace_seconds

    def samples(self, now: float | None) -> Iterator[Sample]:
        """Whether an engine that is ready is within its grace; `now` is by the log's clock."""
        if self._life.is_up:
            yield Sample("engine_in_warmup_grace", (), self._is_warming_up(now))
