"""The P/D verdict of vLLM engines: each verdict, each check, the window, roles, expectations, versions."""

import pytest

from exporter.verdict import CHECKS, VERDICTS, role_of

from .conftest import (
    API,
    CORE,
    POST,
    RANK0,
    RANK1,
    READY,
    arguments,
    connector,
    core,
    failure,
    line,
    logo,
    read,
    skipped,
    stats,
    transfers,
)


def decode(version: str = "0.32.0", policy: str = "recompute", role: str = "kv_consumer", more: str = "") -> list[str]:
    """A decode engine that just started."""
    return [logo(version), connector(role, policy, more), READY]


def recovered(requests: int = 1, at: str = "03:14:25") -> str:
    """The scheduler of vLLM to 0.26 computes prompts again."""
    return line(f"Recovered from KV load failure: {requests} request(s) rescheduled ({requests * 404} tokens affected).", CORE, at)


def failing(requests: int, at: str = "03:14:25") -> str:
    """The scheduler fails requests under policy `fail`."""
    text = f"Failing {requests} request(s) due to KV load failure (failure_policy=fail, 3109 tokens affected). Request IDs: {{'cmpl-1'}}"
    return line(text, CORE, at, level="ERROR")


def healthy(at: str) -> list[str]:
    """An interval of 10 s with four requests, whose prompts came by transfer."""
    return [POST, POST, POST, POST, stats(at, prompt=1.2, generation=40.0), transfers(8, at)]


def local(at: str) -> list[str]:
    """An interval in which two requests of 1,000 tokens were computed here: 200 tokens/s for 10 s."""
    return [POST, POST, stats(at, prompt=200.0, generation=40.0)]


def quiet(at: str) -> str:
    """The last line of a busy spell: nothing runs."""
    return stats(at, prompt=0.0, generation=0.0, running=0)


def reporting(at: str, *, failed: int = 0, expired: int = 0, late: int = 0) -> list[str]:
    """An interval of whose eight transfers the connector's line tells more (from vLLM 0.31 on)."""
    more = f", Num failed transfers={failed}, Num KV expired reqs={expired}, Num notifs after expiry={late}"
    return [*healthy(at)[:-1], transfers(8, at, more=more)]


CONSUMER = "KVTransferConfig(kv_connector='NixlConnector', engine_id='e', kv_role='kv_consumer', kv_load_failure_policy='fail')"
TWO_RANKS = [logo("0.32.0"), arguments(f"'tensor_parallel_size': 2, 'kv_transfer_config': {CONSUMER}"), READY]
CHAT = POST.replace("/v1/completions", "/gateway/v1/chat/completions")
OTHERS = [POST.replace("POST", "OPTIONS"), POST.replace("v1/completions", "tokenize"), POST.replace("POST /v1/completions", "GET /load")]
HYBRID = line("Hybrid Memory Allocator is enabled with NIXL", RANK0)
PASSED = line("NIXL compatibility check passed (hash: 3f0c8a5b)", RANK0)
LATE = line("Potentially invalid KV blocks for unrecognized request cmpl-1 were retrieved by a decode worker.", RANK0, level="WARNING")
REFUSED = line("Got kv_transfer_params, but no KVConnector found. Disabling KVTransfer for this request.", CORE, level="WARNING")


def expired(number: int) -> list[str]:
    """Requests whose blocks nobody fetched."""
    text = "Releasing expired KV blocks for request cmpl-{} which were retrieved by 0 remote worker(s) before lease expired."
    return [line(text.format(i), RANK0, level="WARNING") for i in range(number)]


MISMATCH = [
    line("NIXL transfer failure: handshake_setup_failed | Context: {'request_id': None}", RANK0, level="ERROR"),
    line("Traceback (most recent call last):", RANK0, level="ERROR"),
    line("RuntimeError: NIXL compatibility hash mismatch. Local: 3f0c, Remote: 9b9b.", RANK0, level="ERROR"),
    failure("handshake_failed"),
    line("Traceback (most recent call last):", RANK0, level="ERROR"),
    line("RuntimeError: NIXL compatibility hash mismatch. Local: 3f0c, Remote: 9b9b.", RANK0, level="ERROR"),
]

