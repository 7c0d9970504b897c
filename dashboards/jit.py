"""Where does the time of a start go, and who compiles while users wait."""

from dashboards.frame import Board
from dashboards.palette import PHASES
from dashboards.panels import HEIGHT, bar, flags, graph, happened, number, states
from dashboards.queries import at_work, events

_READY = "max by (@engine) (inferlog_engine_ready_timestamp_seconds) - max by (@engine) (inferlog_engine_start_timestamp_seconds)"
_IN_PHASE = "time() - max by (@engine) (inferlog_engine_phase_start_timestamp_seconds)"

BOARD = Board(
    "inferlog-jit",
    "inferlog / JIT and startup",
    "Where does the time of a start go, and who compiles while users wait?",
    [
        (
            "",
            [
                states(
                    "Phase of the start",
                    "What a starting engine does now",
                    "engine_startup_phase",
                    "phase",
                    PHASES,
                    nothing="No engine is starting",
                ),
                flags(
                    "Readiness",
                    "Whether the engine accepts requests",
                    ("max by (@engine) (inferlog_engine_ready)", "@engine"),
                    on=("ready", "green"),
                    off=("not ready", "orange"),
                    nothing="No engine is known yet",
                ),
                bar(
                    "Phases of the last start",
                    "Seconds that each phase took",
                    ('max by (@engine, phase) (inferlog_startup_seconds{phase!="total"})', "@engine {{phase}}"),
                    unit="s",
                    nothing="No start seen",
                ),
                graph(
                    "Duration of each start",
                    "From the start line to ready, a step at each new process, and how long a start has been in its present phase",
                    ('max by (@engine) (inferlog_startup_seconds{phase="total"})', "@engine by the log"),
                    (_READY, "@engine start to ready"),
                    (_IN_PHASE, "@engine in its phase"),
                    unit="s",
                    width=12,
                    warn=900,
                    nothing="No start seen",
                ),
                happened(
                    "Restarts",
                    "Engine processes that began behind another; the first that inferlog saw is none",
                    (events("inferlog_engine_starts_total"), "@engine"),
                    nothing="No restart in this range",
                    bad=False,
                ),
                flags(
                    "Ready by its own line",
                    "Whether the engine's own line told that it is ready, or only its traffic did",
                    ("max by (@engine) (inferlog_engine_ready_observed)", "@engine"),
                    on=("own line", "green"),
                    off=("traffic", "blue"),
                    width=8,
                    nothing="No engine is ready",
                ),
                flags(
                    "Warm-up grace",
                    "Whether users may still be warming the engine up; compiles then are no incident of service",
                    ("max by (@engine) (inferlog_engine_in_warmup_grace)", "@engine"),
                    on=("grace", "blue"),
                    off=("service", "green"),
                    width=8,
                    nothing="No engine is ready",
                ),
            ],
        ),
        (
            "Compiles",
            [
                happened(
                    "Compiles by backend and phase",
                    "Distinct compiles, autotunes, recompiles and captures",
                    (events("inferlog_jit_events_total", "@engine, backend, event, phase"), "@engine {{backend}} {{event}} {{phase}}"),
                    width=12,
                    nothing="No compile",
                    bad=False,
                ),
                happened(
                    "Incidents",
                    "Bursts of compiles while the engine served; those of service hit users",
                    (events("inferlog_jit_incidents_total", "@engine, period"), "@engine {{period}}"),
                    width=6,
                    nothing="None",
                ),
                number(
                    "Last incident",
                    "Time since the last compile of such a burst",
                    ("time() - max by (@engine, period) (inferlog_jit_incident_timestamp_seconds)", "@engine {{period}}"),
                    unit="s",
                    height=HEIGHT,
                    width=6,
                    nothing="Never",
                ),
                flags(
                    "Compiles in progress",
                    "Backends with compiles that began and did not end",
                    ("clamp_max(max by (@engine, backend) (inferlog_jit_in_progress), 1)", "@engine {{backend}}"),
                    on=("compiles", "orange"),
                    width=8,
                    nothing="No backend tells when a compile begins",
                ),
                graph(
                    "Time in compilers",
                    "Seconds of compiling in each second, where durations are measured",
                    (at_work("inferlog_jit_seconds_total", "@engine, backend, phase"), "@engine {{backend}} {{phase}}"),
                    unit="short",
                    axis="compilers at once",
                    nothing="No measured compile",
                ),
                number(
                    "Last compile",
                    "Time since each backend last compiled",
                    (
                        "time() - max by (@engine, backend, phase) (inferlog_jit_last_event_timestamp_seconds)",
                        "@engine {{backend}} {{phase}}",
                    ),
                    unit="s",
                    height=HEIGHT,
                    width=8,
                    nothing="Never",
                ),
                happened(
                    "Sightings by witness",
                    "What the log, the caches and the list of processes saw, before folding",
                    (events("inferlog_jit_observed_total", "@engine, seen_by, phase"), "@engine {{seen_by}} {{phase}}"),
                    nothing="Nothing seen",
                    bad=False,
                ),
                happened(
                    "Failed compiles",
                    "Compiles that failed and caches that are broken",
                    (events("inferlog_jit_failures_total", "@engine, backend"), "@engine {{backend}}"),
                    nothing="No failure",
                ),
                happened(
                    "Compile caches",
                    "Graphs and kernels that came from a cache or not; misses on a warm cache mean that its key changed",
                    (events("inferlog_compile_cache_total", "@engine, backend, result"), "@engine {{backend}} {{result}}"),
                    nothing="No library tells",
                    bad=False,
                ),
            ],
        ),
    ],
)
