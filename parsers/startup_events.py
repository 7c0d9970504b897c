"""The events of a start: its phases, and the memory that they take."""

from typing import NamedTuple


class MemoryUsed(NamedTuple):
    """Device memory of one rank, by part; part of other events."""

    part: str
    bytes: float


class PhaseFinished(NamedTuple):
    """A start-up phase of one rank ended; a process may end the same phase several times (target and draft model)."""

    phase: str
    seconds: float | None
    memory: MemoryUsed | None = None
    compile_seconds: float | None = None
    free: float | None = None
    """Bytes of device memory that are left."""


class PhaseBegan(NamedTuple):
    """A start-up phase of one rank began; the process may have begun it already."""

    phase: str


class StartupTimings(NamedTuple):
    """Start-up phases in seconds, told once for all ranks."""

    phases: dict[str, float]


class DraftCaptureBegan(NamedTuple):
    """One rank goes on to the draft model within `graph_capture`, which ends for both at once."""


class MemoryReport(NamedTuple):
    """Device memory of one rank by part, and what is left for KV."""

    parts: tuple[MemoryUsed, ...]
    kv_bytes: float | None = None
