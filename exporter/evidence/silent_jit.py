"""Compiles that the log does not tell of, as caches and processes show them."""

from exporter.counters import Counters
from exporter.evidence.sightings import CacheSighting, CompilerBurst, CompilerSighting, Sighting

SILENT = frozenset({"deepgemm", "flashinfer", "other"})
"""Libraries that print nothing when they compile; of the others the log is the better witness."""

COMPILER = "nvcc"
"""What a compiler process without a kernel in a watched cache, and without a line in the log, is counted as."""

_TOLD_SECONDS = 60.0
"""A cache sighting so soon after a line of the same library belongs to what that line told."""

_TOGETHER_SECONDS = 10.0
"""How far a compiler's job may lie before the kernel that it made, or the line that tells of it."""


class SilentJit:
    """Counts each compile by its best witness: its line in the log, else its kernel in a cache, else the compiler that ran."""

    STATE = ("last", "_seen")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.last: dict[tuple[str, str], float] = {}
        """When (epoch) the last compile of a backend in a phase was that was counted here."""
        self._seen: dict[str, float] = {}
        """When (epoch) the last kernel of a backend appeared in a cache."""

    def born(self, seen_by: str) -> None:
        """Sightings of this kind are looked for: they exist at 0."""
        for phase in ("startup", "serving"):
            self._counters.create("jit_observed_total", {"seen_by": seen_by, "phase": phase})

    def take(self, sighting: Sighting, phase: str, told: dict[tuple[str, str], float]) -> str:
        """Count a sighting; `told` is when (epoch) the log last told of a compile, by backend and phase.

        What it was counted as, nothing when it is no compile of its own.
        """
        if isinstance(sighting, CacheSighting):
            self._counters.add("jit_observed_total", "cache", phase)
            self._seen[sighting.backend] = sighting.at
            in_log = max((at for (backend, _), at in told.items() if backend == sighting.backend), default=None)
            if sighting.backend in SILENT and (in_log is None or sighting.at - in_log > _TOLD_SECONDS):
                return self._count(sighting.backend, phase, sighting.at)
        elif isinstance(sighting, CompilerSighting):
            self._counters.add("jit_observed_total", "process", phase)
        else:
            return self._burst(sighting, phase, told)
        return ""

    def _burst(self, burst: CompilerBurst, phase: str, told: dict[tuple[str, str], float]) -> str:
        """A job of compilers: its time belongs to the one library whose kernels it made, or to nobody that is known."""
        if any(burst.began <= at <= burst.ended + _TOGETHER_SECONDS for at in told.values()):
            return ""  # the log tells of it, with its own duration
        made = {backend for backend, at in self._seen.items() if burst.began <= at <= burst.ended + _TOGETHER_SECONDS}
        backend = next(iter(made)) if len(made) == 1 else COMPILER
        self._counters.add("jit_seconds_total", backend, phase, by=burst.ended - burst.began)
        return "" if made else self._count(COMPILER, phase, burst.ended)

    def _count(self, backend: str, phase: str, at: float) -> str:
        self._counters.add("jit_events_total", backend, "compile", phase)
        self.last[backend, phase] = at
        return backend