# -- verdicts ----------------------------------------------------------------------------------------------------------

VERDICT_CASES = {
    "no-connector": (
        [logo(), arguments("'max_model_len': 4096"), READY, *local("03:14:20")],
        "not_disaggregated",
    ),
    "prefill": ([logo(), connector("kv_producer"), READY, stats(prompt=900.0)], "not_judged"),
    "both-that-generates-nothing": ([*decode(role="kv_both"), stats(prompt=900.0, generation=0.0)], "not_judged"),
    "hybrid-to-0.26": ([*decode("0.26.0"), HYBRID, *healthy("03:14:10"), failure("transfer_failed"), skipped()], "corruption_risk"),
    "read-after-expiry": ([*decode(), *healthy("03:14:10"), LATE], "corruption_risk"),
    "recovered": ([*decode("0.26.0"), *healthy("03:14:10"), failure("transfer_failed"), skipped(), recovered()], "recomputing"),
    "silent-recompute": ([*decode(), *healthy("03:14:10"), failure("transfer_failed"), skipped()], "recomputing"),
    "hash-mismatch": ([*decode(policy="fail"), *MISMATCH], "never_connected"),
    "handshakes-fail": ([*decode(policy="fail"), failure("handshake_failed"), failing(1)], "never_connected"),
    "peer-died": (
        [*decode(policy="fail"), *healthy("03:14:10"), *(failure("transfer_exception", f"cmpl-{i}") for i in range(4)), failing(4)],
        "transport_failing",
    ),
    "reported-failures": ([*decode(policy="fail"), *reporting("03:14:10", failed=20)], "transport_failing"),
    "reported-late-reads": ([*decode(), *reporting("03:14:10", late=1)], "corruption_risk"),
    "nothing-reported": ([*decode(policy="fail"), *reporting("03:14:10")], "proven"),
    "router-forgot": ([*decode(), *local("03:14:10"), *local("03:14:20")], "router_bypass"),
    "some-by-transfer": ([*decode(), *healthy("03:14:10"), *local("03:14:20"), *local("03:14:30")[:-1]], "partial"),
    "five-quiet-minutes": ([*decode(), *healthy("03:14:10"), quiet("03:14:20"), line("x", API, "03:19:20")], "idle"),
    "healthy": ([*decode(), PASSED, *healthy("03:14:10"), *healthy("03:14:20")], "proven"),
    "healthy-without-a-check-line": ([*decode(), *healthy("03:14:10")], "proven"),
    "just-started": (decode(), "unproven"),
    "a-success-beside-refused-parameters": ([*decode(), *healthy("03:14:10"), REFUSED], "unproven"),
}


@pytest.mark.parametrize(("lines", "verdict"), VERDICT_CASES.values(), ids=VERDICT_CASES)
def test_first_verdict_that_holds(lines: list[str], verdict: str) -> None:
    """Small logs of vLLM and what a reader of DESIGN section 6 would say of them."""
    assert verdict == read(*lines).verdict


def test_every_verdict_is_reached() -> None:
    """No verdict is a word only."""
    assert set(VERDICTS) == {verdict for _, verdict in VERDICT_CASES.values()}


# -- checks ------------------------------------------------------------------------------------------------------------

