"""The life of an engine process: starting, serving, stopped or failed; its start-up phases and its incidents."""

from collections.abc import Iterator

from exporter.counters import FOLD_SECONDS, Counters, Digest, Folds, Sample
from exporter.format_drift import FormatDrift
from exporter.history import History, moment_of
from exporter.startup import PHASES, UNTOLD, StartupPhase
from parsers.events import EngineFailure, EngineStarted, Hazard, PhaseFinished, StartupTimings
from parsers.header import Head

STATES = ("unknown", "starting", "serving", "worker", "stalled", "stopped", "failed")
INCIDENT_SECONDS = 60.0
"""Failures of one kind within this time are one incident."""

KNOWN_BAD = "known_bad_combination"

_ENDING = frozenset({"startup_failed", "engine_dead", "worker_died", "scheduler_exception"})
_PART_OF_FAILED_START = frozenset({"engine_dead", "worker_died"})
_PART_OF_SHUTDOWN = _PART_OF_FAILED_START | {"rpc_timeout", "collective_timeout"}  # calls to workers that are gone already
_STALLS = frozenset({"watchdog_timeout", "rpc_timeout"})
# What a phase is called when the better line is missing.
_FALLBACKS = {"load_weights": "read_weights", "compile": "torch_compile"}
_ROUNDS_LIMIT = 16  # target and draft model; a log that says more is no engine's


