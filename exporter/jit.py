"""Compiles while an engine runs: what counts as one, how long it took, and whether one is still running."""

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from exporter.counters import FOLD_SECONDS, Counters, Fold, Folds, Sample
from exporter.jit_incidents import JitIncidents
from parsers.events import CompileBegan, CompileCache, Compiled, CompileEnded, CompileFailed, CompileSession, CompileTook
from parsers.header import Head

FORGET_SECONDS = 900.0
"""A compile that began and never ended is forgotten after this time."""

_MONITOR = "engine's monitor"
_OPEN_LIMIT = 1024
_TOGETHER_SECONDS = 5.0  # within which the ranks and the engine's monitor tell of one compile
_NAMED_TWICE = frozenset({"cutedsl"})  # FlashInfer and the engine's monitor have different names for one kernel


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

    STATE = ("ranks", "last", "_folds", "_open", "_announced", "_ended", "_untimed", "_sessions", "awaited", "incidents")

    def __init__(self, counters: Counters, incidents: JitIncidents) -> None:
        self._counters, self.incidents = counters, incidents
        self._folds = Folds()
        self._open: dict[tuple[str, str, str, str], deque[OpenCompile]] = {}
        self._announced: dict[tuple[str, str], tuple[float, Fold]] = {}
        self._ended: dict[tuple[str, str, str, str], tuple[float, Fold]] = {}
        self._untimed: dict[tuple[str, str], deque[Fold]] = {}
        self._sessions: dict[tuple[str, str], float] = {}
        """When a process began to compile, where its end has no line of its own, by process and backend."""
        self.awaited: set[tuple[str, ...]] | None = None
        """Compiles that ran when the process came up and have not ended; None until it comes up."""
        self.ranks = 1
        """Workers of the engine, as far as its settings tell: lines without a process name are told apart by number."""
        self.last: dict[tuple[str, str], Head] = {}

    def restart(self) -> None:
        """A new engine process: nothing of the old one is still compiling."""
        self._open.clear()
        self._announced.clear()
        self._ended.clear()
        self._untimed.clear()
        self._sessions.clear()
        self._folds = Folds()

    def seen(self, phase: str) -> None:
        """Somebody compiles something."""
        self._counters.add("jit_observed_total", "log", phase)

    def compiled(self, event: Compiled, head: Head, phase: str) -> None:
        """A compile told by one line."""
        phase = "serving" if event.serving else phase
        self.seen(phase)
        if not event.kernel and self._in_session(event.backend, head):
            return
        who = f"{head.origin.who} {_MONITOR}" if event.serving else head.origin.who
        key = (event.backend, event.event, event.kernel)
        if event.raised and self._announced_by(event, who, head):
            return  # an exception stands in each traceback that it goes through
        told = self._begun_just_now(event, head) if event.serving else self._ended_just_now((*key, who), head)
        fold = told or self._folds.join(key, who, head.time, self.ranks)
        self._count(key, phase, fold, head)
        if event.seconds is not None:
            self._took(event.backend, fold, event.seconds)
        elif not event.serving and event.kernel:
            self._await_duration(fold, event.backend, head.origin.who)
        if event.serving:
            self._announce(event.backend, event.kernel, head.time or 0.0, fold)

    def _announce(self, backend: str, kernel: str, time: float, fold: Fold) -> None:
        if len(self._announced) >= _OPEN_LIMIT:
            self._announced.clear()
        self._announced[backend, kernel] = time, fold

    def _announced_by(self, event: Compiled, who: str, head: Head) -> bool:
        """Whether this process' monitor told of the kernel just now."""
        time, fold = self._announced.get((event.backend, event.kernel)) or (-math.inf, None)
        return fold is not None and who in fold.seen and 0 <= (head.time or 0.0) - time <= FOLD_SECONDS

    def _announced_just_now(self, event: CompileBegan, now: float) -> Fold | None:
        """The compile that the engine's monitor told of before its library had a word, maybe by another name."""
        mine = event.backend, event.kernel
        recent = {key: fold for key, (time, fold) in self._announced.items() if key[0] == mine[0] and 0 <= now - time <= _TOGETHER_SECONDS}
        if mine not in recent and event.backend in _NAMED_TWICE:
            folds = list(map(id, recent.values()))
            unnamed = next((key for key, fold in recent.items() if folds.count(id(fold)) == 1), None)
            if unnamed:  # from now on it has both names: other ranks come, and other kernels
                self._announce(*mine, self._announced[unnamed][0], recent[unnamed])
                return recent[unnamed]
        return recent.get(mine)

    def _begun_just_now(self, event: Compiled, head: Head) -> Fold | None:
        """The compile of this kernel that some rank began before the engine's monitor had a word."""
        now = head.time or 0.0
        for (backend, kind, kernel, _), waiting in self._open.items():
            same = (backend, kind) == event[:2] and (kernel == event.kernel or backend in _NAMED_TWICE)
            if same and 0 <= now - math.floor(waiting[-1].began) <= _TOGETHER_SECONDS:  # the monitor prints whole seconds
                self._announce(backend, kernel, now, waiting[-1].fold)
                return waiting[-1].fold
        return None

    def _ended_just_now(self, key: tuple[str, str, str, str], head: Head) -> Fold | None:
        """The compile whose end this process has just told, of which this is one more word."""
        time, fold = self._ended.pop(key, (-math.inf, None))
        return fold if 0 <= (head.time or 0.0) - time <= FOLD_SECONDS else None

    def _in_session(self, backend: str, head: Head) -> bool:
        """Whether compiles that are named run and have not told their end: one without a name is part of them."""
        now = head.time or 0.0
        return any(each == backend and folds and 0 <= now - folds[-1].time <= FORGET_SECONDS for (_, each), folds in self._untimed.items())

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
        announced = self._announced_just_now(event, now)
        waiting = self._open.get((*key, who))
        if announced:
            fold, phase = announced, "serving"  # TileLang's monitor fires before the compile
        elif waiting and not who and now - waiting[-1].began <= _TOGETHER_SECONDS:
            fold = waiting[-1].fold  # without a process name a second begin is another rank's
        else:
            fold = self._folds.join(key, who, head.time)
        if waiting or len(self._open) < _OPEN_LIMIT:
            self._open.setdefault((*key, who), deque(maxlen=64)).append(OpenCompile(now, fold, phase))

    def ended(self, event: CompileEnded, head: Head, phase: str) -> None:
        """The second line of a pair; a pair whose first line was lost still counts, with a duration where the line has one."""
        now, who = head.time or 0.0, head.origin.who
        key = (event.backend, event.event, event.kernel)
        begun = self._begun_by((*key, who), now)
        took = event.seconds if event.seconds is not None or begun is None else now - begun.began
        if event.least and (took is None or took < event.least):
            if begun:
                self.cache(CompileCache(event.backend, "hit", event.kernel), head)
            return
        self.seen(phase)
        fold = begun.fold if begun else self._folds.join(key, who, head.time, self.ranks)
        self._count(key, begun.phase if begun else phase, fold, head)
        if took is not None:
            self._took(event.backend, fold, took)
        if len(self._ended) >= _OPEN_LIMIT:
            self._ended.clear()
        self._ended[*key, who] = now, fold

    def _begun_by(self, key: tuple[str, str, str, str], now: float) -> OpenCompile | None:
        """The first of this process' compiles of a kernel that have begun and are not forgotten; it runs no more."""
        waiting = self._open.get(key)
        while waiting and now - waiting[0].began > FORGET_SECONDS:
            waiting.popleft()
        begun = waiting.popleft() if waiting else None
        if not waiting:
            self._open.pop(key, None)
        return begun

    def failed(self, event: CompileFailed, head: Head) -> None:
        """A compile that came to nothing, told once for all ranks."""
        who = head.origin.who
        self._begun_by((event.backend, "compile", event.kernel, who), head.time or 0.0)
        fold = self._folds.join(("failed", *event), who, head.time, self.ranks)
        if not fold.counted:
            fold.counted = True
            self._counters.add("jit_failures_total", event.backend)

    def took(self, event: CompileTook, head: Head) -> None:
        """The duration of a compile that this process told before; a progress bar has no process."""
        who = head.origin.who
        if event.of_a_bar and not self._untimed.get((who, event.backend)):
            who = next((name for (name, backend), folds in self._untimed.items() if backend == event.backend and folds), "")
        self._sessions.pop((who, event.backend), None)
        if waiting := self._untimed.get((who, event.backend)):
            self._took(event.backend, waiting.popleft(), event.seconds)

    def session(self, event: CompileSession, head: Head, phase: str) -> None:
        """A compile that is counted as it begins, since its end may not be told."""
        self.compiled(Compiled(*event), head, phase)
        if len(self._sessions) < _OPEN_LIMIT:
            self._sessions[head.origin.who, event.backend] = head.time or 0.0

    def goes_on(self, head: Head) -> None:
        """A process does something else: what it compiled is ready."""
        if self._sessions:
            self._sessions = {key: began for key, began in self._sessions.items() if key[0] != head.origin.who}

    def cache(self, event: CompileCache, head: Head) -> None:
        """A cache's answer, told once for all ranks."""
        fold = self._folds.join(("cache", *event), head.origin.who, head.time, self.ranks)
        if not fold.counted:
            fold.counted = True
            self._counters.add("compile_cache_total", event.backend, event.result)

    def open(self, now: float | None) -> list[Compiling]:
        """What compiles at this moment; `now` is by the log's clock."""
        compiling = [
            Compiling(backend, f"{event} {kernel}", waiting[0].began)
            for (backend, event, kernel, _), waiting in self._open.items()
            if any(now is None or now - begun.began <= FORGET_SECONDS for begun in waiting)
        ]
        return compiling + [
            Compiling(backend, f"of {who}", began)
            for (who, backend), began in self._sessions.items()
            if now is None or now - began <= FORGET_SECONDS
        ]

    def follow(self, now: float | None, *, up: bool) -> None:
        """Look between two lines, of which the later is of `now`, for the first moment at which an engine is ready.

        Their order decides: many have no time of their own, or that of the ready line.
        """
        if not up:
            self.awaited = None
        elif self.awaited is None:
            self.awaited = self._running(now)
        elif self.awaited:
            self.awaited &= self._running(now)

    def warms_up(self, now: float | None) -> bool:
        """Whether something compiles that the process began before it came up; what it begins later is no warm-up."""
        return bool(self.awaited and self.awaited & self._running(now))

    def _running(self, now: float | None) -> set[tuple[str, ...]]:
        """What compiles, each by its process as well."""
        kernels = {key for key, waiting in self._open.items() if any(now is None or now - each.began <= FORGET_SECONDS for each in waiting)}
        return kernels | {key for key, began in self._sessions.items() if now is None or now - began <= FORGET_SECONDS}

    def samples(self, now: float | None) -> Iterator[Sample]:
        """How many kernels of each backend compile; the ranks of one are one."""
        running = {(each.backend, each.kernel) for each in self.open(now)}
        for backend in sorted({*(key[0] for key in self.last), *(key[0] for key in self._open), *(key[1] for key in self._sessions)}):
            yield Sample("jit_in_progress", (backend,), sum(backend == each for each, _ in running))

    def _count(self, key: tuple[str, str, str], phase: str, fold: Fold, head: Head) -> None:
        if not fold.counted:
            backend, event, kernel = key
            fold.counted, fold.phase = True, phase
            self._counters.add("jit_events_total", backend, event, phase)
            self.last[backend, phase] = head
            self.incidents.compiled(backend, event, kernel, phase, head)
            if backend == "inductor" and event == "compile":
                self._counters.add("compile_cache_total", backend, "miss")

    def _took(self, backend: str, fold: Fold, seconds: float) -> None:
        if seconds > fold.seconds:
            self._counters.add("jit_seconds_total", backend, fold.phase, by=seconds - fold.seconds)
            fold.seconds = seconds
