"""Signals that a known version should print and that stay away though others tell that they were due, or whose lines no rule reads."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.counters import Sample
from exporter.known_bad import Version
from parsers import events
from parsers.events import Unread
from parsers.header import Head

_PERIODIC = frozenset({"stats", "spec_decode", "kv_transfer", "batches"})
_SURE = 3
"""Lines of these that could not be read within the window, while others could: single ones are torn."""
_WINDOW_SECONDS = 900.0
_FORGOTTEN_SECONDS = 86400.0
_SERVED_SECONDS = 60.0
"""How long an engine must have served before a periodic line is missed: it prints one in ten seconds."""
_ENOUGH_ANSWERS = 20
_ALWAYS_ENDED = ("load_weights", "jit_warmup", "graph_capture")
_ANSWERS, _WORD_OF_READY, _WORD_OF_DEATH = "answers", "word of ready", "word of death"
CACHED, RATE = "lines without cached tokens", "lines without a rate"
_POOLS, _POOL_BYTES, _SESSION, _BAR = "pools", "pool bytes", "DeepGEMM session", "DeepGEMM bar"
_ALWAYS_DRAFT = frozenset({"dspark", "mtp", "eagle", "eagle3", "medusa", "draft_model", "dflash"})
"""Methods that draft in each step; others, as n-gram, may never find a draft."""


@dataclass
class Seen:
    """What is known of a process: the families that it has now with their largest values, and what no family tells."""

    runtime: str
    version: Version | None
    started: bool
    observed: bool
    """Whether the engine's own line told that it is ready, though it may have ended since."""
    core: bool
    """Whether the line was seen with which vLLM's engine core starts, and its configuration in it."""
    role: str
    connector: str
    method: str
    answers: float
    """Requests that were answered since it was ready."""
    served: float
    """Seconds since it was ready, by the log's clock."""
    heard: Mapping[str, float]
    """Companions of signals, as `FormatDrift` counts them."""
    families: dict[str, float] = field(default_factory=dict)

    def take(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Pass samples on and remember what they are of."""
        families = self.families
        for sample in samples:
            if key := _BY_LABEL.get((sample.family, sample.labels[-1] if sample.labels else "")):
                families[key] = sample.value
            if sample.family == "engine_memory_bytes":
                families[f"memory {sample.labels[1]}"] = sample.value
            if sample.family == "startup_seconds" and sample.labels != ("total",):
                families[_PHASES] = families[f"phase {sample.labels[0]}"] = sample.value
            families[sample.family] = max(sample.value, families.get(sample.family, sample.value))
            yield sample

    def has(self, *names: str) -> bool:
        """Whether there is a sample of each family."""
        return all(name in self.families for name in names)

    def value(self, name: str) -> float:
        """The largest value of a family, 0 without one."""
        return self.families.get(name, 0.0)

    @property
    def pulls(self) -> bool:
        """Whether it is an engine that reads KV through NIXL."""
        return self.connector == "nixl" and self.role != "prefill"

    @property
    def ready(self) -> bool:
        """Whether the engine was seen from its start to its own ready line, or to the end of its core's initialisation where a server tells nothing."""
        return self.started and (self.observed or _ended("init_engine") in self.heard)

    @property
    def unended(self) -> bool:
        """Whether a phase began that all releases end with a line, and none of its ends was told."""
        return any(self.heard.get(_began(phase)) and not self.heard.get(_ended(phase)) for phase in _ALWAYS_ENDED)

    @property
    def works(self) -> bool:
        """Whether it has served for long enough that periodic lines are due, and prints them."""
        return self.served >= _SERVED_SECONDS and not self.has(_NO_STATS) and not self.has(_NO_INFO)


@dataclass(frozen=True)
class Expectation:
    """A signal that a runtime prints from a version on, and what tells that it was due and did not come."""

    runtime: str
    signal: str
    missing: Callable[[Seen], bool]
    told: Callable[[Seen], bool]
    since: Version = (0, 0)


def _never(seen: Seen) -> bool:
    return False


def _began(phase: str) -> str:
    return f"{phase} begins"


def _ended(phase: str) -> str:
    return f"{phase} ends"


_HITS, _NO_STATS, _NO_INFO = "external hits", "no stats", "no info"
_BY_LABEL = {
    ("prefix_cache_hit_ratio", "external"): _HITS,
    ("config_hazard_active", "stats_disabled"): _NO_STATS,
    ("config_hazard_active", "log_level_too_high"): _NO_INFO,
}
"""Samples that tell something by their last label."""
_PHASES, _SIZE, _CONCURRENCY, _BYTES = "phases", "kv_cache_size_tokens", "kv_cache_max_concurrency", "kv_cache_size_bytes"
_USAGE = "kv_cache_usage_ratio"
_STATS, _SPEC, _TRANSFERS = "stats_timestamp_seconds", "spec_acceptance_length", "kv_transfer_duration_seconds"
_RANKS, _RATE = "kv_compatible_ranks", "spec_acceptance_ratio"


EXPECTED = (
    # vLLM: what one line tells is missed where others show that it was due.
    Expectation(
        "vllm", "version",
        lambda seen: seen.has(_PHASES) and ((seen.observed and seen.version is None) or (seen.ready and not seen.core)),
        lambda seen: seen.version is not None and seen.core,
    ),
    Expectation(
        "vllm", "startup_phases",
        lambda seen: seen.ready and seen.has(_SIZE) and (
            not seen.has("phase load_weights", "phase init_engine")
            or (seen.has("engine_memory_bytes") and not seen.has("memory weights"))
            or (seen.value("memory cuda_graph") > 0 and not seen.has("phase graph_capture"))
        ),
        _never, (0, 8),
    ),
    Expectation(
        "vllm", "kv_size",
        lambda seen: seen.ready and seen.has(_PHASES) and not seen.has(_SIZE) and (seen.has(_BYTES) or seen.value(_USAGE) > 0),
        lambda seen: seen.has(_SIZE), (0, 8),
    ),
    Expectation("vllm", "max_concurrency", lambda seen: seen.ready and seen.has(_SIZE) and not seen.has(_CONCURRENCY), lambda seen: seen.has(_CONCURRENCY), (0, 8)),
    Expectation("vllm", "kv_bytes", lambda seen: seen.ready and seen.has(_SIZE) and not seen.has(_BYTES), lambda seen: seen.has(_BYTES), (0, 9)),
    Expectation(
        "vllm", "stats",
        lambda seen: (seen.works and not seen.has(_STATS) and (seen.answers >= _ENOUGH_ANSWERS or seen.has(_SPEC) or seen.has(_TRANSFERS)))
        or (seen.has("requests_running") and not seen.has(_USAGE)),
        lambda seen: seen.has(_STATS),
    ),
    Expectation(
        "vllm", "spec_decode",
        lambda seen: seen.works and seen.method in _ALWAYS_DRAFT and (seen.role in ("decode", "none") or not seen.connector) and seen.value("generation_tokens_per_second") > 0 and not seen.has(_SPEC),
        lambda seen: seen.has(_SPEC), (0, 8),
    ),
    Expectation(
        "vllm", "kv_transfer",
        lambda seen: seen.works and seen.pulls and seen.has(_RANKS) and seen.value(_HITS) > 0 and not seen.has(_TRANSFERS) and not seen.value("kv_transfer_failures_total"),
        lambda seen: seen.has(_TRANSFERS), (0, 11),
    ),
    Expectation(
        "vllm", "compatibility",
        lambda seen: seen.ready and seen.pulls and seen.has(_TRANSFERS) and not seen.has(_RANKS),
        lambda seen: seen.has(_RANKS), (0, 13),
    ),
    # Nothing tells when these were due: only a line that looks like theirs shows a new wording, or a warning that nobody knows.
    Expectation("vllm", "jit_monitor", _never, _never, (0, 21)),
    Expectation("vllm", "graph_compile", _never, _never),
    Expectation("vllm", "hang", _never, _never, (0, 11)),
    Expectation("vllm", "kv_expired", _never, _never, (0, 10)),
    Expectation("vllm", "recompute_or_fail", _never, _never, (0, 12)),
    Expectation("sglang", "version", lambda seen: seen.observed and seen.has(_BYTES) and not seen.started, lambda seen: seen.started),
    Expectation(
        "sglang", "ready",
        lambda seen: seen.started and not seen.observed and (_WORD_OF_READY in seen.heard or (seen.has(_STATS) and seen.heard.get(_ANSWERS, 0.0) >= _ENOUGH_ANSWERS)),
        lambda seen: seen.observed,
    ),
    Expectation(
        "sglang", "startup_phases",
        lambda seen: ((seen.observed or seen.has(_CONCURRENCY) or seen.has(_STATS)) and seen.unended)
        or (seen.ready and seen.has(_BYTES) and not seen.has("phase load_weights", "phase distributed_init", "memory weights")),
        _never,
    ),
    Expectation(
        "sglang", "kv_size",
        lambda seen: seen.ready and ((seen.has(_CONCURRENCY) and not seen.has(_BYTES)) or (_POOL_BYTES in seen.heard and _POOLS not in seen.heard)),
        _never,
    ),
    Expectation("sglang", "ceilings", lambda seen: seen.ready and seen.has(_BYTES) and not seen.has(_CONCURRENCY), lambda seen: seen.has(_CONCURRENCY)),
    Expectation(
        "sglang", "batches",
        lambda seen: (seen.works and seen.answers >= _ENOUGH_ANSWERS and not seen.has(_STATS))
        or (seen.has(_USAGE) and not seen.has("requests_running"))
        or CACHED in seen.heard or (RATE in seen.heard and not seen.has("generation_tokens_per_second")),
        lambda seen: seen.has(_STATS),
    ),
    Expectation("sglang", "pd_failures", _never, _never),
    Expectation(
        "sglang", "spec_decode",
        lambda seen: bool(seen.method) and seen.has("generation_tokens_per_second") and not seen.has(_SPEC, *[_RATE] * (seen.method == "dspark")),
        lambda seen: seen.has(_SPEC),
    ),
    Expectation("sglang", "deepgemm", lambda seen: seen.started and _BAR in seen.heard and _SESSION not in seen.heard, _never),
    Expectation("sglang", "watchdog", _never, _never),
    Expectation("sglang", "engine_death", lambda seen: _WORD_OF_DEATH in seen.heard and "engine_dead" not in seen.heard, _never),
    Expectation("sglang", "kv_exhausted", _never, _never),
)  # fmt: skip


_DYING = frozenset({"scheduler_exception", "worker_died"})
"""Failures of a child, behind which the main process says that it ends the engine."""

_HEARD: dict[type[Any], Callable[[Any], Mapping[str, int]]] = {
    events.PhaseBegan: lambda event: {_began(event.phase): 1},
    events.PhaseFinished: lambda event: {_ended(event.phase): 1},
    events.KvPools: lambda event: {_POOLS: 1},
    events.KvCacheBytes: lambda event: {_POOL_BYTES: 1},
    events.CompileSession: lambda event: {_SESSION: 1} if event.backend == "deepgemm" else {},
    events.CompileTook: lambda event: {_BAR: 1} if event.backend == "deepgemm" else {},
    events.EngineFailure: lambda event: {event.kind: 1},
    events.EngineReady: lambda event: {"ready": 1},
    events.HttpResponses: lambda event: {_ANSWERS: event.generated} if event.generated else {},
}
"""What events say that imply others."""


class FormatDrift:
    """Lines of one engine process that look like a signal's and could not be read, and the companions of signals."""

    STATE = ("unread", "heard")

    def __init__(self) -> None:
        self.unread: dict[str, deque[float]] = {}
        """By signal, the times of the last few."""
        self.heard: Counter[str] = Counter()

    def hear(self, event: events.Event) -> None:
        """What may imply another line."""
        for what, count in _HEARD[type(event)](event).items():  # a Counter's update costs more than all else about an answer
            self.heard[what] += count

    def lacks(self, what: str) -> None:
        """A whole line came without a field that all releases print."""
        self.heard[what] += 1

    def note(self, event: Unread, head: Head) -> None:
        """Such a line. One without a signal is what was due next of the main process, if anything was."""
        if not event.signal:
            if self.heard.keys() & _DYING and "engine_dead" not in self.heard:
                self.heard[_WORD_OF_DEATH] += 1
            elif _ANSWERS in self.heard and "ready" not in self.heard:
                self.heard[_WORD_OF_READY] += 1
            return
        self.unread.setdefault(event.signal, deque(maxlen=_SURE)).append(head.time or 0.0)

    def samples(self, seen: Seen, log_now: float | None) -> Iterator[Sample]:
        """For each signal that this version has, whether it drifted."""
        for each in EXPECTED:
            if each.runtime == seen.runtime and (seen.version is None or seen.version >= each.since or each.signal in self.unread):
                drifted = each.missing(seen) or self._unreadable(each, seen, log_now)
                yield Sample("format_drift", (each.signal,), drifted)

    def _unreadable(self, expected: Expectation, seen: Seen, log_now: float | None) -> bool:
        times = self.unread.get(expected.signal)
        if not times:
            return False
        if expected.signal in _PERIODIC:
            if not expected.told(seen):
                return True
            if len(times) < _SURE or times[-1] - times[0] > _WINDOW_SECONDS:
                return False
        return log_now is None or log_now - times[-1] <= _FORGOTTEN_SECONDS


def hearing(
    drift: Callable[[], FormatDrift], handlers: Mapping[type[object], Callable[..., None]]
) -> dict[type[object], Callable[..., None]]:
    """The handlers, of which those of companions let `drift` hear."""

    def listening(handle: Callable[..., None]) -> Callable[..., None]:
        def hear_and_handle(event: events.Event, head: Head) -> None:
            drift().hear(event)
            handle(event, head)

        return hear_and_handle

    return {kind: listening(handle) if kind in _HEARD else handle for kind, handle in handlers.items()}
