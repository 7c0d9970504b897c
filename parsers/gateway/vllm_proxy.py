"""vLLM's example proxy for several turns, disagg_proxy_multiturn.py. It says nothing when a prefill names no KV."""

import re

from parsers.events import NOTHING, Nothing
from parsers.gateway.series import prefills, route
from parsers.gateway_events import GatewayPrefilled
from parsers.rules import Scope, rule
from parsers.units import DECIMAL, MILLISECOND


@rule(
    runtime="vllm_proxy",
    scope=Scope.GATEWAY,
    anchor="Prefill done in ",
    pattern=rf"Prefill done in {DECIMAL}ms",
    source="[%s] Prefill done in %.0fms",
    samples={"vllm_proxy": "Prefill done in 123ms"},
    emits=[*route("pd"), *prefills()],
)
def proxy_prefilled(found: re.Match[str]) -> GatewayPrefilled:
    """Each request goes to a prefill engine first; whether the decode engine could use it, the proxy does not say."""
    return GatewayPrefilled(float(found[1]) * MILLISECOND, None, decided=True)


@rule(
    runtime="vllm_proxy",
    scope=Scope.GATEWAY,
    anchor=("conv=", "No conversation_id provided", "Ready: "),
    pattern=r"(?:conv=[^\n]{0,256}?: (?:cache (?:HIT|MISS)|cached D blocks|stale cache entry|sending D's cached blocks)|No conversation_id provided|Ready: \d{1,6} prefill, )",
    source=("[%s] conv=%s: cache MISS", "[%s] No conversation_id provided", "Ready: %d prefill, %d decode instances"),
    samples={
        "vllm_proxy": "No conversation_id provided — KV cache reuse disabled for this request. Add a 'conversation_id' field to enable "
        "cross-turn KV sharing. When using benchmarks/multi_turn/benchmark_serving_multi_turn.py, pass --send-conversation-id "
        "(off by default).",
    },
)
def proxy_routine(_: re.Match[str]) -> Nothing:
    """A first turn has nothing cached, and most clients name no conversation."""
    return NOTHING