CHECK_CASES = [
    ("params_injected", "unknown", "healthy", [*decode(), *healthy("03:14:10")]),
    ("params_injected", "fail", "engine-refused", [*decode(), REFUSED]),
    ("compatibility", "unknown", "no-word", decode()),
    ("compatibility", "pass", "line", [*decode(), PASSED]),
    ("compatibility", "pass", "success-implies-it", [*decode(), *healthy("03:14:10")]),
    ("compatibility", "fail", "mismatch", [*decode(), *MISMATCH]),
    (
        "compatibility",
        "fail",
        "undecodable",
        [
            *decode(),
            line("RuntimeError: Failed to decode NixlHandshakePayload. This likely indicates an incompatibility", RANK0, level="ERROR"),
        ],
    ),
    (
        "compatibility",
        "pass",
        "next-peer-fits",
        [*decode(), *MISMATCH, line("NIXL compatibility check passed (hash: 1)", RANK0, "03:20:00")],
    ),
    ("transfers_growing", "unknown", "no-traffic", decode()),
    ("transfers_growing", "pass", "transfers", [*decode(), *healthy("03:14:10")]),
    ("transfers_growing", "fail", "none-while-serving", [*decode(), *local("03:14:10")]),
    ("transfers_growing", "fail", "zero-reported", [*decode(), stats("03:14:10"), transfers(0, "03:14:10")]),
    ("no_transfer_failure", "unknown", "never-tried", decode()),
    ("no_transfer_failure", "pass", "none", [*decode(), *healthy("03:14:10")]),
    ("no_transfer_failure", "fail", "all-failed", [*decode(policy="fail"), failure("transfer_failed")]),
    ("no_transfer_failure", "unknown", "one-of-nine", [*decode(policy="fail"), *healthy("03:14:10"), failure("transfer_failed")]),
    (
        "no_transfer_failure",
        "fail",
        "two-of-ten",
        [*decode(policy="fail"), *healthy("03:14:10"), failure("transfer_failed", "cmpl-1"), failure("transfer_failed", "cmpl-2")],
    ),
    (
        "no_transfer_failure",
        "unknown",
        "one-request-on-two-ranks",
        [*decode(policy="fail"), *healthy("03:14:10"), failure("transfer_failed"), failure("transfer_failed", who=RANK1)],
    ),
    (
        "no_transfer_failure",
        "unknown",
        "two-of-forty-two-is-less-than-5-percent",
        [
            *decode(policy="fail"),
            POST,
            stats("03:14:10"),
            transfers(40, "03:14:10"),
            *(failure("transfer_failed", f"cmpl-{i}") for i in (1, 2)),
        ],
    ),
    (
        "no_transfer_failure",
        "fail",
        "two-of-forty-is-5-percent",
        [
            *decode(policy="fail"),
            POST,
            stats("03:14:10"),
            transfers(38, "03:14:10"),
            *(failure("transfer_failed", f"cmpl-{i}") for i in (1, 2)),
        ],
    ),
    (
        "no_transfer_failure",
        "pass",
        "side-effects-are-no-attempts",
        [*decode(), *healthy("03:14:10"), *(failure("notification_failed", f"cmpl-{i}") for i in range(5))],
    ),
    ("no_transfer_failure", "fail", "reported-by-the-periodic-line-alone", [*decode(policy="fail"), *reporting("03:14:10", failed=2)]),
    ("no_transfer_failure", "pass", "none-reported", [*decode(policy="fail"), *reporting("03:14:10")]),
    ("no_transfer_failure", "unknown", "two-ranks-report-one-request", [*TWO_RANKS, *reporting("03:14:10", failed=2)]),
    (
        "no_transfer_failure",
        "unknown",
        "a-record-and-its-report-are-one-failure",
        [*decode(policy="fail"), failure("transfer_failed", at="03:14:05"), *reporting("03:14:10", failed=1)],
    ),
    ("no_recompute", "unknown", "no-traffic", decode()),
    ("no_recompute", "pass", "none", [*decode(), *healthy("03:14:10")]),
    ("no_recompute", "fail", "recovered", [*decode("0.26.0"), skipped(), recovered()]),
    ("no_recompute", "fail", "silent", [*decode(), skipped()]),
    ("local_prefill_low", "unknown", "no-traffic", decode()),
    ("local_prefill_low", "pass", "a-few-tokens", [*decode(), *healthy("03:14:10")]),
    ("local_prefill_low", "pass", "one-block-a-request", [*decode(), POST, stats("03:14:10", prompt=12.8)]),
    ("local_prefill_low", "fail", "whole-prompts", [*decode(), *local("03:14:10")]),
    ("local_prefill_low", "fail", "preflights-and-tokenizing-are-no-requests", [*decode(), *OTHERS * 10, *local("03:14:10")]),
    ("local_prefill_low", "pass", "others-that-generate-are", [*decode(), *[CHAT] * 20, *local("03:14:10")]),
    ("kv_in_time", "pass", "nothing-expired", [*decode(), *healthy("03:14:10")]),
    ("kv_in_time", "unknown", "one-expired", [*decode(), *healthy("03:14:10"), *expired(1)]),
    ("kv_in_time", "fail", "two-expired", [*decode(), *healthy("03:14:10"), *expired(2)]),
    ("kv_in_time", "fail", "read-late", [*decode(), *healthy("03:14:10"), LATE]),
    ("kv_in_time", "fail", "two-reported-as-expired", [*decode(), *reporting("03:14:10", expired=2)]),
    ("kv_in_time", "unknown", "two-ranks-report-one", [*TWO_RANKS, *reporting("03:14:10", expired=2)]),
    ("kv_in_time", "fail", "reported-as-read-late", [*decode(), *reporting("03:14:10", late=1)]),
    ("pair_selected", "unknown", "an-engine-cannot-tell", [*decode(), *healthy("03:14:10")]),
    ("rdma_growing", "unknown", "a-log-cannot-tell", [*decode(), *healthy("03:14:10")]),
]


