"""llm-d: the routing sidecar before a decode engine, and the endpoint picker (EPP) that chooses the pair."""

import re

from parsers.events import NOTHING, Nothing
from parsers.gateway.klog import Fields
from parsers.gateway.series import failures, params, route
from parsers.gateway_events import GatewayFailed, GatewayKvParams, GatewayRouted
from parsers.rules import Scope, rule

_BAD_GATEWAY = 502
_SERVER_ERROR = 500


def _refused(code: int) -> str:
    """The sidecar answers 502 itself when it cannot reach the prefill engine; 4xx are the client's."""
    if code == _BAD_GATEWAY:
        return "prefill_unreachable"
    return "prefill_rejected" if code >= _SERVER_ERROR else ""


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor='"running ',
    pattern=r"\"running (?:NIXL protocol V[12]|LMCache protocol)\"",
    source=("running NIXL protocol V2", "running LMCache protocol"),
    samples={
        "llm-d": '"running NIXL protocol V2" logger="proxy server" url="10.244.0.29:8000"',
    },
    emits=route("pd"),
)
def prefill_asked(_: re.Match[str]) -> GatewayRouted:
    """A prefill engine is asked first; since the end of 2025 only told at --v=4."""
    return GatewayRouted("pd", None)


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor=(
        '"fallback to decode"',
        '"skip disaggregated prefill"',
        '"Input is shorter than the ',
        '"unable to read prefix cache state"',
        '"unable to read precise prefix cache state"',
        '"prefix decider: endpoint is nil"',
    ),
    pattern=(
        r"\"(?:fallback to decode|skip disaggregated prefill|unable to read (?:precise )?prefix cache state|prefix decider: endpoint is nil"
        r"|Input is shorter than the [\w ]{1,32}, no disaggregated PD)\""
    ),
    source=(
        "fallback to decode",
        "skip disaggregated prefill",
        "Input is shorter than the nonCachedToken, no disaggregated PD",
        "unable to read prefix cache state",
        "prefix decider: endpoint is nil",
    ),
    samples={
        "llm-d": '"fallback to decode" logger="proxy server" request_id="uuid"',
        "llm-d 0.7.1": '"unable to read prefix cache state"',
    },
    emits=route("combined"),
)
def decode_alone(found: re.Match[str]) -> GatewayRouted:
    """The decode engine computes the prompt: its prefill failed, the picker chose so, or could not tell what is cached."""
    return GatewayRouted("combined", Fields(found.string, found.end()).request)


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor="\"warning: missing '",
    pattern=r"\"warning: missing '(?:kv_transfer_params|remote_block_ids)' field in prefiller response\"",
    source=(
        "warning: missing 'kv_transfer_params' field in prefiller response",
        "warning: missing 'remote_block_ids' field in prefiller response",
    ),
    samples={"llm-d": '"warning: missing \'kv_transfer_params\' field in prefiller response" logger="proxy server"'},
    emits=params("missing"),
)
def prefill_named_no_kv(_: re.Match[str]) -> GatewayKvParams:
    """The request goes on all the same, and the decode engine computes the prompt again."""
    return GatewayKvParams("missing", None)


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor='"received prefiller response"',
    pattern=r"\"received prefiller response\" (?:logger=\"[^\"\\]{0,64}\" )?kv_transfer_params=(\{)?",
    source="received prefiller response",
    samples={
        "llm-d 0.3.0": '"received prefiller response" logger="proxy server" kv_transfer_params={"do_remote_decode":false,'
        '"do_remote_prefill":true,"remote_block_ids":[8],"remote_engine_id":"5f443848-0eda-46d6-a5fe-a293deb30eca",'
        '"remote_host":"10.244.0.29","remote_port":5600,"tp_size":1}',
    },
    emits=params("injected"),
)
def prefill_named_kv(found: re.Match[str]) -> GatewayKvParams | Nothing:
    """The parameters go into the decode request as they are; since the end of 2025 only told at --v=5."""
    return GatewayKvParams("injected", None) if found[1] else NOTHING


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor=('"request failed" ', '"prefill request failed" err="prefill returned '),
    pattern=r"\"(?:request failed\"(?= (?:err=[^ ]{1,64} )?(?:logger=\"[^\"\\]{0,64}\" )?code=)|prefill request failed\" err=\"prefill returned (\d{3})\")",
    source=("request failed", "prefill request failed"),
    samples={
        "llm-d": '"request failed" err=null logger="proxy server" code=502 body=""',
        "llm-d 0.9.0": '"prefill request failed" err="prefill returned 503" logger="proxy server" request_id="uuid" body="overloaded"',
    },
    emits=failures("prefill_unreachable", "prefill_rejected"),
)
def prefill_refused(found: re.Match[str]) -> GatewayFailed | Nothing:
    """The prefill engine's error ends the request, but for the releases that print its body: they fall back to decode alone."""
    fields = Fields(found.string, found.end())
    code = int(found[1]) if found[1] else fields.number("code")
    why = _refused(code)
    return GatewayFailed(why, fields.request, survived=not found[1] and "body" in fields) if why else NOTHING


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor='"SSRF protection: prefill target not in allowlist"',
    pattern=r"\"SSRF protection: prefill target not in allowlist\"",
    source="SSRF protection: prefill target not in allowlist",
    samples={
        "llm-d": '"SSRF protection: prefill target not in allowlist" err=null logger="proxy server" target="10.0.0.1:8000" '
        'clientIP="10.0.0.2:41022" userAgent="curl/8.5.0" requestPath="/v1/completions"',
    },
    emits=failures("not_allowed"),
)
def target_not_allowed(found: re.Match[str]) -> GatewayFailed:
    """The picker named a prefill pod that the sidecar does not know (yet): the client gets 403."""
    return GatewayFailed("not_allowed", Fields(found.string, found.end()).request)


@rule(
    runtime="llm-d",
    scope=Scope.GATEWAY,
    anchor=(
        '"Proxy starting"',
        '"sending request to prefiller"',
        '"retrying prefill request"',
        '"waiting for vLLM to be ready"',
        '"failed to connect to vLLM decoder"',
        '"http: proxy error"',
    ),
    pattern=(
        r"\"(?:Proxy starting|sending request to prefiller|retrying prefill request|waiting for vLLM to be ready"
        r"|failed to connect to vLLM decoder|http: proxy error)\""
    ),
    source=("waiting for vLLM to be ready", "failed to connect to vLLM decoder", "http: proxy error"),
    samples={
        "llm-d 0.2.0": '"waiting for vLLM to be ready" err="dial tcp [::1]:8001: connect: connection refused" logger="proxy server"',
        "llm-d 0.4.0": '"http: proxy error" err="context canceled" decoderURL="http://localhost:8200"',
    },
)
def decoder_away(_: re.Match[str]) -> Nothing:
    """Said of probes as of requests, of clients that went away as of an engine that is not up: it counts as nothing."""
    return NOTHING
