"""From what was counted in a log to what is wrong: one row for each alert that a log alone can prove."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from exporter.analysis import bypass
from exporter.analysis.advice import advice
from exporter.analysis.proofs import (
    acceptance_fell,
    bypassed,
    cannot_see,
    compiled_in_service,
    compiled_in_warmup,
    failed_requests,
    failed_transfers,
    gateway_share,
    little_memory,
    over_tcp,
    partly_computed,
    pool_full,
    pool_shrank,
    recomputed,
    restarts,
    rose,
    unexplained,
    verdict,
    with_answers,
)
from exporter.analysis.report import SEVERITIES, Evidence, Finding, PlaceInLog, Severity
from exporter.analysis.watch import Watch

_TRANSFER_FAILURES = 2
_EXPIRED = 2
_TRANSPORT_ERRORS = 3
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


_HANDSHAKES = ("handshake", "handshake_setup", "bootstrap")
_DEATHS = ("engine_dead", "worker_died", "scheduler_exception", "cuda_error", "collective_timeout", "rpc_timeout")

_FAILED_REQUESTS = with_answers(failed_requests)
_HANG = with_answers(rose("engine_failures_total", "hang", "watchdog_timeout"))
_DEATH = with_answers(rose("engine_failures_total", *_DEATHS))
_GATEWAY = with_answers(gateway_share("gateway_pd_routes_total", "failed", but="failed"))

ROWS = (
    Row("InferlogEngineStartFailed", rose("engine_failures_total", "startup_failed"), "critical"),
    Row("InferlogEngineOutOfMemory", rose("engine_failures_total", "gpu_oom", "host_oom", "kv_pool_exhausted"), "critical"),
    Row("InferlogKVReadAfterExpiry", rose("kv_reads_after_expiry_total")),
    Row("InferlogPDCorruptionRisk", verdict("corruption_risk")),
    Row("InferlogPDRecomputing", recomputed),
    Row("InferlogPDNeverConnected", verdict("never_connected")),
    Row("InferlogPDRouterBypass", verdict("router_bypass")),
    Row("InferlogPDTransportFailing", _FAILED_REQUESTS, "critical"),
    Row("InferlogKVCompatibilityMismatch", rose("kv_compatibility_checks_total", "mismatch", "undecodable"), "critical"),
    Row("InferlogJitAfterReady", compiled_in_service),
    Row("InferlogEngineHang", _HANG),
    Row("InferlogEngineDead", _DEATH),
    Row("InferlogEngineCrashLoop", restarts),
    Row("InferlogPDTransportFailing", failed_transfers),
    Row("InferlogPDRouterBypass", bypassed, "warning", bypass.SURE),
    Row("InferlogPDPartial", partly_computed),
    Row("InferlogKVHandshakeFailures", rose("kv_transfer_failures_total", *_HANDSHAKES)),
    Row("InferlogKVTransferFailures", rose("kv_transfer_failures_total", least=_TRANSFER_FAILURES, but=(*_HANDSHAKES, "aborted"))),
    Row("InferlogKVExpired", rose("kv_expired_requests_total", least=_EXPIRED)),
    Row("InferlogTransportErrors", rose("transport_errors_total", least=_TRANSPORT_ERRORS)),
    Row("InferlogGatewayParamsMissing", gateway_share("gateway_kv_params_total", "missing", "wrong_connector")),
    Row("InferlogGatewayRequestsFail", _GATEWAY),
    Row("InferlogRequestsFail", unexplained(_FAILED_REQUESTS, _HANG, _DEATH, _GATEWAY)),
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