@pytest.mark.parametrize(
    ("check", "status", "lines"),
    [pytest.param(check, status, lines, id=f"{check}-{status}-{name}") for check, status, name, lines in CHECK_CASES],
)
def test_check_has_one_status(check: str, status: str, lines: list[str]) -> None:
    """Pass, fail or unknown, by the evidence of the window."""
    assert status == read(*lines).check(check)


def test_each_check_has_exactly_one_status() -> None:
    """A state set per check, also before anything is known."""
    evidence = read(*decode()).series("pd_evidence")

    for check in CHECKS:
        assert 1 == sum(value for (each, _), value in evidence.items() if each == check), check


def test_checks_are_evaluated_whatever_the_role() -> None:
    """A prefill engine is not judged, yet its late reads are seen."""
    reading = read(logo(), connector("kv_producer"), READY, LATE)

    assert "fail" == reading.check("kv_in_time")
    assert "not_judged" == reading.verdict


def test_passed_without_comparing_proves_no_compatibility() -> None:
    """With enforce_handshake_compat: false vLLM prints `passed` as well."""
    more = "kv_connector_extra_config={'enforce_handshake_compat': False}, "

    assert "unknown" == read(*decode(more=more), PASSED).check("compatibility")


def test_one_rank_that_passes_does_not_hide_the_mismatch_of_another() -> None:
    """Every local rank has to pass."""
    reading = read(*decode(), *MISMATCH, line("NIXL compatibility check passed (hash: 3f0c8a5b)", RANK1))

    assert "fail" == reading.check("compatibility")


# -- role and expectation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "kv_role", "no_connector", "role"),
    [
        ("prefill", "kv_consumer", False, "prefill"),
        ("decode", None, True, "decode"),
        ("none", "kv_both", False, "none"),
        (None, "kv_consumer", False, "decode"),
        (None, "kv_producer", False, "prefill"),
        (None, "kv_both", False, "both"),
        (None, None, True, "none"),
        (None, None, False, "unknown"),
        (None, "something_new", False, "unknown"),
    ],
)
def test_role_is_configured_else_the_kv_role(configured: str | None, kv_role: str | None, no_connector: bool, role: str) -> None:
    """The setting of the source comes first; without any connector the engine has no role."""
    assert role == role_of(configured, kv_role, no_connector=no_connector)


