"""The verdict on prefill/decode disaggregation: HTTP 200 and a full external hit rate prove nothing, so evidence decides."""

from typing import NamedTuple

from exporter.evidence.witnessed import Witnessed
from exporter.pd_evidence import WINDOW, PdEvidence, Period

ROLES = ("prefill", "decode", "both", "none", "unknown")
CHECKS = (
    "pair_selected",
    "params_injected",
    "compatibility",
    "transfers_growing",
    "no_transfer_failure",
    "no_recompute",
    "local_prefill_low",
    "kv_in_time",
    "rdma_growing",
)
STATUSES = ("pass", "fail", "unknown")
NOT_DISAGGREGATED = "not_disaggregated"
IDLE = "idle"
VERDICTS = (
    NOT_DISAGGREGATED,
    "not_judged",
    "corruption_risk",
    "recomputing",
    "never_connected",
    "transport_failing",
    "router_bypass",
    "partial",
    IDLE,
    "proven",
    "unproven",
)
SAY_LITTLE = frozenset({"", NOT_DISAGGREGATED, "not_judged", IDLE, "unproven"})
"""Verdicts between which a change is no news."""

LEAST_FAILED_REQUESTS = 2
LEAST_FAILED_SHARE = 0.05
LEAST_LOCAL_SHARE = 0.2
"""Of prompt tokens computed here, from where on last blocks do not explain it; asked where no access line counts the requests."""

_TRANSFERS_TOLD_SINCE = (0, 14)
_LOCAL_PROMPTS_SINCE = (0, 18)  # before, prompt throughput counted transferred tokens
# Before, a failed load of hybrid KV groups marks nothing invalid (vLLM issue 52234, seen on 0.24 to 0.27); from here on the
# scheduler computes the prompt again, without a word.
_SILENT_RECOMPUTE_SINCE = (0, 28)
_DECODING_ROLES = {"kv_consumer": "decode", "kv_producer": "prefill", "kv_both": "both", "decode": "decode", "prefill": "prefill"}


class FailureLimits(NamedTuple):
    """From where on failed transfers, and requests that expired, are more than an accident: both must be reached."""

    requests: int = LEAST_FAILED_REQUESTS
    share: float = LEAST_FAILED_SHARE


DEFAULT_LIMITS = FailureLimits()


class PairSettings(NamedTuple):
    """What the configuration says of an engine's part in a pair; None for what the log shall tell."""

    role: str | None = None
    expect: str | None = None
    limits: FailureLimits = DEFAULT_LIMITS


UNCONFIGURED = PairSettings()


class PdSettings(NamedTuple):
    """What is known about an engine's part in a pair."""

    role: str
    expect_all: bool
    version: tuple[int, int] | None
    fails_on_load_error: bool
    block_tokens: float
    ranks: int = 1
    compares_hashes: bool = True
    bytes_per_token: float | None = None
    """Of one rank's pool, where it is known."""
    limits: FailureLimits = DEFAULT_LIMITS
    local_is_meant: bool = False
    """Whether the configuration says that some prompts are computed here."""
    from_start: bool = True
    """Whether the log tells of the process from its start on, so that a first transfer would have been told of."""


class Judgement(NamedTuple):
    """A verdict with the checks that it rests on."""

    verdict: str
    checks: dict[str, str]


def role_of(configured: str | None, kv_role: str | None, *, no_connector: bool) -> str:
    """An engine's role: as configured for the source, else by its kv_role, else none when it surely has no connector."""
    if configured:
        return configured
    if kv_role in _DECODING_ROLES:
        return _DECODING_ROLES[kv_role]
    return "none" if no_connector else "unknown"


def judge(evidence: PdEvidence, settings: PdSettings, now: float | None) -> Judgement:
    """The first verdict that holds, at this time of the log's clock."""
    window = list(evidence.window())
    log = _checks(evidence, settings, window)
    witnessed = evidence.witnessed.beside(log)
    checks = log if settings.role == "none" else witnessed.joined(log)
    verdict = _verdict(evidence, settings, window, checks, now, witnessed)
    if verdict == "proven" and witnessed.contradicts(log):
        verdict = "unproven"
    return Judgement(verdict, checks)


