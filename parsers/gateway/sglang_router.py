"""SGLang's router (sglang_router_rs, from 0.3 on smg), in Rust: the request's spans stand before the message."""

import re

from parsers.events import NOTHING, Nothing
from parsers.gateway.series import answers, failures, route
from parsers.gateway_events import GatewayAnswered, GatewayFailed, GatewayMode
from parsers.rules import Scope, rule

# What a client sends stands in quotes with its own escaped, or is an address without blanks and braces.
_FIELDS = r"[^\"{}\n]{0,512}(?:\"[^\"\\\n]{0,256}(?:\\.[^\"\\\n]{0,256}){0,16}\"[^\"{}\n]{0,512}){0,8}"
_HEAD = (
    rf"((?:http_request\{{{_FIELDS}\}}:){{1,3}} )?(?:sglang_router_rs|smg)(?:::\w{{1,64}}){{0,8}}: (?:[\w./-]{{1,256}}\.rs:\d{{1,6}}: )?"
)
_ANCHORS = ("http_request{", "sglang_router_rs::", "smg::")

_ID = re.compile(r".* request_id=\"?([^\"\s{}]{1,256})", re.ASCII | re.DOTALL)
_STATUS = re.compile(r".* status(?:_code)?=([1-5]\d\d)\b", re.ASCII | re.DOTALL)
_INFERENCE = re.compile(
    r"http_request\{method=POST uri=(?P<tokens>/generate\b|/v1/chat/completions\b|/v1/completions\b)?(?:/v1/)?", re.ASCII
)
_SERVER_ERROR = 500


def _request(found: re.Match[str]) -> str | None:
    """The id in the innermost span, behind whatever the address says."""
    spans = _ID.match(found[1] or "")
    return spans[1] if spans else None


def _failed(why: str, found: re.Match[str], status: str | None) -> GatewayFailed | Nothing:
    """A failure of the pair; what an engine says of a client's request is none."""
    return GatewayFailed(why, _request(found)) if status is None or int(status) >= _SERVER_ERROR else NOTHING


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"Starting router on [^\s|]{1,128} \| mode: (\w{1,32})",
    source="Starting router on {}:{} | mode: {:?}",
    samples={
        "sglang_router 0.3.2": "smg::server: /build/sglang/sglang/src/server.rs:794: Starting router on 127.0.0.1:39917 | mode: PrefillDecode "
        '{ prefill_urls: [("http://127.0.0.1:39901", Some(8998))], decode_urls: ["http://127.0.0.1:39902"], prefill_policy: None, '
        "decode_policy: None } | policy: CacheAware { cache_threshold: 0.3, balance_abs_threshold: 64, balance_rel_threshold: 1.5, "
        "eviction_interval_secs: 60, max_tree_size: 67108864 } | max_payload: 512MB",
    },
    emits=route("pd"),
)
def router_started(found: re.Match[str]) -> GatewayMode:
    """Between prefill and decode engines there is no other way for a request than a pair."""
    return GatewayMode(found[2] == "PrefillDecode")


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"Failed to select PD pair(?: error=|: )(?:[Nn]o (?:available )?|Failed to select )?(prefill|decode)?",
    source="Failed to select PD pair error={}",
    samples={
        "sglang_router 0.3.2": 'http_request{method=POST uri=/v1/chat/completions version=HTTP/1.1 module="smg" '
        'request_id="chatcmpl-EbeJJRCEYJatEWSR41sIXg1E"}: smg::routers::http::pd_router: '
        "/build/sglang/sglang/src/routers/http/pd_router.rs:170: Failed to select PD pair error=No prefill workers available. Please check if "
        "prefill servers are configured and healthy.",
    },
    emits=failures("no_prefill", "no_decode", "no_pair"),
)
def pair_not_selected(found: re.Match[str]) -> GatewayFailed:
    """Told at each retry of the request."""
    return GatewayFailed(f"no_{found[2] or 'pair'}", _request(found))


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"Prefill server (?:failed \(CRITICAL\)|returned error status prefill_url=\S{1,256} status=([1-5]\d\d))",
    source=("Prefill server failed (CRITICAL) prefill_url={} error={}.", "Prefill server returned error status prefill_url={} status={}"),
    samples={
        "sglang_router": "sglang_router_rs::routers::http::pd_router: Prefill server failed (CRITICAL) prefill_url=http://10.0.0.1:30000 "
        "error=error sending request. Decode will timeout without prefill KV cache.",
    },
    emits=failures("prefill_unreachable", "prefill_rejected"),
)
def prefill_server_failed(found: re.Match[str]) -> GatewayFailed | Nothing:
    """The router answers 502: it never lets a decode engine do both."""
    return _failed("prefill_rejected" if found[2] else "prefill_unreachable", found, found[2])


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"Decode (?:request failed|server returned error status decode_url=\S{1,256} status=([1-5]\d\d))",
    source=("Decode request failed", "Decode server returned error status decode_url={} status={}"),
    samples={
        "sglang_router 0.3.2": 'http_request{method=POST uri=/v1/chat/completions version=HTTP/1.1 module="smg" '
        'request_id="chatcmpl-Wly2zVLtUcyK1Vg13jmipvFZ"}: smg::routers::http::pd_router: '
        "/build/sglang/sglang/src/routers/http/pd_router.rs:590: Decode server returned error status "
        "decode_url=http://10.99.91.49:30001 status=500 Internal Server Error",
    },
    emits=failures("decode_unreachable", "decode_rejected"),
)
def decode_server_failed(found: re.Match[str]) -> GatewayFailed | Nothing:
    """Told at each retry of the request."""
    return _failed("decode_rejected" if found[2] else "decode_unreachable", found, found[2])


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"(?:finished processing request|request failed with (?:server|client) error)",
    source=("finished processing request", "request failed with server error"),
    samples={
        "sglang_router 0.3.2": 'http_request{method=POST uri=/v1/chat/completions version=HTTP/1.1 module="smg" '
        'request_id="chatcmpl-EbeJJRCEYJatEWSR41sIXg1E" status_code=503 latency=405062}: smg::response: '
        "/build/sglang/sglang/src/middleware.rs:349: request failed with server error",
    },
    emits=answers(),
)
def client_answered(found: re.Match[str]) -> GatewayAnswered | Nothing:
    """The answer to a client, with its status in the span; probes and the router's own pages are left out."""
    spans = found[1] or ""
    asked, status = _INFERENCE.match(spans), _STATUS.match(spans)
    if asked is None or status is None or not (asked["tokens"] or asked[0].endswith("/v1/")):
        return NOTHING
    return GatewayAnswered(int(status[1]), _request(found), generates=asked["tokens"] is not None)


@rule(
    runtime="sglang_router",
    scope=Scope.GATEWAY,
    anchor=_ANCHORS,
    pattern=_HEAD + r"(?:Step failed |Workflow failed |Failed job: type=)",
    source=("Step failed", "Workflow failed", "Failed job: type={}, worker={}, error={}"),
    samples={
        "sglang_router 0.3.2": "smg::workflow::event: /build/sglang/sglang/src/workflow/event.rs:270: Workflow failed "
        "instance_id=a2a62488-1e43-4cfa-9caf-a9d27d69c2fe failed_step=detect_connection_mode "
        'error="Workflow failed due to step dependency failure"',
    },
)
def worker_not_joined(_: re.Match[str]) -> Nothing:
    """A worker is not up yet: told at each of many tries. When requests miss it, `pair_not_selected` says so."""
    return NOTHING
