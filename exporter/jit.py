"""Compiles while an engine runs: what counts as one, how long it took, and whether one is still running."""

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from exporter.counters import FOLD_SECONDS, Counters, Fold, Folds, Sample
from exporter.jit_incidents import JitIncidents
from parsers.events import CompileBegan, CompileCache, Compiled, CompileEnded, CompileTook
from parsers.header import Head

FORGET_SECONDS = 900.0
"""A compile that began and never ended is forgotten after this time."""

_MONITOR = "engine's monitor"
_OPEN_LIMIT = 1024
_TOGETHER_SECONDS = 5.0  # within which the ranks and the engine's monitor tell of one compile


class OpenCompile(NamedTuple):
    """A compile that has begun."""

    began: float
    fold: Fold
    phase: str


class Compiling(NamedTuple):
    """A kernel that one process compiles."""

    backend: str
    kernel: str
    began: float


class JitLedger:
    """Folds the ranks of one compile, pairs begin and end, and takes an engine's own warning and its library's pair for one."""

    STATE = ("ranks", "last", "_folds", "_open", "_announced", "_untimed")

    def __init__(self, counters: Counters, incidents: JitIncidents) -> None:
        self._counters, self._incidents = counters, incidents
        self._folds = Folds()
        self._open: dict[tuple[str, str, str, str], deque[OpenCompile]] = {}
        self._announced: dict[tuple[str, str], tuple[float, Fold]] = {}
        self._untimed: dict[tuple[str, str], deque[Fold]] = {}
        self.ranks = 1
        """Workers of the engine, as far as its settings tell: lines without a process name are told apart by number."""
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
        key = (event.backend, event.event, event.kernel)
        if event.raised and self._announced_by(event, who, head):
            return  # an exception stands in each traceback that it goes through
        fold = (self._begun_just_now(key, head) if event.serving else None) or self._folds.join(key, who, head.time, self.ranks)
        self._count(event.backend, event.event, phase, fold, head)
        if event.seconds is not None:
            self._took(event.backend, fold, event.seconds)
        elif not event.serving:
            self._await_duration(fold, event.backend, head.origin.who)
        if event.serving:
            if len(self._announced) >= _OPEN_LIMIT:
                self._announced.clear()
            self._announced[event.backend, event.kernel] = (head.time or 0.0, fold)

    def _announced_by(self, event: Compiled, who: str, head: Head) -> bool:
        """Whether this process' monitor told of the kernel just now."""
        time, fold = self._announced.get((event.backend, event.kernel)) or (-math.inf, None)
        return fold is not None and who in fold.seen and 0 <= (head.time or 0.0) - time <= FOLD_SECONDS

    def _begun_just_now(self, key: tuple[str, str, str], head: Head) -> Fold | None:
        """The compile of this kernel that some rank began before the engine's monitor had a word."""
        now = head.time or 0.0
        for (*kernel, _), waiting in self._open.items():
            if tuple(kernel) == key and 0 <= now - waiting[-1].began <= _TOGETHER_SECONDS:
                return waiting[-1].fold
        return None

    def _await_duration(self, fold: Fold, backend: str, who: str) -> None:
        """The duration comes on a later line; ranks without a process name print theirs in the order of their compiles."""
        if (who, backend) in self._untimed or len(self._untimed) < _OPEN_LIMIT:
            waiting = self._untimed.setdefault((who, backend), deque(maxlen=64))
            if who:
                waiting.clear()
            waiting.append(fold)

    def began(self, event: CompileBegan, head: Head, phase: str) -> None:
        """The first line of a pair."""
        now, who = head.time or 0.0, head.origin.who
        key = (event.backend, event.event, event.kernel)
        announced = self._announced.get((event.backend, event.kernel))
        waiting = self._open.get((*key, who))
        if announced and 0 <= now - announced[0] <= _TOGETHER_SECONDS:
            fold, phase = announced[1], "serving"  # TileLang's monitor fires before the compile
        elif waiting and not who and now - waiting[-1].began <= _TOGETHER_SECONDS:
            fold = waiting[-1].fold  # without a process name a second begin is another rank's
        else:
            fold = self._folds.join(key, who, head.time)
        if waiting or len(self._open) < _OPEN_LIMIT:
            self._open.setdefault((*key, who), deque(maxlen=64)).append(OpenCompile(now, fold, phase))

    def ended(self, event: CompileEnded, head: Head, phase: str) -> None:
        """The second line of a pair; a pair whose first line was lost still counts, without a duration."""
        self._sighting(phase)
        key = (event.backend, event.event, event.kernel, head.origin.who)
        waiting = self._open.get(key)
        while waiting and (head.time or 0.0) - waiting[0].began > FORGET_SECONDS:
            waiting.popleft()
        if not waiting:
            self._open.pop(key, None)
            fold = self._folds.join(key[:3], head.origin.who, head.time, self.ranks)
            self._count(event.backend, event.event, phase, fold, head)
            return
        begun = waiting.popleft()
        if not waiting:
            del self._open[key]
        self._count(event.backend, event.event, begun.phase, begun.fold, head)
        self._took(event.backend, begun.fold, (head.time or 0.0) - begun.began)

    def took(self, event: CompileTook, head: Head) -> None:
        """The duration of a compile that this process told before; a progress bar has no process."""
        who = head.origin.who
        if event.of_a_bar and not who:
            who = next((name for (name, backend), folds in self._untimed.items() if backend == event.backend and folds), "")
        if waiting := self._untimed.get((who, event.backend)):
            self._took(event.backend, waiting.popleft(), event.seconds)

    def cache(self, event: CompileCache, head: Head) -> None:
        """A cache's answer, told once for all ranks."""
        fold = self._folds.join(("cache", *event), head.origin.who, head.time, self.ranks)
        if not fold.counted:
            fold.counted = True
            self._counters.add("compile_cache_total", event.backend, event.result)

    def open(self, now: float | None) -> list[Compiling]:
        """What compiles at this moment; `now` is by the log's clock."""
        return [
            Compiling(backend, f"{event} {kernel}", waiting[0].began)
            for (backend, event, kernel, _), waiting in self._open.items()
            if any(now is None or now - begun.began <= FORGET_SECONDS for begun in waiting)
        ]

    def samples(self, now: float | None) -> Iterator[Sample]:
        """How many kernels of each backend compile; the ranks of one are one."""
        running = {(each.backend, each.kernel) for each in self.open(now)}
        for backend in sorted({backend for backend, _ in self.last} | {backend for backend, *_ in self._open}):
            yield Sample("jit_in_progress", (backend,), sum(backend == each for each, _ in running))

    def _sighting(self, phase: str) -> None:
        self._counters.add("jit_observed_total", "log", phase)

    def _count(self, backend: str, event: str, phase: str, fold: Fold, head: Head) -> None:
        if not fold.counted:
            fold.counted, fold.phase = True, phase
            self._counters.add("jit_events_total", backend, event, phase)
            self.last[backend, phase] = head
            if phase == "serving":
                self._incidents.compiled(head)
            if backend == "inductor" and event == "compile":
                self._counters.add("compile_cache_total", backend, "miss")

    def _took(self, backend: str, fold: Fold, seconds: float) -> None:
        if seconds > fold.seconds:
            self._counters.add("jit_seconds_total", backend, fold.phase, by=seconds - fold.seconds)
            fold.seconds = seconds
