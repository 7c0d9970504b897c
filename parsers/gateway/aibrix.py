"""AIBrix's gateway plugin: what it decides about a request, and what becomes of it (0.4 to the main branch of August 2026)."""

import re

from parsers.events import NOTHING, Nothing
from parsers.gateway.causes import PREFILL, reason
from parsers.gateway.klog import Fields
from parsers.gateway.series import answers, failures, params, prefills, route
from parsers.gateway_events import (
    GatewayAnswered,
    GatewayAsked,
    GatewayFailed,
    GatewayForwarded,
    GatewayKvParams,
    GatewayPrefilled,
    GatewayRouted,
)
from parsers.rules import Scope, rule

_STRATEGY_KEYS = ("routing_strategy", "routingStrategy", "routingAlgorithm")
_PREFILL_REASONS = ("prefill_timeout", "prefill_unreachable", "prefill_rejected", PREFILL)
_OK = 200


def _fields(found: re.Match[str]) -> Fields:
    return Fields(found.string, found.end())


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"processing request" requestID=',
    pattern=r"\"processing request\"(?= requestID=)",
    source="processing request",
    samples={"aibrix 0.7.0": '"processing request" requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001"'},
)
def request_received(found: re.Match[str]) -> GatewayAsked:
    """A request comes in."""
    return GatewayAsked(_fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"selected prefill/decode pods"',
    pattern=r"\"selected prefill/decode pods\"",
    source="selected prefill/decode pods",
    samples={
        "aibrix 0.7.0": '"selected prefill/decode pods" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001" '
        'prefill_pod="dsv4-prefill-head-abcde" decode_pod="dsv4-decode-head-fghij"',
    },
    emits=route("pd"),
)
def pair_selected(found: re.Match[str]) -> GatewayRouted:
    """A pair is chosen."""
    return GatewayRouted("pd", _fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=(
        '"routing to combined pod"',
        '"no bucket matches prompt length, routing to combined pod"',
        '"load imbalance detected, selecting combined pod"',
    ),
    pattern=r"\"(?:(?:no bucket matches prompt length, )?routing to combined pod|load imbalance detected, selecting combined pod)\"",
    source=(
        "routing to combined pod",
        "no bucket matches prompt length, routing to combined pod",
        "load imbalance detected, selecting combined pod",
    ),
    samples={
        "aibrix 0.7.0": '"routing to combined pod" requestId="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0004" promptLength=128',
        "aibrix": '"no bucket matches prompt length, routing to combined pod" requestId="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0009" '
        "promptLength=90000 combinedPods=2 bucketPrefillPods=0 bucketDecodePods=0",
    },
    emits=route("combined"),
)
def combined_selected(found: re.Match[str]) -> GatewayRouted:
    """One pod does both: no bucket fits the prompt, or the pairs have too much to do."""
    return GatewayRouted("combined", _fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=('"request_start" ', '"request start" '),
    pattern=r"\"request[_ ]start\"(?= request(?:_id|ID)=)",
    source=("request_start", "request start"),
    samples={
        "aibrix 0.7.0": '"request_start" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001" request_path="/v1/completions" '
        'model="deepseek-v4-flash-ray-pd" stream=true routing_strategy="pd" target_pod="dsv4-decode-head-fghij" '
        'target_pod_ip="10.0.0.12:8000" outstanding_requests=0 routing_time_taken="1.1ms"',
        "aibrix": '"request start" requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0010" requestPath="/v1/completions" '
        'model="deepseek-v4-flash-ray-pd" stream=true',
    },
    emits=route("not_pd", "combined"),
)
def request_forwarded(found: re.Match[str]) -> GatewayRouted | GatewayForwarded:
    """Without the strategy `pd` the request never came near a pair: where one is there, its profile was not applied."""
    fields = _fields(found)
    strategy = next((fields[key] for key in _STRATEGY_KEYS if key in fields), "")
    return GatewayForwarded(fields.request) if strategy == "pd" else GatewayRouted("not_pd", fields.request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"updated routing context with kv_transfer_params',
    pattern=r"\"updated routing context with kv_transfer_params(?: \(SHFS\))?\"",
    source="updated routing context with kv_transfer_params",
    samples={
        "aibrix 0.7.0": '"updated routing context with kv_transfer_params (SHFS)" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001" '
        'prefill_pod="dsv4-prefill-head-abcde" prefill_host="10.0.0.11" kv_connector_type="shfs"',
    },
    emits=params("injected"),
)
def params_injected(found: re.Match[str]) -> GatewayKvParams:
    """The decode engine is told where the KV is."""
    return GatewayKvParams("injected", _fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"no kv_transfer_params in prefill response',
    pattern=r"\"no kv_transfer_params in prefill response(?: \(SHFS\))?\"",
    source="no kv_transfer_params in prefill response",
    samples={
        "aibrix 0.7.0": '"no kv_transfer_params in prefill response (SHFS)" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0002"',
    },
    emits=params("missing"),
)
def params_missing(found: re.Match[str]) -> GatewayKvParams:
    """The prefill engine named no KV, the decode engine computes the prompt again, and all of it counts as success."""
    return GatewayKvParams("missing", _fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"updated routing context with disagg_prefill_resp',
    pattern=r"\"updated routing context with disagg_prefill_resp \(NIXL\)\"",
    source="updated routing context with disagg_prefill_resp (NIXL)",
    samples={
        "aibrix 0.7.0": '"updated routing context with disagg_prefill_resp (NIXL)" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0003" '
        'prefill_pod="dsv4-prefill-head-abcde" prefill_host="10.0.0.11" kv_connector_type="nixl"',
    },
    emits=params("wrong_connector"),
)
def wrong_connector(found: re.Match[str]) -> GatewayKvParams:
    """The protocol of AWS Neuron, which a vLLM on GPUs does not read: it computes the prompt again."""
    return GatewayKvParams("wrong_connector", _fields(found).request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor='"prefill_request_end"',
    pattern=r"\"prefill_request_end\"",
    source="prefill_request_end",
    samples={
        "aibrix 0.7.0": '"prefill_request_end" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001" llm_engine="vllm" '
        'model_name="deepseek-v4-flash-ray-pd" prefill_pod="dsv4-prefill-head-abcde" prefill_url="http://10.0.0.11:8000/v1/completions" '
        'prefill_score_policy="prefix_cache" decode_score_policy="load_balancing" routing_time_taken="1.1ms" prefill_time_taken="100.1ms" '
        "outstanding_prefill_requests=0",
    },
    emits=prefills(),
)
def prefill_ended(found: re.Match[str]) -> GatewayPrefilled:
    """The prefill engine answered."""
    fields = _fields(found)
    return GatewayPrefilled(fields.seconds("prefill_time_taken"), fields.request)


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=('"prefill_request_failed"', '"pd-do-prefill-request-error"', '"prefill request failed" err='),
    pattern=r"\"(?:prefill_request_failed|pd-do-prefill-request-error|prefill request failed)\"(?= err=\"(?!prefill returned ))",
    source=("prefill_request_failed", "pd-do-prefill-request-error", "prefill request failed"),
    samples={
        "aibrix 0.7.0": '"prefill_request_failed" err="failed to execute http prefill request: Post \\"http://10.0.0.11:8000/v1/completions\\": '
        'context deadline exceeded" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0006" llm_engine="vllm" prefill_pod="dsv4-prefill-head-abcde" '
        'prefill_pod_ip="10.0.0.11" elapsed="30.0021s"',
    },
    emits=failures(*_PREFILL_REASONS),
)
def prefill_failed(found: re.Match[str]) -> GatewayFailed | Nothing:
    """Told twice of one request, and a third time by `target_not_selected`."""
    fields = _fields(found)
    why = reason(fields.get("err", ""), PREFILL)
    return GatewayFailed(why, fields.request) if why else NOTHING


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=('"failed to select target pod"', '"no ready pod available"'),
    pattern=r"\"(failed to select target pod|no ready pod available)\"",
    source=("failed to select target pod", "no ready pod available"),
    samples={
        "aibrix 0.7.0": '"failed to select target pod" err="failed to filter prefill/decode pods for request '
        '6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0007: prefill pods are not ready: prefill=0, decode=1" '
        'requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0007" routingStrategy="pd" model="deepseek-v4-flash-ray-pd" routingDuration="310µs"',
    },
    emits=failures("no_pod", "no_prefill", "no_decode", "no_pair", *_PREFILL_REASONS, "other"),
)
def target_not_selected(found: re.Match[str]) -> GatewayFailed | Nothing:
    """The request is answered with 503."""
    fields = _fields(found)
    why = "no_pod" if found[1].startswith("no ") else reason(fields.get("err", ""), "other")
    return GatewayFailed(why, fields.request) if why else NOTHING


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=('"request_end"', '"request end"'),
    pattern=r"\"request[_ ]end\"(?= request(?:_id|ID)=)",
    source=("request_end", "request end"),
    samples={
        "aibrix 0.7.0": '"request end" requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0007" errorCode=503 '
        'errorMessage="error on selecting target pod"',
    },
    emits=answers(),
)
def request_ended(found: re.Match[str]) -> GatewayAnswered | Nothing:
    """With a space and a code it is an error; a success is told only where the answer had its usage."""
    fields = _fields(found)
    code = fields.number("errorCode") if "errorCode" in fields else _OK
    return GatewayAnswered(code, fields.request) if code else NOTHING


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=("using AIBRIX_", "environment variable AIBRIX_", "unrecognized kv-connector-type label "),
    pattern=(
        r"(?:using AIBRIX_\w{1,96} env value for |environment variable AIBRIX_\w{1,96} is not set, using default value: "
        r"|unrecognized kv-connector-type label )"
    ),
    source=(
        "using %s env value for ",
        "environment variable %s is not set, using default value: %s",
        "unrecognized kv-connector-type label %q, falling back to global config (%s)",
    ),
    samples={
        "aibrix 0.2.1": "environment variable AIBRIX_PREFIX_CACHE_BLOCK_SIZE is not set, using default value: ",
        "aibrix 0.7.0": 'unrecognized kv-connector-type label "shf", falling back to global config (shfs)',
    },
)
def gateway_settings(_: re.Match[str]) -> Nothing:
    """Its start-up, and a label that is misspelt: what comes of that, `gateway_kv_params_total` tells."""
    return NOTHING


@rule(
    runtime="aibrix",
    scope=Scope.GATEWAY,
    anchor=(
        '"model doesn\'t exist in cache, probably wrong model name"',
        '"client closed stream (EOF) before completion"',
        '"context cancelled"',
    ),
    pattern=(
        r"\"(?:model doesn't exist in cache, probably wrong model name|client closed stream \(EOF\) before completion"
        r"|context cancelled)\""
    ),
    source=("model doesn't exist in cache, probably wrong model name", "client closed stream (EOF) before completion", "context cancelled"),
    samples={
        "aibrix": '"client closed stream (EOF) before completion" requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0011" model="m"',
    },
)
def client_erred(_: re.Match[str]) -> Nothing:
    """The client went away or asked for what is not there: nothing of the pair."""
    return NOTHING
