"""A gateway from its lines: what it decided, what failed, each request once, and what it has to say of pairs."""

from typing import Any

import pytest

from exporter.event_lines import event_line
from exporter.gateway import GATEWAYS
from exporter.source import Source
from parsers.rules import registry
from tests.parsers.reading import gateway_header

Series = dict[tuple[str, ...], float]


def klog(message: str, at: str = "17:09:33", level: str = "I") -> str:
    """A line of AIBrix's or llm-d's."""
    return gateway_header("aibrix", level=level, time=at) + message


def rust(message: str, request: str = "r1", at: str = "17:09:33", status: str = "") -> str:
    """A line of SGLang's router."""
    spans = f'http_request{{method=POST uri=/generate version=HTTP/1.1 request_id="{request}"{status}}}: '
    return gateway_header("sglang_router", level="E", time=at) + spans + "smg::routers: " + message


def asked(request: str) -> str:
    """A request comes in."""
    return klog(f'"processing request" requestID="{request}"')


def selected(request: str = "a", at: str = "17:09:33") -> str:
    """A pair is chosen."""
    return klog(f'"selected prefill/decode pods" request_id="{request}" prefill_pod="p" decode_pod="d"', at)


def combined(request: str = "a", at: str = "17:09:33") -> str:
    """One pod does both."""
    return klog(f'"routing to combined pod" requestId="{request}" promptLength=128', at)


def started(request: str, strategy: str = "pd") -> str:
    """A request goes to a pod."""
    return klog(f'"request_start" request_id="{request}" model="m"' + f' routing_strategy="{strategy}"' * bool(strategy))


def failed(message: str, key: str = "request_id", request: str = "a") -> str:
    """An error that names a request."""
    error = 'failed to execute http prefill request: Post \\"http://10.0.0.11:8000\\": context deadline exceeded'
    return klog(f'"{message}" err="{error}" {key}="{request}"', level="E")


def series(*lines: str, **settings: Any) -> Series:
    """What a source shows that is not about its lines."""
    source = Source("test", year=2026, **settings)
    source.feed("".join(f"{line}\n" for line in lines).encode())
    return {(each.family, *each.labels): float(each.value) for each in source.samples(None)}


def told(shown: Series, family: str) -> dict[str, float]:
    """The series of a family with one label that are not 0."""
    return {labels[0]: value for (name, *labels), value in shown.items() if name == family and value}


def checks(shown: Series) -> dict[str, str]:
    """The status of each check."""
    return {labels[0]: labels[1] for (name, *labels), value in shown.items() if name == "pd_evidence" and value}


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "routes", "reasons"),
    [
        ([selected("a"), selected("b"), combined("c")], {"pd": 2, "combined": 1}, {}),
        (
            [selected("a"), failed("prefill_request_failed"), failed("pd-do-prefill-request-error"), failed("failed to select target pod", "requestID")],
            {"pd": 1, "failed": 1},
            {"prefill_timeout": 1},
        ),
        ([failed("prefill_request_failed", request="a"), failed("prefill_request_failed", request="b")], {"failed": 2}, {"prefill_timeout": 2}),
        ([asked("a"), started("a", "least-request"), asked("b"), started("b", "")], {"not_pd": 2}, {}),
        ([asked("a"), selected("a"), started("a")], {"pd": 1}, {}),
        ([asked("a"), combined("a"), started("a")], {"combined": 1}, {}),
        ([asked("a"), started("a")], {"combined": 1}, {}),
        ([started("a")], {}, {}),
        ([failed("prefill_request_failed"), klog('"request end" requestID="a" errorCode=503 errorMessage="x"')], {"failed": 1}, {"prefill_timeout": 1}),
        ([klog('"request end" requestID="a" errorCode=500 errorMessage="x"')], {"failed": 1}, {"other": 1}),
        ([klog('"request end" requestID="a" errorCode=429 errorMessage="x"')], {}, {}),
        ([klog('"request_end" request_id="a" total_tokens=1')], {}, {}),
        ([klog('"no ready pod available" requestID="a" model="m"', level="E")], {"failed": 1}, {"no_pod": 1}),
    ],
    ids=[
        "pairs and one pod",
        "one failure told three times",
        "two failures",
        "past the strategy",
        "a pair",
        "one pod by decision",
        "the only pod that is ready",
        "of a log that begins later",
        "failed, then answered",
        "an error of the decode engine",
        "a client's error",
        "a success",
        "no pod",
    ],
)  # fmt: skip
def test_requests_of_aibrix(lines: list[str], routes: dict[str, float], reasons: dict[str, float]) -> None:
    """A decision is counted when it is made, a failure once a request, whatever spelling its id has."""
    shown = series(*lines)
    assert told(shown, "gateway_pd_routes_total") == routes
    assert told(shown, "gateway_failures_total") == reasons


