"""Compiler processes, where the process namespace is shared: which run now, and how long they have been at it."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from exporter.evidence.sightings import CompilerBurst, CompilerSighting

LOOK_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""Compilers that follow each other within this time are at one and the same job."""

COMPILERS = frozenset(
    {"nvcc", "cicc", "ptxas", "ptxas-blackwell", "fatbinary", "cudafe++", "nvlink", "ninja", "hipcc", "clang-offload-b", "amdclang++"}
)
"""As the kernel names them, cut to 15 characters."""

_LOOKS_UNTIL_SETTLED = 3
"""A process may take a compiler's name a moment after its start; later it seldom does."""

_MOST_PROCESSES = 10_000
_TICKS = os.sysconf("SC_CLK_TCK")


class _Process(NamedTuple):
    name: str
    parent: int
    began: float
    """Epoch."""


class CompilerScan:
    """Looks through a proc file system. What runs at first is none of ours: it may have been counted before a restart."""

    def __init__(self, root: str, publish: Callable[[CompilerSighting | CompilerBurst], None]) -> None:
        self._root, self._publish = root, publish
        self._looks: dict[int, int] = {}
        self._running: dict[int, _Process] = {}
        self._ignored: set[int] = set()
        self._began: float | None = None
        self._seen_at = 0.0
        self._first = True

    def look(self) -> None:
        """Publish who started, and a job that is over."""
        pids = self._pids()
        self._looks = {pid: self._looks.get(pid, 0) + 1 for pid in pids}
        self._running = {pid: each for pid, each in self._running.items() if self._read(pid) is not None}
        self._ignored &= self._looks.keys()
        for pid, looks in self._looks.items():
            if looks <= _LOOKS_UNTIL_SETTLED and pid not in self._running and pid not in self._ignored:
                self._look_at(pid)
        self._first = False
        now = time.time()
        if self._running:
            self._seen_at = now
        elif self._began is not None and now - self._seen_at >= GRACE_SECONDS:
            self._publish(CompilerBurst(self._began, self._seen_at))
            self._began = None

    def _pids(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._root) if name.isascii() and name.isdigit()][:_MOST_PROCESSES]
        except OSError:
            return []

    def _look_at(self, pid: int) -> None:
        process = self._read(pid)
        if process is None or process.name not in COMPILERS:
            return
        if self._first:
            self._ignored.add(pid)
            return
        if process.parent in self._ignored:
            self._ignored.add(pid)
            return
        if process.parent not in self._running:
            self._publish(CompilerSighting(process.began))
        self._running[pid] = process
        self._began = process.began if self._began is None else min(self._began, process.began)

    def _read(self, pid: int) -> _Process | None:
        try:
            with open(os.path.join(self._root, str(pid), "stat"), "rb") as file:
                text = file.read(1024)
        except OSError:
            return None
        # pid (name) state ppid ...: a name may hold anything, parentheses too.
        name, _, rest = text.partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        try:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS
            if fields[0] in (b"Z", b"X"):
                return None  # it is over, though nobody has asked how it went
            return _Process(name.decode("ascii", "replace"), int(fields[1]), time.time() - max(0.0, age))
        except (IndexError, ValueError):
            return None
