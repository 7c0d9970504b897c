"""Compiles while an engine runs: what counts as one, how long it took, and whether one is still running."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from exporter.counters import Counters, Fold, Folds, Sample
from parsers.events import CompileBegan, CompileCache, Compiled, CompileEnded, CompileTook
from parsers.header import Head

FORGET_SECONDS = 900.0
"""A compile that began and never ended is forgotten after this time."""

_MONITOR = "engine's monitor"
_OPEN_LIMIT = 1024
_MONITOR_LEAD_SECONDS = 5.0


class _Open(NamedTuple):
    began: float
    fold: Fold
    phase: str


class JitLedger:
    """Folds the ranks of one compile, pairs begin and end, and takes an engine's own warning and its library's pair for one."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._folds = Folds()
        self._open: dict[tuple[str, str, str, str], deque[_Open]] = {}
        self._announced: dict[tuple[str, str], tuple[float, Fold]] = {}
        self._untimed: dict[tuple[str, str], tuple[Fold, str]] = {}
        self.last: dict[tuple[str, str], Head] = {}

    def restart(self) -> None:
        """A new engine process: nothing of the old one is still compiling."""
        self._open.clear()
        self._announced.clear()
        self._untimed.clear()
        self._folds = Folds()

    def compiled(self, event: Compiled, head: Head, phase: str) -> None:
        """A compile told by one line."""
        phase = "serving" if event.serving else phase
        self._sighting(phase)
        who = f"{head.origin.who} {_MONITOR}" if event.serving else head.origin.who
        fold = self._folds.join((event.backend, event.event, event.kernel), who, head.time)
        self._count(event.backend, event.event, phase, fold, head)
        if event.seconds is not None:
            self._took(event.backend, phase, fold, event.seconds)
        else:
            self._untimed[head.origin.who, event.backend] = (fold, phase)
        if event.serving:
            if len(self._announced) >= _OPEN_LIMIT:
                self._announced.clear()
            self._announced[event.backend, event.kernel] = (head.time or 0.0, fold)

    def began(self, event: CompileBegan, head: Head, phase: str) -> None:
        """The first line of a pair."""
        now = head.time or 0.0
        announced = self._announced.get((event.backend, event.kernel))
        if announced and 0 <= now - announced[0] <= _MONITOR_LEAD_SECONDS:
            fold, phase = announced[1], "serving"  # TileLang's monitor fires before the compile
        else:
            fold = self._folds.join((event.backend, event.event, event.kernel), head.origin.who, head.time)
        key = (event.backend, event.event, event.kernel, head.origin.who)
        if key in self._open or len(self._open) < _OPEN_LIMIT:
            self._open.setdefault(key, deque(maxlen=64)).append(_Open(now, fold, phase))

    def ended(self, event: CompileEnded, head: Head, phase: str) -> None:
        """The second line of a pair; a pair whose first line was lost still counts, without a duration."""
        self._sighting(phase)
        key = (event.backend, event.event, event.kernel, head.origin.who)
        waiting = self._open.get(key)
        while waiting and (head.time or 0.0) - waiting[0].began > FORGET_SECONDS:
            waiting.popleft()
        if not waiting:
            self._open.pop(key, None)
            fold = self._folds.join((event.backend, event.event, event.kernel), head.origin.who, head.time)
            self._count(event.backend, event.event, phase, fold, head)
            return
        begun = waiting.popleft()
        if not waiting:
            del self._open[key]
        self._count(event.backend, event.event, begun.phase, begun.fold, head)
        self._took(event.backend, begun.phase, begun.fold, (head.time or 0.0) - begun.began)

    def took(self, event: CompileTook, head: Head) -> None:
        """The duration of the compile that this process told last."""
        if pending := self._untimed.pop((head.origin.who, event.backend), None):
            fold, phase = pending
            self._took(event.backend, phase, fold, event.seconds)

    def cache(self, event: CompileCache, head: Head) -> None:
        """A cache's answer, told once for all ranks."""
        fold = self._folds.join(("cache", event.backend, event.result), head.origin.who, head.time)
        if not fold.counted:
            fold.counted = True
            self._counters.add("compile_cache_total", event.backend, event.result)

    def samples(self, now: float | None) -> Iterator[Sample]:
        """What compiles at this moment; `now` is by the log's clock."""
        running: dict[str, set[str]] = {}
        for (backend, event, kernel, _), waiting in self._open.items():
            mine = running.setdefault(backend, set())
            if any(now is None or now - begun.began <= FORGET_SECONDS for begun in waiting):
                mine.add(f"{event} {kernel}")
        for backend in sorted({backend for backend, _ in self.last} | running.keys()):
            yield Sample("jit_in_progress", (backend,), len(running.get(backend, ())))

    def _sighting(self, phase: str) -> None:
        self._counters.add("jit_observed_total", "log", phase)

    def _count(self, backend: str, event: str, phase: str, fold: Fold, head: Head) -> None:
        if not fold.counted:
            fold.counted = True
            self._counters.add("jit_events_total", backend, event, phase)
            self.last[backend, phase] = head
            if backend == "inductor" and event == "compile":
                self._counters.add("compile_cache_total", backend, "miss")

    def _took(self, backend: str, phase: str, fold: Fold, seconds: float) -> None:
        if seconds > fold.seconds:
            self._counters.add("jit_seconds_total", backend, phase, by=seconds - fold.seconds)
            fold.seconds = seconds
