"""What to look at before an engine takes traffic, as far as its log tells."""

import math
from collections.abc import Callable
from typing import TypeAlias

from exporter.analysis.report import Check, Finding, Result
from exporter.analysis.watch import ANSWERED_5XX, Watch
from exporter.engine import UNKNOWN_RUNTIME
from exporter.gateway import GATEWAYS
from exporter.source import NamedEngine

_PD_FINE = {"proven", "not_disaggregated", "not_judged"}
_PD_OPEN = {"idle", "unproven", ""}

Answer: TypeAlias = tuple[Result, str]
Look: TypeAlias = Callable[[Watch, dict[str, Finding]], Answer]


def checks(named: NamedEngine, watch: Watch, findings: list[Finding]) -> list[Check]:
    """The list for one engine; a gateway has none, and nobody either."""
    if named.runtime in GATEWAYS or named.runtime == UNKNOWN_RUNTIME:
        return []
    alerts = {each.alert: each for each in findings}
    rows: tuple[tuple[str, Look], ...] = (
        ("the engine itself said that it is ready", _ready),
        ("nothing failed", _failures),
        ("warm-up left no kernel to compile", _jit),
        ("no setting is known to hurt", _hazards),
        ("the longest request fits into the KV pool", _pool),
        ("KV really comes from prefill (P/D)", _pair),
        ("KV does not travel over TCP", _transport),
        ("speculation is accepted", _acceptance),
        ("speculation is worth its cost", _gain),
        ("the engine prints its periodic line", _periodic),
    )
    return [Check(source=named.name, name=name, result=result, why=why) for name, look in rows for result, why in [look(watch, alerts)]]


def _ready(watch: Watch, found: dict[str, Finding]) -> Answer:
    life = watch.engine.life
    if life.ready is None:
        return ("fail", "it never became ready") if life.started else ("not known", "neither a start nor a ready line is in the log")
    return ("pass", "its ready line") if life.ready_observed else ("not known", "only traffic tells that it serves")


def _failures(watch: Watch, found: dict[str, Finding]) -> Answer:
    kinds = sorted({labels[0] for family, labels in watch.marks if family == "engine_failures_total"})
    told = [*kinds, *([f"{watch.errors.count:,.0f} {ANSWERED_5XX}"] if watch.errors else [])]
    return ("fail", ", ".join(told)) if told else ("pass", "no failure was told")


def _jit(watch: Watch, found: dict[str, Finding]) -> Answer:
    compiled = sum(mark.count for (family, labels), mark in watch.marks.items() if family == "jit_events_total" and "serving" in labels)
    if compiled:
        return "fail", f"{compiled:,.0f} compiled while it served"
    if not watch.answered and not watch.plots.series:
        return "not known", "no request was answered"
    if watch.engine.life.ready is None:
        return "not known", "it was never ready"
    return "pass", "none told of one; a library that prints nothing stays unseen in a log"


def _hazards(watch: Watch, found: dict[str, Finding]) -> Answer:
    hazards = sorted(watch.engine.life.hazards)
    return ("fail", ", ".join(hazards)) if hazards else ("pass", "none was told")


def _pool(watch: Watch, found: dict[str, Finding]) -> Answer:
    fits = [value for family, _, value in watch.engine.capacity.samples() if family == "kv_cache_max_concurrency"]
    if not fits:
        return "not known", "the log does not say how many fit"
    return ("pass" if min(fits) >= 1 else "fail"), f"{min(fits):,.2f} of them"


def _pair(watch: Watch, found: dict[str, Finding]) -> Answer:
    verdict = watch.engine.standing.verdict
    if verdict in _PD_OPEN and "InferlogPDRouterBypass" in found:
        return "fail", "prompts were computed here: see the finding"
    if verdict in _PD_OPEN:
        return "not known", f"verdict {verdict or 'unproven'}"
    if verdict == "not_disaggregated":
        return "pass", "the engine is no part of a pair"
    if verdict == "not_judged":
        return "not known", "only the decode side's log tells"
    return ("pass" if verdict in _PD_FINE else "fail"), f"verdict {verdict}"


def _transport(watch: Watch, found: dict[str, Finding]) -> Answer:
    transports = watch.engine.capacity.transports
    if "InferlogKVOverTCP" in found:
        return "fail", ", ".join(sorted(transports))
    return ("pass", ", ".join(sorted(transports))) if transports else ("not known", "UCX says so at UCX_LOG_LEVEL=info only")


def _acceptance(watch: Watch, found: dict[str, Finding]) -> Answer:
    if not watch.engine.settings.method:
        return "not known", "the engine does not speculate, or does not say so"
    ratios = [value for family, _, value in watch.engine.gauges.samples(None) if family == "spec_acceptance_ratio" and math.isfinite(value)]
    if not ratios:
        return "not known", "no interval with drafts was printed"
    fell = "InferlogSpecAcceptanceCollapse" in found or "InferlogSpecDraftLengthMismatch" in found
    return ("fail" if fell else "pass"), f"{ratios[-1]:.0%} of the drafted tokens at last"


def _gain(watch: Watch, found: dict[str, Finding]) -> Answer:
    return "not known", "no log proves a gain: drafts cost time, too; measure tokens a second with and without"


def _periodic(watch: Watch, found: dict[str, Finding]) -> Answer:
    if "InferlogExporterBlind" in found:
        return "fail", "see the finding"
    return ("pass", "it does") if watch.engine.gauges.last else ("not known", "none was seen: an idle engine prints none")