@pytest.mark.parametrize("role", ["prefill", "decode", "both", "none"])
def test_configured_role_is_the_role_of_the_series(role: str) -> None:
    """Exactly one role is 1."""
    assert role == read(*decode(), pd_role=role).one("pd_role")


@pytest.mark.parametrize(
    ("lines", "settings", "verdict"),
    [
        pytest.param(decode(), {}, "router_bypass", id="decode-expects-all"),
        pytest.param(decode(), {"pd_expect": "mixed"}, "unproven", id="decode-mixed"),
        pytest.param(decode(role="kv_both"), {}, "unproven", id="both-is-mixed"),
        pytest.param(decode(role="kv_both"), {"pd_expect": "all"}, "router_bypass", id="both-all"),
        pytest.param([logo("0.32.0"), READY], {}, "unproven", id="unknown-role-that-generates"),
        pytest.param([core("0.32.0")], {}, "unproven", id="no-api-server-and-no-arguments"),
        pytest.param([core("0.32.0")], {"pd_expect": "all"}, "router_bypass", id="unknown-role-all"),
        pytest.param([logo("0.32.0"), READY], {"pd_role": "decode"}, "router_bypass", id="configured-decode"),
        pytest.param(decode(role="kv_producer"), {}, "not_judged", id="prefill"),
        pytest.param(decode(role="kv_producer"), {"pd_role": "decode"}, "router_bypass", id="configured-role-wins"),
    ],
)
def test_local_prefill_is_judged_by_role_and_expectation(lines: list[str], settings: dict[str, str], verdict: str) -> None:
    """Local prefill alone is a fault only where every prompt should come by transfer."""
    assert verdict == read(*lines, *local("03:14:10"), *local("03:14:20"), **settings).verdict


@pytest.mark.parametrize(
    ("settings", "verdict"), [({}, "partial"), ({"pd_expect": "all"}, "partial"), ({"pd_expect": "mixed"}, "unproven")]
)
def test_some_local_prefill_is_no_fault_where_the_configuration_says_that_it_is_meant(settings: dict[str, str], verdict: str) -> None:
    """A gateway sends short prompts past prefill, and `pd_expect: mixed` is what the runbook tells to say then."""
    for role in ("kv_consumer", "kv_both"):
        lines = [*decode(role=role), *healthy("03:14:10"), *local("03:14:20"), *local("03:14:30")[:-1]]
        assert verdict == read(*lines, **settings).verdict


def test_engine_with_both_roles_is_judged_once_it_generates() -> None:
    """Until then nobody knows what it is for."""
    reading = read(*decode(role="kv_both"))
    assert "not_judged" == reading.verdict

    reading.feed(*healthy("03:14:10"))
    assert "proven" == reading.verdict


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "status"), [("0.10.2", "unknown"), ("0.17.1", "unknown"), ("0.18.0", "pass"), ("0.33.0", "pass")])
def test_prompt_throughput_tells_of_local_prefill_from_0_18_on(version: str, status: str) -> None:
    """Before, it counted the transferred tokens too."""
    assert status == read(*decode(version), *healthy("03:14:10")).check("local_prefill_low")


def test_whole_prompts_before_0_18_are_no_bypass() -> None:
    """The prompt throughput of 0.14 is what a healthy decode engine prints."""
    reading = read(*decode("0.14.0"), POST, stats("03:14:10", prompt=900.0), transfers(8, "03:14:10"))

    assert "unknown" == reading.check("local_prefill_low")
    assert "proven" == reading.verdict


