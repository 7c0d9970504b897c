"""Settings that vLLM warns of once at start-up and that explain later trouble."""

import re

from parsers.events import Hazard
from parsers.rules import Scope, Series, rule


def _hazard(kind: str) -> list[Series]:
    return [Series("config_hazards_total", {"kind": kind})]


@rule(
    anchor="Unknown vLLM environment variable detected: ",
    pattern=r"Unknown vLLM environment variable detected: (\w{1,128})",
    source="Unknown vLLM environment variable detected: %s",
    samples={"0.26.0": "Unknown vLLM environment variable detected: VLLM_NIXL_SIDECHANNEL_HOST"},
    since="0.18",
    emits=_hazard("unknown_env"),
)
def unknown_environment(found: re.Match[str]) -> Hazard:
    """A misspelt variable has no effect; several processes may say so."""
    return Hazard("unknown_env", found[1])


@rule(
    anchor="Using KV cache scaling factor 1.0 for ",
    pattern=r"Using KV cache scaling factor 1\.0 for (\w+)",
    source="Using KV cache scaling factor 1.0 for fp8_e4m3.",
    samples={
        "0.26.0": "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are properly set "
        "in the checkpoint.",
    },
    emits=_hazard("fp8_kv_unscaled"),
)
def unscaled_kv(found: re.Match[str]) -> Hazard:
    """FP8 KV without calibrated scales: accuracy suffers silently."""
    return Hazard("fp8_kv_unscaled", found[1])


@rule(
    anchor=(
        "Checkpoint does not provide a q scaling factor.",
        "Using uncalibrated q_scale ",
        "Found ",
        "DEPRECATED. Found kv_scale in the checkpoint",
    ),
    pattern=(
        r"(Checkpoint does not provide a q scaling factor|Using uncalibrated q_scale|DEPRECATED\. Found kv_scale in the checkpoint"
        r"|Found \w*_?scale in the checkpoint \(e\.g\. [^\n]{0,200}?but not found the expected name in the model)"
    ),
    source=(
        "Checkpoint does not provide a q scaling factor. Setting it to k_scale.",
        "Using uncalibrated q_scale ",
        "in the checkpoint (e.g. %s), but not found the expected name in the model (e.g. %s).",
    ),
    samples={
        "0.26.0": "Found kv_scale in the checkpoint (e.g. a.kv_scale), but not found the expected name in the model (e.g. a.attn.k_scale). "
        "kv_scale is not loaded.",
        "0.33.0": "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention. This may cause accuracy issues.",
    },
    emits=_hazard("fp8_kv_unscaled"),
)
def unscaled_attention(found: re.Match[str]) -> Hazard:
    """The other wordings: scales of queries, of probabilities, or under a name that the model does not know."""
    return Hazard("fp8_kv_unscaled", found[1][:24])


@rule(
    anchor=("Turning off hybrid kv cache manager because ", "Hybrid KV cache manager is disabled for this hybrid model"),
    pattern=r"(?:Turning off hybrid kv cache manager because |Hybrid KV cache manager is disabled for this hybrid model)",
    source=("Turning off hybrid kv cache manager because ", "Hybrid KV cache manager is disabled for this hybrid model, "),
    samples={
        "0.26.0": "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any optimizations for saving KV"
    },
    since="0.18",
    emits=_hazard("hybrid_kv_disabled"),
)
def hybrid_disabled(_: re.Match[str]) -> Hazard:
    """Sliding-window layers take the KV space of full ones."""
    return Hazard("hybrid_kv_disabled")


@rule(
    anchor="NIXL is not available",
    pattern=r"NIXL is not available",
    source="NIXL is not available",
    samples={"0.26.0": "NIXL is not available"},
    emits=_hazard("kv_connector_unavailable"),
)
def nixl_missing(_: re.Match[str]) -> Hazard:
    """A warning for whoever imports the connector, an error for a worker that needs it."""
    return Hazard("kv_connector_unavailable")


@rule(
    anchor=("As of transformers v4.44, default chat template", "ValueError: As of transformers v4.44, default chat template"),
    pattern=r"(?:ValueError: )?As of transformers v4\.44, default chat template is no longer allowed",
    source=(),  # transformers' own wording
    samples={
        "0.26.0": "ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template"
    },
    scope=Scope.EXCEPTION,
    emits=_hazard("chat_template_missing"),
)
def chat_template_absent(_: re.Match[str]) -> Hazard:
    """The model brings no chat template: chat requests answer 400."""
    return Hazard("chat_template_missing")


@rule(
    anchor="Chat template warmup failed",
    pattern=r"Chat template warmup failed",
    source="Chat template warmup failed",
    samples={"0.26.0": "Chat template warmup failed"},
    emits=_hazard("chat_template_missing"),
)
def chat_template_failed(_: re.Match[str]) -> Hazard:
    """Chat requests will answer 400."""
    return Hazard("chat_template_missing")


@rule(
    anchor="AsyncLLM created with api_server_count more than 1; disabling stats logging",
    pattern=r"AsyncLLM created with api_server_count more than 1; disabling stats logging",
    source="AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats.",
    samples={"0.26.0": "AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats."},
    emits=_hazard("stats_disabled"),
)
def stats_disabled(_: re.Match[str]) -> Hazard:
    """No periodic line will come."""
    return Hazard("stats_disabled")


@rule(
    anchor="Skipping V2 mixed prefill+decode warmup because only ",
    pattern=r"Skipping V2 mixed prefill\+decode warmup because only \d+ KV blocks",
    source="Skipping V2 mixed prefill+decode warmup because only %d KV blocks are available for %d required warmup blocks.",
    samples={"0.26.0": "Skipping V2 mixed prefill+decode warmup because only 3 KV blocks are available for 8 required warmup blocks."},
    since="0.26",
    emits=_hazard("warmup_incomplete"),
)
def warmup_skipped(_: re.Match[str]) -> Hazard:
    """Kernels of mixed batches will compile at the first such batch."""
    return Hazard("warmup_incomplete")


@rule(
    anchor="JIT kernel warmup failed after ",
    pattern=r"JIT kernel warmup failed after ",
    source="JIT kernel warmup failed after %.2fs.",
    samples={"0.33.0": "JIT kernel warmup failed after 3.02s."},
    since="0.32",
    emits=_hazard("warmup_incomplete"),
)
def warmup_failed(_: re.Match[str]) -> Hazard:
    """Kernels will compile while serving."""
    return Hazard("warmup_incomplete", "failed")
