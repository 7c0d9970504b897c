"""From what was counted in a log to what is wrong: one row for each alert that a log alone can prove."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.analysis import bypass
from exporter.analysis.advice import advice
from exporter.analysis.marks import WORDS, Mark, Place
from exporter.analysis.report import SEVERITIES, Evidence, Finding, PlaceInLog, Severity
from exporter.analysis.watch import ANSWERED_5XX, VerdictPeriod, Watch
from exporter.counters import Sample
from exporter.families import FAMILIES

_STARTS, _START_WINDOW_SECONDS = 3, 3600.0
_TRANSFER_FAILURES = 2
_EXPIRED = 2
_TRANSPORT_ERRORS = 3
_GATEWAY_REQUESTS, _GATEWAY_SHARE = 2, 0.05
_POOL_SHRANK = 0.95
_POOL_FULL, _POOL_FULL_SECONDS = 0.95, 600.0
_HEADROOM_BYTES = 1024**3
_ACCEPTANCE_SHARE, _ACCEPTANCE_SECONDS = 0.5, 300.0
_AT_ONCE_SECONDS = 60.0


class Row(NamedTuple):
    """An alert, what in a log stands for it, and a severity of its own: who asks about a log wants the answer that a fleet can wait for."""

    alert: str
    look: Callable[[Watch], Iterable[Evidence]]
    severity: Severity | None = None
    sure: str = ""
    """How sure it is, where that is not what it is for the alert."""


def find(source: str, watch: Watch) -> list[Finding]:
    """What is wrong with one engine, in the order in which it is told."""
    return sorted((_finding(source, row, evidence) for row in ROWS if (evidence := tuple(row.look(watch)))), key=order)


def order(finding: Finding) -> tuple[int, float]:
    """By severity and time; of what happens at once the table's order tells which is the cause."""
    return SEVERITIES.index(finding.severity), (finding.first.time or 0.0) // _AT_ONCE_SECONDS


def _finding(source: str, row: Row, evidence: tuple[Evidence, ...]) -> Finding:
    words = advice(row.alert)
    severity = row.severity or words.severity
    first = min((each.first for each in evidence), key=_order)
    last = max((each.last for each in evidence), key=_order)
    return Finding(
        source=source, alert=row.alert, severity=severity, title=words.title, why=words.why, sure=row.sure or words.sure, steps=words.steps,
        evidence=evidence, first=first, last=last,
    )  # fmt: skip


def _order(place: PlaceInLog) -> tuple[float, int]:
    return place.time or 0.0, place.line


def in_log(place: Place) -> PlaceInLog:
    """A place as the report has it."""
    return PlaceInLog(time=place.time, line=place.line)


# -- what stands for an alert ------------------------------------------------------------------------------------------


def _of(mark: Mark, text: str) -> Evidence:
    return Evidence(text=text, count=mark.count, first=in_log(mark.first), last=in_log(mark.last))


def _marks(watch: Watch, family: str, keep: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[str, Mark]]:
    for (name, labels), mark in watch.marks.items():
        if name == family and keep(labels):
            text = WORDS[family].text.format_map(dict(zip(FAMILIES[family].labels, labels, strict=True)))
            yield text or f"{family} {' '.join(labels)}", mark


def rose(family: str, *wanted: str, least: float = 1, but: Collection[str] = ()) -> Callable[[Watch], list[Evidence]]:
    """A counter rose, of those with one of these labels, or with none of the others."""

    def keep(labels: tuple[str, ...]) -> bool:
        return (not wanted or any(label in wanted for label in labels)) and not any(label in but for label in labels)

    def look(watch: Watch) -> list[Evidence]:
        rows = list(_marks(watch, family, keep))
        return [_of(mark, text) for text, mark in rows] if sum(mark.count for _, mark in rows) >= least else []

    return look


def verdict(name: str, but: Collection[VerdictPeriod] = ()) -> Callable[[Watch], list[Evidence]]:
    """A P/D verdict held, `but` for some times."""

    def look(watch: Watch) -> list[Evidence]:
        found = []
        for period, end in watch.verdict_periods():
            if period.verdict == name and period not in but:
                checks = f", failing: {', '.join(period.failing)}" if period.failing else ""
                found.append(Evidence(text=f"P/D verdict {name}{checks}", count=1, first=in_log(period.since), last=in_log(end)))
        return found

    return look


def recomputed(watch: Watch) -> list[Evidence]:
    """The verdict, or the engine's own word."""
    return verdict("recomputing")(watch) + rose("kv_recomputed_requests_total")(watch)


def bypassed(watch: Watch) -> list[Evidence]:
    """In hindsight, where nothing tells that KV must come for each prompt."""
    return [
        Evidence(
            text="prompts computed here and no KV fetched, though before it came for all", count=1, first=in_log(since), last=in_log(end)
        )
        for since, end in bypass.stretches(watch)
    ]


def partly_computed(watch: Watch) -> list[Evidence]:
    """KV came for some prompts and not for others, but where that is how a bypass began or ended."""
    return verdict("partial", but=bypass.turns(watch))(watch)