class LifeCycle:
    """One engine's processes, one after the other, in one log."""

    STATE = (
        "state",
        "started",
        "ready",
        "ready_observed",
        "startup",
        "history",
        "hazards",
        "_engine_core_seen",
        "_start_lines",
        "_phases",
        "_incidents",
        "_hazard_folds",
        "_combinations",
        "_summary",
        "warmup_failed",
        "drift",
    )

    def __init__(self, counters: Counters, digest: Digest) -> None:
        self._counters, self._digest = counters, digest
        self.state = "unknown"
        self.started: Head | None = None
        self.ready: Head | None = None
        self.ready_observed = False
        """Whether the engine itself said that it is ready; traffic tells of it, too, but not since when."""
        self.startup = StartupPhase()
        self.history = History()
        self.hazards: set[str] = set()
        self.drift = FormatDrift()
        self._engine_core_seen = False
        self._start_lines: set[tuple[str, str]] = set()
        self._phases: dict[str, dict[str, list[float]]] = {}
        self._incidents: dict[str, float] = {}
        self._hazard_folds = Folds()
        self._combinations: set[str] = set()
        self._summary: dict[str, float] = {}
        self.warmup_failed = False
        """Whether the engine's ready line must not be believed; the first answer tells that it is ready all the same."""

    @property
    def phase(self) -> str:
        """The phase that a compile without further word belongs to."""
        if self.ready or self.state == "serving":
            return "serving"
        return "startup" if self.started else "unknown"

    @property
    def core_started(self) -> bool:
        """Whether the engine core's own start line was among those of this start."""
        return any(line == "engine_core" for line, _ in self._start_lines)

    @property
    def is_up(self) -> bool:
        """Whether the engine became ready and has not ended since."""
        return self.ready is not None and self.state in ("serving", "stalled")

    def begin(self, event: EngineStarted, head: Head) -> bool:
        """Take a start line; whether what is known of an earlier process must be forgotten.

        Lines of other processes within one start belong to it, and so does what was said before the log's first start line.
        """
        line = (event.line, head.origin.process)
        if event.complete and line in self._start_lines and self._just_began(head):
            return False  # SGLang within another program prints its arguments twice
        # Any further engine core may belong to the start before (data parallel); an API server or a first start line may not.
        known = not self._start_lines or event.line == "api_server"
        replaces = line in self._start_lines or (known and self.state in ("serving", "stalled", "stopped", "failed"))
        if replaces:
            self._forget()
        if not self._start_lines:
            self.state, self.started, self.ready, self.ready_observed = "starting", head, None, False
            self.startup.start(head)
            self._counters.add("engine_starts_total")
        if event.line == "headless":
            self.state = "worker"
        self._start_lines.add(line)
        self._engine_core_seen = self._engine_core_seen or event.line == "engine_core"
        return replaces

    def container_started(self) -> bool:
        """Another container takes the place of the one before; whether anything is known of that. Its lines tell what it runs."""
        known = self.state != "unknown" or bool(self._start_lines)
        self._forget()
        self.state, self.started, self.ready, self.ready_observed = "unknown", None, None, False
        self.startup.start(None)
        return known

    def _forget(self) -> None:
        self._start_lines.clear()
        self._phases.clear()
        self._incidents.clear()
        self.hazards.clear()
        self._combinations.clear()
        self._summary.clear()
        self._engine_core_seen = self.warmup_failed = False
        self.drift = FormatDrift()

    def is_ready(self, head: Head, *, observed: bool = True) -> None:
        """The HTTP server accepts requests. After an end this is another process, whose start lines are not in the log.

        `observed` when a line says so; of a headless node, whose helpers may serve HTTP as well, none does.
        """
        if self.state == "worker":
            return
        if self.state in ("stopped", "failed"):
            self.started, self.ready, self.ready_observed = None, None, False
            self._incidents.clear()
        self.state = "serving"
        if not self.ready or (observed and not self.ready_observed):
            self.ready, self.ready_observed = head, observed

    def traffic(self, head: Head, *, tokens: bool, before: Head | None = None) -> None:
        """Requests were answered, or tokens were generated. Where the ready line is missing, this tells of readiness.

        `before` is the engine's periodic line before the one that tells of tokens. Answers do not bring an engine back that
        stopped or failed, as others may give them in its place.
        """
        if self.state in ("unknown", "starting") or (tokens and self.state == "failed" and self._failed_before(before)):
            self.is_ready(head, observed=False)
        elif tokens and self.state == "stalled":
            self.state = "serving"

    def _failed_before(self, line: Head | None) -> bool:
        """Whether the failure was before a line: tokens since then are of another process, whose start lines were lost."""
        return line is not None and line.time is not None and line.time > max(self._incidents.values(), default=0.0)

    def stall(self) -> None:
        """A second witness, as the engine's own metrics are, says that an engine which should work does not."""
        if self.state == "serving":
            self.state = "stalled"

    def stop(self) -> None:
        """An orderly shutdown."""
        if self.state != "failed":
            self.state = "stopped"

    def fail(self, event: EngineFailure, head: Head) -> None:
        """A record that tells of a failure; the first of its kind within a minute is an incident."""
        kind = event.kind
        if kind == "hang":
            if not self.ready or self.state in ("stalled", "stopped", "failed"):
                return
            self.state = "stalled"
        elif kind in _PART_OF_SHUTDOWN and self.state == "stopped":
            return
        elif kind in _PART_OF_FAILED_START and (self.state == "starting" or self._start_failed(head) or self._never_ready):
            kind = "startup_failed"
        self.history.failed(kind, moment_of(head))
        now = head.time or 0.0
        before = self._incidents.get(kind)
        self._incidents[kind] = now
        if kind in _ENDING:
            self.state = "failed"
        elif kind in _STALLS:
            self.stall()
        if before is None or abs(now - before) > INCIDENT_SECONDS:
            self._counters.add("engine_failures_total", kind)

    def _just_began(self, head: Head) -> bool:
        began = self.started.time if self.started and self.state == "starting" and not self._phases else None
        return began is not None and head.time is not None and 0 <= head.time - began <= FOLD_SECONDS

    @property
    def _never_ready(self) -> bool:
        return self.state == "failed" and self.started is not None and self.ready is None

    def _start_failed(self, head: Head) -> bool:
        at = self._incidents.get("startup_failed")
        return at is not None and abs((head.time or 0.0) - at) <= INCIDENT_SECONDS

    def uncaught(self, head: Head) -> None:
        """A traceback that no logger printed ends an API server that has no engine yet."""
        if self.state == "starting" and not self._engine_core_seen:
            self.fail(EngineFailure("startup_failed"), head)

    def hazard(self, event: Hazard, head: Head) -> None:
        """A setting that hurts, told once for all processes."""
        fold = self._hazard_folds.join((event.kind, self._digest.of(event.detail)), head.origin.who, head.time)
        if not fold.counted:
            fold.counted = True
            self._counters.add("config_hazards_total", event.kind)
        self.hazards.add(event.kind)

    def combination(self, name: str) -> None:
        """A known-bad combination holds, told once a process."""
        if name not in self._combinations:
            self._combinations.add(name)
            self.hazards.add(KNOWN_BAD)
            self._counters.add("config_hazards_total", KNOWN_BAD)

    def finished(self, event: PhaseFinished, head: Head, *, alone: bool = False) -> None:
        """A phase of one rank ended; `alone` when there is no other."""
        self._engine_core_seen = True
        self.startup.end(event.phase, head)
        if event.seconds is not None:
            self._took(event.phase, head.origin.who, event.seconds, alone=alone)
        if event.compile_seconds is not None:
            self._took("compile", head.origin.who, event.compile_seconds, alone=alone)

    def summary(self, event: StartupTimings) -> None:
        """All phases once more."""
        self._summary.update(event.phases)

    def _took(self, phase: str, who: str, seconds: float, *, alone: bool) -> None:
        mine = self._phases.setdefault(phase, {}).setdefault(who, [])
        if who or alone or not mine:
            if len(mine) < _ROUNDS_LIMIT:
                mine.append(seconds)
        else:
            mine[0] = max(mine[0], seconds)  # without a process name the ranks cannot be told from the models

    def phase_seconds(self) -> dict[str, float]:
        """Of each phase the slowest rank's seconds, summed over target and draft model."""
        seconds: dict[str, float] = {}
        for phase in PHASES:
            ranks = self._phases.get(phase) or self._phases.get(_FALLBACKS.get(phase, ""))
            if ranks:
                rounds = max(map(len, ranks.values()))
                seconds[phase] = sum(max(mine[k] for mine in ranks.values() if len(mine) > k) for k in range(rounds))
            elif phase in self._summary:
                seconds[phase] = self._summary[phase]
        if self.started and self.ready and self.started.time is not None and self.ready.time is not None:
            seconds["total"] = self.ready.time - self.started.time
        return seconds

    def samples(self) -> Iterator[Sample]:
        """State, readiness, phases, hazards."""
        for state in STATES:
            yield Sample("engine_state", (state,), state == self.state)
        for phase in (*PHASES, UNTOLD) if self.state == "starting" else ():
            yield Sample("engine_startup_phase", (phase,), phase == self.startup.name)
        yield Sample("engine_ready", (), self.is_up)
        if self.is_up:
            yield Sample("engine_ready_observed", (), self.ready_observed)
        for phase, seconds in self.phase_seconds().items():
            yield Sample("startup_seconds", (phase,), seconds)
        for kind in sorted(self.hazards):
            yield Sample("config_hazard_active", (kind,), 1)