def _checks(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> dict[str, str]:
    checks = dict.fromkeys(CHECKS, "unknown")
    if settings.role == "none":
        return checks
    transfers = sum(period.transfers for period in window)
    if any(period.params_refused for period in window):
        checks["params_injected"] = "fail"
    checks["compatibility"] = _compatibility(evidence, settings)
    checks["local_prefill_low"] = _local_prefill(evidence, settings, window)
    checks["no_transfer_failure"] = _transfer_failure(window, transfers, settings, tried=evidence.tried)
    checks["kv_in_time"] = _in_time(window, transfers, settings)
    if transfers > 0:
        checks["transfers_growing"] = "pass"
    elif (
        any(period.empty for period in window)
        or checks["local_prefill_low"] == "fail"
        or _served_without_transfer(evidence, settings, window)
    ):
        checks["transfers_growing"] = "fail"
    if any(_recomputed(period, settings) for period in window) or _computed_instead(window, settings, checks):
        checks["no_recompute"] = "fail"
    elif any(period.served for period in window) and not (settings.version is None and any(period.skipped for period in window)):
        checks["no_recompute"] = "pass"
    return checks


def _compatibility(evidence: PdEvidence, settings: PdSettings) -> str:
    """Every local rank must have passed with the current peer; a transfer that succeeded implies it."""
    if evidence.failed_ranks:
        return "fail"
    if evidence.succeeded:
        return "pass"
    every_rank = len(evidence.passed_ranks) >= max(1, settings.ranks)
    return "pass" if every_rank and settings.compares_hashes else "unknown"


def _local_prefill(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> str:
    """Whether the prompt tokens that the engine computed itself look like whole prompts."""
    served = [period for period in window if period.served]
    if not served or settings.version is None or settings.version < _LOCAL_PROMPTS_SINCE:
        return "unknown"
    whole = _per_request(evidence, settings, window) > settings.block_tokens or _engine_without_transfers(settings, window)
    if whole or _uncounted(evidence, settings, window):
        first = len(served) < WINDOW and sum(period.requests for period in served) <= 1 and not evidence.tried
        return "unknown" if first else "fail"  # somebody tried an engine that had just started
    told = all(period.told for period in served)
    return "unknown" if not told and _unexplained(evidence, settings, window) else "pass"


def _uncounted(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> bool:
    """Whether whole prompts were computed here though no access line tells how many: requests that run are no requests of an interval.

    A request whose KV came is at least one transfer, so that what exceeds a block for each transfer belongs to others. Where no KV comes,
    its requests are taken to be no more than those whose KV came before.
    """
    served = [period for period in window if period.served]
    if len(served) < WINDOW or any(period.told for period in served):
        return False
    tokens, transfers = sum(period.prompt_tokens for period in served), sum(period.transfers for period in served)
    if not transfers:
        return tokens > settings.block_tokens * evidence.most_requests
    ratio = local_prefill_ratio(evidence, settings, settings.bytes_per_token)
    return ratio is not None and ratio >= LEAST_LOCAL_SHARE and tokens > settings.block_tokens * transfers


def _engine_without_transfers(settings: PdSettings, window: list[Period]) -> bool:
    """Whether one engine of a data-parallel group computes whole prompts while KV comes to another one.

    Access lines name no engine: each has the share of the requests that it has of those that run.
    """
    engines: dict[str, tuple[float, float, float]] = {}
    for period in window:
        for engine, values in period.engines.items():
            tokens, moved, running = map(sum, zip(values, engines.get(engine, (0.0, 0.0, 0.0)), strict=True))
            engines[engine] = tokens, moved, running
    if len(engines) == 1 or not any(moved for _, moved, _ in engines.values()):
        return False
    requests = sum(period.requests for period in window if period.served)
    share = requests / max(1.0, sum(running for _, _, running in engines.values()))
    return any(not moved and tokens > settings.block_tokens * max(1.0, share * running) for tokens, moved, running in engines.values())


def _unexplained(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> bool:
    """Whether more prompt tokens were computed than last blocks of requests whose KV came: others may have come without.

    Of an unknown version they may have been transferred.
    """
    if evidence.witnessed.checks.get("local_prefill_low") == "pass" or (settings.version or _LOCAL_PROMPTS_SINCE) < _LOCAL_PROMPTS_SINCE:
        return False
    tokens = sum(period.prompt_tokens for period in window if period.served)
    return tokens > settings.block_tokens * max(1.0, _fetched(settings, window))


def _fetched(settings: PdSettings, window: list[Period]) -> float:
    """Requests whose KV came: each rank has at least one transfer of each."""
    return sum(period.transfers for period in window) / settings.ranks


def _per_request(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> float:
    """Prompt tokens of a request. Where no access line tells of requests, those that ran at the end of an interval are not all it had."""
    served, fetched = [period for period in window if period.served], _fetched(settings, window)
    untold = 1.0 if fetched or any(period.told for period in served) else evidence.most_requests
    return sum(period.prompt_tokens for period in served) / max(untold, fetched, sum(period.requests for period in served))


def _served_without_transfer(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> bool:
    """Whether requests were answered throughout a window without any transfer, by an engine that would have told of them."""
    served = [period for period in window if period.served]
    tells = settings.version is not None and settings.version >= _TRANSFERS_TOLD_SINCE
    whole_window = tells and len(served) == WINDOW
    return whole_window and (all(period.answered for period in served) or _unexplained(evidence, settings, window))


def _transfer_failure(window: list[Period], transfers: float, settings: PdSettings, *, tried: bool) -> str:
    failures = sum(period.failed(settings.ranks) for period in window)
    if not failures:
        return "pass" if tried and not any(period.setups for period in window) else "unknown"
    answered = sum(period.answered for period in window[:-1] if not period.served)  # nothing else tells of successes
    succeeded = transfers + answered + sum(period.received for period in window)
    return failure_status(settings.limits, failures, sum(period.attempts_failed for period in window), succeeded)


def failure_status(limits: FailureLimits, requests: float, attempts: float, succeeded: float) -> str:
    """The check's where `requests` failed in so many attempts beside those that succeeded: one is no proof of a fault unless it is all."""
    many = requests >= limits.requests and attempts >= limits.share * (attempts + succeeded)
    return "fail" if many or not succeeded else "unknown"


def _in_time(window: list[Period], transfers: float, settings: PdSettings) -> str:
    expired, limits = sum(period.expiries(settings.ranks) for period in window), settings.limits
    if any(period.late for period in window) or (expired >= limits.requests and expired >= limits.share * (transfers + expired)):
        return "fail"
    return "unknown" if expired else "pass"


def _recomputed(period: Period, settings: PdSettings) -> bool:
    if period.recomputed:
        return True
    silently = settings.version is not None and settings.version >= _SILENT_RECOMPUTE_SINCE
    return bool(period.skipped) and silently and not settings.fails_on_load_error and not period.load_failed


def _computed_instead(window: list[Period], settings: PdSettings, checks: dict[str, str]) -> bool:
    """Whether transfers fail and whole prompts are computed here, by an engine that was not told to fail such requests."""
    failing = checks["no_transfer_failure"] == checks["local_prefill_low"] == "fail"
    return failing and not settings.fails_on_load_error and not any(period.load_failed for period in window)


def _corrupts(evidence: PdEvidence, settings: PdSettings, window: list[Period]) -> bool:
    """Whether answers may be wrong: blocks read after expiry, or a failed load that the scheduler took for a good one."""
    if any(period.late for period in window):
        return True
    return any(uncaught_load(evidence, settings.version, period) for period in window)


def uncaught_load(evidence: PdEvidence, version: tuple[int, int] | None, period: Period) -> bool:
    """Whether a load failed in this period of which the scheduler never heard (hybrid KV groups, to 0.27)."""
    if version is None or version >= _SILENT_RECOMPUTE_SINCE:
        return False
    failed = bool(period.skipped or period.failed_requests)
    return period.unanswered_loads > 0 or (failed and (evidence.hybrid or evidence.ignores_loads))


def _verdict(
    evidence: PdEvidence, settings: PdSettings, window: list[Period], checks: dict[str, str], now: float | None, witnessed: Witnessed
) -> str:
    if settings.role == "none":
        return NOT_DISAGGREGATED
    if settings.role == "prefill" or (settings.role != "decode" and not evidence.generates):
        return "not_judged"
    failed = {check for check, status in checks.items() if status == "fail"}
    idle = evidence.is_idle(now)
    unheard = idle and witnessed.works  # the log of an engine that works broke off: what came by it may come no more
    transfers = witnessed.transfers > 0 or (not unheard and any(period.transfers for period in window))
    failures = witnessed.failures > 0 or any(period.attempts_failed or period.setups for period in window)
    unconnected = evidence.tried and not evidence.succeeded
    mismatched = unconnected and "compatibility" in failed
    rows = (
        ("corruption_risk", _corrupts(evidence, settings, window)),
        ("recomputing", "no_recompute" in failed),
        ("never_connected", settings.from_start and (mismatched or (unconnected and failures))),
        ("transport_failing", mismatched or "no_transfer_failure" in failed),
        ("router_bypass", "local_prefill_low" in failed and not failures and not transfers and settings.expect_all),
        ("partial", "local_prefill_low" in failed and transfers and not settings.local_is_meant),
        ("unproven" if unheard else IDLE, idle),
        ("unproven", _unexplained(evidence, settings, window)),
        ("proven", not failed and all(checks[check] == "pass" for check in ("transfers_growing", "no_transfer_failure", "no_recompute"))),
    )  # fmt: skip
    return next((verdict for verdict, holds in rows if holds), "unproven")


def local_prefill_ratio(evidence: PdEvidence, settings: PdSettings, bytes_per_token: float | None) -> float | None:
    """The share of prompt tokens that a decode engine computed itself, None where its log does not tell.

    `bytes_per_token` of one rank's pool turns the bytes that came into tokens; without any transfer nothing needs to be turned.
    """
    served = [period for period in evidence.window() if period.served]
    judged = settings.role == "decode" or (settings.role in ("both", "unknown") and evidence.generates)
    if not served or not judged or settings.version is None or settings.version < _LOCAL_PROMPTS_SINCE:
        return None
    computed, size = sum(period.prompt_tokens for period in served), sum(period.transferred_bytes for period in served)
    if size and not bytes_per_token:
        return None
    tokens = computed + (size / settings.ranks / bytes_per_token if bytes_per_token else 0.0)
    return computed / tokens if tokens else None