def with_answers(look: Callable[[Watch], list[Evidence]]) -> Callable[[Watch], list[Evidence]]:
    """What it finds, and what clients saw of it: the answers of class 5xx, unless they began before."""

    def both(watch: Watch) -> list[Evidence]:
        found, errors = look(watch), watch.errors
        if found and errors and errors.first.line >= min(each.first.line for each in found):
            found.append(_of(errors, ANSWERED_5XX))
        return found

    return both


def failed_requests(watch: Watch) -> list[Evidence]:
    """Transfers failed, and so did requests: clients got errors."""
    failed = rose("kv_load_failed_requests_total")(watch)
    return verdict("transport_failing")(watch) + failed if failed else []


def failed_transfers(watch: Watch) -> list[Evidence]:
    """The same while clients got their answers."""
    return [] if failed_requests(watch) else verdict("transport_failing")(watch)


def restarts(watch: Watch) -> list[Evidence]:
    """Three starts within an hour."""
    starts = [each for each in watch.timeline.entries if each.kind == "start"]
    for at in range(len(starts)):
        within = [each for each in starts[at:] if (each.first.time or 0.0) - (starts[at].first.time or 0.0) <= _START_WINDOW_SECONDS]
        count = sum(each.count for each in within)
        if count >= _STARTS:
            first, last = in_log(within[0].first), in_log(within[-1].last)
            return [Evidence(text="engine processes started within an hour", count=count, first=first, last=last)]
    return []


def gateway_share(family: str, *bad: str, but: str = "") -> Callable[[Watch], list[Evidence]]:
    """More of a gateway's requests than an accident went wrong."""

    def look(watch: Watch) -> list[Evidence]:
        found = rose(family, *bad, least=_GATEWAY_REQUESTS)(watch)
        total = sum(mark.count for _, mark in _marks(watch, family, lambda labels: but not in labels))
        return found if found and sum(each.count for each in found) > _GATEWAY_SHARE * total else []

    return look


def compiled_in_service(watch: Watch) -> list[Evidence]:
    """Kernels compiled behind the warm-up."""
    if not rose("jit_incidents_total", "service")(watch):
        return []
    return rose("jit_events_total", "serving")(watch) or rose("jit_incidents_total", "service")(watch)


def compiled_in_warmup(watch: Watch) -> list[Evidence]:
    """Kernels compiled within it, and only there."""
    if compiled_in_service(watch) or not rose("jit_incidents_total", "warmup_grace")(watch):
        return []
    return rose("jit_events_total", "serving")(watch)


def _gauges(samples: Iterable[Sample]) -> Mapping[str, dict[tuple[str, ...], float]]:
    values: dict[str, dict[tuple[str, ...], float]] = {}
    for family, labels, value in samples:
        values.setdefault(family, {})[labels] = value
    return values


def _at_the_end(watch: Watch, text: str) -> list[Evidence]:
    place = in_log(watch.ended or Place(None, 0))
    return [Evidence(text=text, count=1, first=place, last=place)]


def little_memory(watch: Watch) -> list[Evidence]:
    """Device memory that was left at the start."""
    free = [v for (_, part), v in _gauges(watch.engine.capacity.samples()).get("engine_memory_bytes", {}).items() if part == "free"]
    return (
        _at_the_end(watch, f"{min(free) / 1024**3:.2f} GiB of device memory free after the start")
        if free and min(free) < _HEADROOM_BYTES
        else []
    )


def pool_shrank(watch: Watch) -> list[Evidence]:
    """The pool beside that of the process before."""
    gauges = _gauges(watch.engine.capacity.samples())
    now, before = gauges.get("kv_cache_size_tokens", {}), gauges.get("kv_cache_size_previous_tokens", {})
    smaller = [key for key in now.keys() & before.keys() if now[key] < _POOL_SHRANK * before[key]]
    return [each for key in smaller for each in _at_the_end(watch, f"pool {key[1]}: {before[key]:,.0f} tokens before, {now[key]:,.0f} now")]


def pool_full(watch: Watch) -> list[Evidence]:
    """Full for ten minutes while requests wait."""
    points = watch.plots.points()
    waits = {point.time: point.mean for point in points.get("requests_waiting", [])}
    full: list[float] = []
    for point in points.get("kv_cache_usage_ratio", []):
        full = [*full, point.time] if point.mean > _POOL_FULL and waits.get(point.time, 0.0) > 0 else []
        if full and full[-1] - full[0] >= _POOL_FULL_SECONDS:
            first, last = (PlaceInLog(time=each, line=0) for each in (full[0], full[-1]))
            return [Evidence(text="KV pool over 95 % while requests wait", count=1, first=first, last=last)]
    return []


