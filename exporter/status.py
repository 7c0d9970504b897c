"""What is known of each engine at one moment, as plain data: for people, probes and benchmarks. No word of a user is in it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from exporter.counters import Sample
from exporter.engine import Engine
from exporter.families import FAMILIES
from exporter.gateway import GATEWAYS
from exporter.source import NamedEngine, Source
from parsers.header import Head

Facts: TypeAlias = dict[str, Any]
Engines: TypeAlias = list[Facts]
View: TypeAlias = Callable[[Source, float], Engines]
"""Of the engines of a source at a time (epoch)."""

GATEWAY = "gateway"
"""In the place of a state: it is no engine."""

_LIMITS = ("max_model_len_tokens", "max_batched_tokens", "max_running_requests")


class _Now(NamedTuple):
    """An engine with the moment at which it is looked at, by our clock and by that of its log."""

    source: Source
    named: NamedEngine
    epoch: float
    log: float | None

    @property
    def engine(self) -> Engine:
        return self.named.engine

    def at(self, head: Head | None) -> float | None:
        """When a line was printed (epoch)."""
        return None if head is None else self.source.clock.epoch(head)

    def since(self, head: Head | None) -> float | None:
        """Seconds since a line, by the clock of the log."""
        if head is None or head.time is None or self.log is None:
            return None
        return max(0.0, self.log - head.time)


def _each(source: Source, now: float) -> list[_Now]:
    return [_Now(source, named, now, source.log_time(now)) for named in source.named_engines()]


def _engines(source: Source, now: float) -> list[_Now]:
    """Without gateways, which neither start nor become ready."""
    return [each for each in _each(source, now) if each.named.runtime not in GATEWAYS]


def _named(now: _Now) -> Facts:
    state = GATEWAY if now.named.runtime in GATEWAYS else now.engine.life.state
    return {"source": now.named.name, "runtime": now.named.runtime, "state": state, "reading_history": False}


def unread(source: Source) -> Facts:
    """A source of whose history a part is not read yet: what that says may be long over."""
    return {"source": source.name, "runtime": source.runtime, "state": "unknown", "reading_history": True}


# -- the views, each a list with one entry an engine -------------------------------------------------------------------


def startup(source: Source, now: float) -> Engines:
    """The phase of a start, how long it has lasted, and what the phases before took."""
    return [_named(each) | _startup(each) for each in _engines(source, now)]


def readiness(source: Source, now: float) -> Engines:
    """Whether an engine became ready, how that is known, and whether it compiles at this moment."""
    return [_named(each) | _readiness(each) for each in _engines(source, now)]


def status(source: Source, now: float) -> Engines:
    """All there is to say of an engine on one page."""
    return [_named(each) | _status(each) for each in _each(source, now)]


def page(source: Source, now: float) -> Engines:
    """Status and recent events of one moment."""
    return [_named(each) | _status(each) | _recent(each) for each in _each(source, now)]


def recent(source: Source, now: float) -> Engines:
    """The last events of an engine, and the kernels that compiled while it served."""
    return [_named(each) | _recent(each) for each in _each(source, now)]


# -- their parts -------------------------------------------------------------------------------------------------------


def _startup(now: _Now) -> Facts:
    life = now.engine.life
    starting = life.state == "starting"
    failed = life.state == "failed" and life.started is not None and life.ready is None
    seconds = life.phase_seconds()
    return {
        "phase": life.startup.name if starting else None,
        "phase_elapsed_seconds": now.since(life.startup.since) if starting else None,
        "elapsed_seconds": now.since(life.started) if starting else None,
        "failed_in_phase": life.startup.name if failed else None,
        "started_at": now.at(life.started),
        "ready_at": now.at(life.ready),
        "phase_seconds": {phase: took for phase, took in seconds.items() if phase != "total"},
        "total_seconds": seconds.get("total"),
    }


def _readiness(now: _Now) -> Facts:
    life, jit = now.engine.life, now.engine.jit
    return {
        # Latched: what begins to compile later changes nothing, what compiles since before the ready line must end first.
        "ready": life.is_up and not jit.warms_up(now.log),
        "known_by": ("ready line" if life.ready_observed else "traffic") if life.is_up else None,
        "ready_at": now.at(life.ready) if life.is_up else None,
        "compiling": sorted({each.backend for each in jit.open(now.log)}),
    }


def _gateway(now: _Now) -> Facts:
    engine = now.engine
    totals = {family: _counted(values) for family, values in engine.counters.totals.items() if family.startswith("gateway_")}
    return {"checks": engine.gateway.checks(now.log, mixed=engine.pair.expect == "mixed"), **totals}


def _status(now: _Now) -> Facts:
    if now.named.runtime in GATEWAYS:
        return _gateway(now)
    engine = now.engine
    values = engine.settings.values
    load = _values(engine.gauges.samples(now.epoch))
    totals = engine.counters.totals
    return {
        "version": values.get("version") or None,
        "model": values.get("model") or values.get("model_path") or None,
        "settings_hash": engine.settings.digest() if values else None,
        "startup": _startup(now),
        "readiness": _readiness(now) | _warmup(now),
        "quiescent": _quiescence(now, load),
        "pd": _pd(now),
        "hazards": sorted(engine.life.hazards),
        "failures": _counted(totals.get("engine_failures_total", {})),
        "starts": sum(totals.get("engine_starts_total", {}).values()),
        "jit": _jit(now),
        "capacity": _capacity(engine),
        "load": load,
        "changed_since_previous_start": engine.life.history.changes(engine.portrait()),
        "previous_process": _previous(engine),
    }


def _warmup(now: _Now) -> Facts:
    grace = [bool(sample.value) for sample in now.engine.jit.incidents.samples(now.log) if sample.family == "engine_in_warmup_grace"]
    return {"in_warmup_grace": grace[0] if grace else None}


def _quiescence(now: _Now, load: Facts) -> Facts:
    """Whether a benchmark may begin: the engine serves, compiles nothing, and nothing waits in it. Idle engines print nothing."""
    state, disturbed = now.engine.life.state, []
    if state == "starting":
        disturbed.append("start-up")
    elif state not in ("serving", "unknown"):
        disturbed.append(state)
    if now.engine.jit.open(now.log) or now.engine.jit.incidents.is_recent(now.log):
        disturbed.append("compile")
    if any(value for value in load.get("requests_waiting", {}).values()):
        disturbed.append("waiting requests")
    return {"value": None if state == "unknown" and not disturbed else not disturbed, "disturbed_by": disturbed}


def _pd(now: _Now) -> Facts:
    engine, clock = now.engine, now.source.clock
    engine.settle()
    verdict, checks = engine.judgement(now.log)
    failing = {check: engine.standing.failing.get(check) for check, status in checks.items() if status == "fail"}
    return {
        "role": engine.pd_settings.role,
        "verdict": verdict,
        "since": engine.standing.since_epoch(verdict, engine.evidence, clock),
        "failing": {check: head and clock.epoch(head) for check, head in failing.items()},
        "checks": checks,
    }


def _jit(now: _Now) -> Facts:
    engine = now.engine
    began: dict[str, float] = {}
    for each in engine.jit.open(now.log):
        began[each.backend] = min(each.began, began.get(each.backend, each.began))
    return {
        "incidents": _counted(engine.counters.totals.get("jit_incidents_total", {})),
        "last_incident_at": {period: now.at(head) for period, head in engine.jit.incidents.last.items()},
        "compiling_for_seconds": {backend: max(0.0, now.log - at) for backend, at in began.items() if now.log is not None},
    }


def _capacity(engine: Engine) -> Facts:
    values = _values(engine.capacity.samples())
    limits = _values(sample for sample in engine.settings.samples() if sample.family in _LIMITS)
    return {
        key: value for key, value in (values | limits).items() if key.startswith(("kv_cache_", "state_cache_", "max_"))
    }  # fmt: skip


def _previous(engine: Engine) -> Facts | None:
    before = engine.life.history.before
    if not before:
        return None
    ended = before.state if before.state in ("stopped", "failed") else "without a word"
    return {"version": before.version or None, "ended": ended, "startup_seconds": before.phases}


def _recent(now: _Now) -> Facts:
    clock, history = now.source.clock, now.engine.life.history
    recent: list[Facts] = [
        {"first_at": each.first.epoch(clock), "last_at": each.last.epoch(clock), "count": each.count, **each.public()}
        for each in reversed(history.events)
    ]
    return {
        "events": sorted(recent, key=lambda each: each["last_at"] or 0.0, reverse=True),
        "jit_kernels": [
            {"backend": each.backend, "kind": each.kind, "kernel": each.name, "last_at": each.last.epoch(clock), "compiles": each.count}
            for each in now.engine.jit.incidents.kernels.values()
        ],
    }


def _counted(series: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """Those of a family's values that are not 0, by their labels."""
    return {" ".join(labels): value for labels, value in series.items() if value}


def _values(samples: Iterable[Sample]) -> Facts:
    """Samples by family; where it has labels, by these."""
    found: Facts = {}
    for family, labels, value in samples:
        if not math.isfinite(value):
            continue
        if FAMILIES[family].labels:
            names = [f"{name} {label}" for name, label in zip(FAMILIES[family].labels, labels, strict=True) if label]
            found.setdefault(family, {})[", ".join(names)] = value
        else:
            found[family] = value
    return found
