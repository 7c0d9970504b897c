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
    samples={
        "0.26.0": "Unknown vLLM environment variable detected: VLLM_NIXL_SIDECHANNEL_HOST",
        "0.33.0": "Unknown vLLM environment variable detected: VLLM_NIXL_SIDECHANNEL_HOST",
    },
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
        "0.33.0": "Using KV cache scaling factor 1.0 for fp8_e4m3",
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
        "FP8 KV cache is enabled but ",
    ),
    pattern=(
        r"(Checkpoint does not provide a q scaling factor|Using uncalibrated q_scale|DEPRECATED\. Found kv_scale in the checkpoint"
        r"|Found [\w.]{0,128}scale in the checkpoint \(e\.g\. [^\n]{0,400}?but not found the expected name in the model"
        r"|FP8 KV cache is enabled but prefill queries are not quantized to FP8)"
    ),
    source=(
        "Checkpoint does not provide a q scaling factor. Setting it to k_scale.",
        "Using uncalibrated q_scale ",
        "in the checkpoint (e.g. %s), but not found the expected name in the model (e.g. %s).",
        "FP8 KV cache is enabled but prefill queries are not quantized to FP8.",
    ),
    samples={
        "0.10.2": "Found model.layers.0.self_attn.k_proj.k_scale in the checkpoint (e.g. model.layers.0.self_attn.k_proj.k_scale), but not found the "
        "expected name in the model (e.g. model.layers.0.self_attn.attn.k_scale). model.layers.0.self_attn.k_proj.k_scale is not loaded.",
        "0.26.0": "Found kv_scale in the checkpoint (e.g. a.kv_scale), but not found the expected name in the model (e.g. a.attn.k_scale). "
        "kv_scale is not loaded.",
        "0.32.0": "FP8 KV cache is enabled but prefill queries are not quantized to FP8.",
        "0.33.0": "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention. This may cause accuracy issues.",
    },
    emits=_hazard("fp8_kv_unscaled"),
)
def unscaled_attention(found: re.Match[str]) -> Hazard:
    """The other wordings: queries without scales, probabilities without, or scales under a name that the model does not know."""
    return Hazard("fp8_kv_unscaled", found[1].partition(" ")[0])


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
    samples={
        "0.26.0": "Chat template warmup failed",
        "0.33.0": "Chat template warmup failed",
    },
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


@rule(
    anchor=("No FlashInfer autotune cache entries found.", "Skipping FlashInfer autotune because it is disabled."),
    pattern=r"(No FlashInfer autotune cache entries found\.|Skipping FlashInfer autotune because it is disabled\.)",
    source=("No FlashInfer autotune cache entries found.", "Skipping FlashInfer autotune because it is disabled."),
    samples={
        "0.26.0": "No FlashInfer autotune cache entries found.Falling back to default tactics.",
        "0.33.0": "Skipping FlashInfer autotune because it is disabled.",
    },
    since="0.14",
    emits=_hazard("warmup_incomplete"),
)
def tuning_skipped(found: re.Match[str]) -> Hazard:
    """FlashInfer's kernels run with default tactics."""
    return Hazard("warmup_incomplete", found[1].partition(" ")[0])


@rule(
    anchor="Skipping CUDA graph capture. To turn on CUDA graph capture, ",
    pattern=r"Skipping CUDA graph capture\. To turn on CUDA graph capture, ",
    source="Skipping CUDA graph capture. To turn on CUDA graph capture, ",
    samples={
        "0.8.5": "Skipping CUDA graph capture. To turn on CUDA graph capture, set -O 3 and ensure `use_cudagraph` was not manually set to False",
        "0.26.0": "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure `cudagraph_mode` was not manually set to `NONE`",
    },
    emits=_hazard("warmup_incomplete"),
)
def capture_skipped(_: re.Match[str]) -> Hazard:
    """Every step launches its kernels one by one."""
    return Hazard("warmup_incomplete", "graphs")


@rule(
    anchor="The connector ",
    pattern=r"The connector [^\n]{1,128}? is collecting stats but does not implement the `build_kv_connector_stats` method\.",
    source="is collecting stats but does not implement the `build_kv_connector_stats` method. Stats will not be logged.",
    samples={
        "0.26.0": "The connector ExampleConnector is collecting stats but does not implement the `build_kv_connector_stats` method. Stats will not be "
        "logged.",
    },
    emits=_hazard("kv_telemetry_missing"),
)
def connector_statistics_missing(_: re.Match[str]) -> Hazard:
    """No line will tell of this connector's transfers."""
    return Hazard("kv_telemetry_missing", "connector")