def acceptance_fell(watch: Watch) -> list[Evidence]:
    """Less than half of what it was in the log's first half, for five minutes at its end."""
    points = watch.plots.points().get("spec_acceptance_ratio", [])
    baseline = sorted(point.mean for point in points[: max(6, len(points) // 2)])
    if len(points) < 12 or not baseline:  # noqa: PLR2004 - too few to speak of a past
        return []
    usual = baseline[len(baseline) // 2]
    late = [point for point in points if points[-1].time - point.time <= _ACCEPTANCE_SECONDS]
    now = sum(point.mean for point in late) / len(late)
    if late[-1].time - late[0].time < _ACCEPTANCE_SECONDS / 2 or now >= _ACCEPTANCE_SHARE * usual:
        return []
    first, last = (PlaceInLog(time=each.time, line=0) for each in (late[0], late[-1]))
    return [Evidence(text=f"acceptance {now:.0%}, it was {usual:.0%}", count=1, first=first, last=last)]


def over_tcp(watch: Watch) -> list[Evidence]:
    """UCX says that nothing better than TCP reaches the peer."""
    transports = {labels[0] for labels in _gauges(watch.engine.capacity.samples()).get("kv_transport_info", {})}
    slow = "tcp" in transports and transports <= {"tcp", "self", "sysv", "posix", "cma"}
    return _at_the_end(watch, f"transports: {', '.join(sorted(transports))}") if slow else []


def cannot_see(watch: Watch) -> list[Evidence]:
    """Settings that keep the engine from saying what matters."""
    return rose("config_hazards_total", "log_level_too_high", "stats_disabled", "kv_telemetry_missing")(watch)


_HANDSHAKES = ("handshake", "handshake_setup", "bootstrap")
_DEATHS = ("engine_dead", "worker_died", "scheduler_exception", "cuda_error", "collective_timeout", "rpc_timeout")

ROWS = (
    Row("InferlogEngineStartFailed", rose("engine_failures_total", "startup_failed"), "critical"),
    Row("InferlogEngineOutOfMemory", rose("engine_failures_total", "gpu_oom", "host_oom", "kv_pool_exhausted"), "critical"),
    Row("InferlogKVReadAfterExpiry", rose("kv_reads_after_expiry_total")),
    Row("InferlogPDCorruptionRisk", verdict("corruption_risk")),
    Row("InferlogPDRecomputing", recomputed),
    Row("InferlogPDNeverConnected", verdict("never_connected")),
    Row("InferlogPDRouterBypass", verdict("router_bypass")),
    Row("InferlogPDTransportFailing", with_answers(failed_requests), "critical"),
    Row("InferlogKVCompatibilityMismatch", rose("kv_compatibility_checks_total", "mismatch", "undecodable"), "critical"),
    Row("InferlogJitAfterReady", compiled_in_service),
    Row("InferlogEngineHang", with_answers(rose("engine_failures_total", "hang", "watchdog_timeout"))),
    Row("InferlogEngineDead", with_answers(rose("engine_failures_total", *_DEATHS))),
    Row("InferlogEngineCrashLoop", restarts),
    Row("InferlogPDTransportFailing", failed_transfers),
    Row("InferlogPDRouterBypass", bypassed, "warning", bypass.SURE),
    Row("InferlogPDPartial", partly_computed),
    Row("InferlogKVHandshakeFailures", rose("kv_transfer_failures_total", *_HANDSHAKES)),
    Row("InferlogKVTransferFailures", rose("kv_transfer_failures_total", least=_TRANSFER_FAILURES, but=(*_HANDSHAKES, "aborted"))),
    Row("InferlogKVExpired", rose("kv_expired_requests_total", least=_EXPIRED)),
    Row("InferlogTransportErrors", rose("transport_errors_total", least=_TRANSPORT_ERRORS)),
    Row("InferlogGatewayParamsMissing", gateway_share("gateway_kv_params_total", "missing", "wrong_connector")),
    Row("InferlogGatewayRequestsFail", gateway_share("gateway_pd_routes_total", "failed", but="failed")),
    Row("InferlogJitFailed", rose("jit_failures_total")),
    Row("InferlogKVPoolShrank", pool_shrank),
    Row("InferlogKVPoolSaturated", lambda watch: pool_full(watch) + rose("requests_retracted_total")(watch)),
    Row("InferlogMemoryHeadroomLow", little_memory),
    Row("InferlogSpecDraftLengthMismatch", rose("config_hazards_total", "draft_length_mismatch")),
    Row("InferlogSpecAcceptanceCollapse", acceptance_fell),
    Row("InferlogKnownBadCombination", rose("config_hazards_total", "known_bad_combination")),
    Row("InferlogFP8ScalesMissing", rose("config_hazards_total", "fp8_kv_unscaled")),
    Row("InferlogUnknownEnvironmentVariable", rose("config_hazards_total", "unknown_env")),
    Row("InferlogChatTemplateMissing", rose("config_hazards_total", "chat_template_missing")),
    Row("InferlogKVOverTCP", over_tcp),
    Row("InferlogExporterBlind", cannot_see),
    Row(
        "InferlogConfigHazard",
        rose("config_hazards_total", "warmup_incomplete", "kv_connector_unavailable", "hybrid_kv_disabled", "kv_transport_degraded"),
    ),
    Row("InferlogJitDuringWarmup", compiled_in_warmup),
)