@pytest.mark.parametrize(
    ("lines", "routes", "reasons"),
    [
        ([klog('"request failed" err=null logger="proxy server" code=502 body=""'), klog('"fallback to decode" request_id="a"')], {"combined": 1}, {"prefill_unreachable": 1}),
        ([klog('"request failed" logger="proxy server" code=500')], {"failed": 1}, {"prefill_rejected": 1}),
        ([klog('"request failed" logger="proxy server" code=400')], {}, {}),
        ([klog('"prefill request failed" err="prefill returned 503" request_id="a" body="x"')], {"failed": 1}, {"prefill_rejected": 1}),
        ([klog('"running NIXL protocol V2" url="10.0.0.1:8000"')], {"pd": 1}, {}),
    ],
    ids=["falls back", "has no fall-back", "refused for the client", "later release", "at --v=4"],
)  # fmt: skip
def test_requests_of_llm_d(lines: list[str], routes: dict[str, float], reasons: dict[str, float]) -> None:
    """A prefill that failed fails the request only where the sidecar does not fall back to decode alone."""
    shown = series(*lines)
    assert told(shown, "gateway_pd_routes_total") == routes
    assert told(shown, "gateway_failures_total") == reasons


START = gateway_header("sglang_router") + "smg::server: Starting router on 127.0.0.1:39917 | mode: {} {{ }} | policy: X"
DONE = "finished processing request"


@pytest.mark.parametrize(
    ("lines", "routes", "responses"),
    [
        ([START.format("PrefillDecode"), rust(DONE, "a", status=" status_code=200"), rust(DONE, "b", status=" status_code=200")], {"pd": 2}, {"2xx": 2}),
        ([START.format("Regular"), rust(DONE, status=" status_code=200")], {}, {"2xx": 1}),
        ([rust(DONE, status=" status_code=200")], {}, {"2xx": 1}),
        ([rust("Failed to select PD pair error=x")] * 5 + [rust("request failed with server error", status=" status_code=503")], {"failed": 1}, {"5xx": 1}),
        ([rust("Decode request failed", "a"), rust("Decode request failed", "b")], {"failed": 2}, {}),
    ],
    ids=["pairs", "no pairs", "nobody knows", "one failure and its retries", "two requests"],
)  # fmt: skip
def test_requests_of_sglangs_router(lines: list[str], routes: dict[str, float], responses: dict[str, float]) -> None:
    """Between prefill and decode engines whatever was answered went to a pair."""
    shown = series(*lines)
    assert told(shown, "gateway_pd_routes_total") == routes
    assert told(shown, "http_responses_total") == responses


def test_a_prefill_has_its_duration_where_it_can_be_one() -> None:
    """One that was never set counts for nothing."""
    lines = (f'"prefill_request_end" request_id="a" prefill_time_taken="{each}"' for each in ("100ms", "1.5s", "-2562047h47m16.854775808s"))
    shown = series(*map(klog, lines))
    assert shown["gateway_prefills_total",] == 2
    assert shown["gateway_prefill_seconds_total",] == pytest.approx(1.6)