@pytest.mark.parametrize("field", [", Deferred: 2 reqs", ", KV fetch: 1 waiting to start, 0 in progress, 0 completed waiting"])
def test_a_field_tells_that_prompt_throughput_counts_local_prompts(field: str) -> None:
    """The log begins behind the start lines, and no version before 0.19 prints such a field; it is printed now and then."""
    reading = read(POST, stats("03:14:10", prompt=900.0, more=field), POST, stats("03:14:20", prompt=900.0), pd_role="decode")

    assert "router_bypass" == reading.verdict


@pytest.mark.parametrize(("prompt", "verdict"), [(900.0, "unproven"), (1.2, "proven")])
def test_whole_prompts_of_an_unknown_version_prove_nothing(prompt: float, verdict: str) -> None:
    """The log begins behind the start lines: from 0.18 on these prompts were computed here, before they may have come by transfer."""
    lines = [POST, stats("03:14:10", prompt=prompt), transfers(8, "03:14:10")]

    assert verdict == read(*lines, pd_role="decode").verdict


@pytest.mark.parametrize(
    ("version", "policy", "lines", "verdict"),
    [
        pytest.param("0.26.0", "recompute", [HYBRID, skipped()], "corruption_risk", id="0.26-hybrid"),
        pytest.param("0.26.0", "fail", [HYBRID, skipped()], "corruption_risk", id="0.26-hybrid-whatever-the-policy"),
        pytest.param("0.26.0", "recompute", [skipped(), recovered()], "recomputing", id="0.26-recovered"),
        pytest.param("0.26.0", "fail", [failure("transfer_failed"), skipped(), failing(1)], "unproven", id="0.26-failed"),
        pytest.param("0.32.0", "recompute", [HYBRID, skipped()], "recomputing", id="0.32-hybrid-is-silent"),
        pytest.param("0.32.0", "recompute", [skipped()], "recomputing", id="0.32-silent"),
        pytest.param("0.32.0", "fail", [failure("transfer_failed"), skipped(), failing(1)], "unproven", id="0.32-fail"),
        pytest.param("0.33.0", "recompute", [skipped()], "recomputing", id="0.33-silent"),
    ],
)
def test_failed_load_means_what_the_version_makes_of_it(version: str, policy: str, lines: list[str], verdict: str) -> None:
    """To 0.26 hybrid pools used the blocks; from 0.32 on the scheduler recomputes without a word."""
    reading = read(*decode(version, policy), *healthy("03:14:00"), *healthy("03:14:10"), *lines)

    assert verdict == reading.verdict


def test_failed_load_of_an_unknown_version_is_not_waved_through() -> None:
    """Whichever version it is, the prompt was computed again, failed or used as it was."""
    start = [connector("kv_consumer"), READY]
    reading = read(*start, *healthy("03:14:00"), *healthy("03:14:10"), failure("transfer_failed"), skipped(), *healthy("03:14:20"))

    assert "pass" != reading.check("no_recompute")
    assert "proven" != reading.verdict


def test_periodic_line_between_worker_and_scheduler_changes_nothing() -> None:
    """The engine recovers a moment later; the API server printed its line in between."""
    lines = [*decode("0.26.0"), *healthy("03:14:10"), failure("transfer_failed"), skipped()]

    assert "recomputing" == read(*lines, stats("03:14:20"), recovered()).verdict


@pytest.mark.parametrize(
    ("policy", "word", "verdict"), [("recompute", recovered(at="03:14:35"), "recomputing"), ("fail", failing(1, "03:14:35"), "unproven")]
)
def test_a_scheduler_that_answers_late_has_answered(policy: str, word: str, verdict: str) -> None:
    """The step in which a load failed compiled for half a minute: no answer may be wrong."""
    lines = [*decode("0.26.0", policy), *healthy("03:14:00"), failure("transfer_failed", at="03:14:05"), skipped(at="03:14:05")]
    reading = read(*lines, *healthy("03:14:30"))
    assert "corruption_risk" == reading.verdict

    assert verdict == reading.feed(word).verdict