# -- what it shows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", sorted(GATEWAYS))
def test_a_gateway_is_no_engine(runtime: str) -> None:
    """It has no state, no cache, no role and no verdict, and of the evidence what a gateway can know."""
    sample = next(sample for rule in registry() if rule.runtime == runtime for sample in rule.samples.values())
    shown = series(gateway_header(runtime) + sample)
    families = {family for family, *_ in shown}
    assert {
        family
        for family in families
        if not family.startswith(("gateway_", "http_", "log_", "unrecognised_", "cut_", "unseparated_", "source_", "series_"))
    } == {"pd_evidence"}
    assert set(checks(shown)) == {"pair_selected", "params_injected"}


def test_what_a_gateway_can_count_is_there_from_its_first_line() -> None:
    """And nothing that it never tells: vLLM's proxy is silent about parameters."""
    shown = series(gateway_header("vllm_proxy") + "Ready: 1 prefill, 1 decode instances")
    assert {labels for labels in shown if labels[0].startswith("gateway_")} == {
        ("gateway_pd_routes_total", "pd"),
        ("gateway_prefills_total",),
        ("gateway_prefill_seconds_total",),
    }
    assert checks(shown) == {"pair_selected": "unknown", "params_injected": "unknown"}


INJECTED = '"updated routing context with kv_transfer_params (SHFS)" request_id="a"'
MISSING = '"no kv_transfer_params in prefill response (SHFS)" request_id="a"'
NEURON = '"updated routing context with disagg_prefill_resp (NIXL)" request_id="a"'


@pytest.mark.parametrize(
    ("lines", "settings", "pair", "params"),
    [
        ([selected()], {}, "pass", "unknown"),
        ([combined()], {}, "fail", "unknown"),
        ([combined()], {"pd_expect": "mixed"}, "unknown", "unknown"),
        ([selected(), *[combined()] * 9], {"pd_expect": "mixed"}, "pass", "unknown"),
        ([*[selected()] * 39, combined()], {}, "pass", "unknown"),
        ([*[selected()] * 41, combined(), combined()], {}, "pass", "unknown"),
        ([*[selected()] * 38, combined(), combined()], {}, "fail", "unknown"),
        ([selected("a"), failed("prefill_request_failed", request="a"), failed("prefill_request_failed", request="b")], {"pd_expect": "mixed"}, "fail", "unknown"),
        ([klog(INJECTED)], {}, "unknown", "pass"),
        ([klog(MISSING)], {}, "unknown", "fail"),
        ([klog(NEURON)], {}, "unknown", "fail"),
        ([*[klog(INJECTED)] * 3, klog(MISSING), klog(NEURON)], {}, "unknown", "fail"),
        ([combined(at="17:00:00"), selected(at="17:04:00")], {}, "pass", "unknown"),
        ([combined(at="17:00:00"), combined(at="17:00:01"), selected(at="17:07:00")], {}, "pass", "unknown"),
        ([selected(at="17:00:00"), klog('"something" a=1', "17:09:00")], {}, "unknown", "unknown"),
    ],
    ids=[
        "a pair", "one pod", "one pod by design", "most by design", "one of forty", "below a share", "a share", "failures whatever is expected",
        "injected", "missing", "of Neuron", "some", "a single one", "long ago", "quiet",
    ],
)  # fmt: skip
def test_evidence_of_the_last_five_minutes(lines: list[str], settings: dict[str, str], pair: str, params: str) -> None:
    """As with transfers, two requests and five of a hundred, or all of them, make a failure."""
    assert checks(series(*lines, **settings)) == {"pair_selected": pair, "params_injected": params}


def test_ids_pods_and_addresses_are_in_no_series() -> None:
    """Nor in an event that is shown."""
    lines = [
        asked("canary"),
        selected("canary"),
        failed("prefill_request_failed", request="canary"),
        rust("Decode request failed", "canary"),
    ]
    source = Source("test", year=2026)
    found = source.feed("".join(f"{line}\n" for line in lines).encode())
    shown = [event_line("test", each, source.clock) for each in found]

    assert len(shown) == len(lines)
    for word in ("canary", "10.0.0.11", "prefill_pod"):
        assert word not in f"{shown}{list(source.samples(None))}"
