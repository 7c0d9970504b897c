"""Settings that vLLM warns of once at start-up and that explain later trouble."""

import re

from parsers.events import DraftMismatch, Hazard
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
    since="0.17",
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
        "0.26.0": "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are "
        "properly set in the checkpoint.",
        "0.33.0": "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are "
        "properly set in the checkpoint.",
    },
    since="0.4",
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
        "Found kv_scale in the checkpoint (e.g. %s), but not found the expected name in the model (e.g. %s). kv_scale is not loaded.",
        "Found %s in the checkpoint (e.g. %s), but not found the expected name in the model (e.g. %s). %s is not loaded.",
        "DEPRECATED. Found kv_scale in the checkpoint.",
        "FP8 KV cache is enabled but prefill queries are not quantized to FP8.",
    ),
    samples={
        "0.10.2": "Found k_scale in the checkpoint (e.g. model.layers.0.self_attn.k_proj.k_scale), but not found the expected name in "
        "the model (e.g. model.layers.0.self_attn.attn.k_scale). k_scale is not loaded.",
        "0.26.0": "Found kv_scale in the checkpoint (e.g. model.layers.0.self_attn.kv_scale), but not found the expected name in the "
        "model (e.g. model.layers.0.self_attn.attn.k_scale). kv_scale is not loaded.",
        "0.32.0": "FP8 KV cache is enabled but prefill queries are not quantized to FP8. For long-context workloads (ISL >= 4K), "
        "enabling FP8 prefill attention can significantly optimize prefill latency. To enable, add: --attention-config "
        "'{\"use_prefill_query_quantization\": true}'",
        "0.33.0": "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention. This may cause accuracy issues. Please "
        "make sure q/prob scaling factors are available in the fp8 checkpoint.",
    },
    since="0.5",
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
        "0.26.0": "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any optimizations for "
        "saving KV cache memory (e.g., dropping the KV cache outside the sliding window). The compute of layers like "
        "sliding window is still saved.",
        "0.33.0": "Turning off hybrid kv cache manager because `--kv-transfer-config` selects a KV connector that does not support "
        "it. Impact: hybrid SSM models (e.g. Jamba, Bamba) require HMA and will fail at startup without it; models with "
        "sliding window attention will run with reduced performance. To add HMA support to a KV connector, subclass "
        "`SupportsHMA` defined in kv_connector/v1/base.py (for MultiConnector, all child connectors must support HMA).",
    },
    since="0.9",
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
    since="0.9",
    emits=_hazard("kv_connector_unavailable"),
)
def nixl_missing(_: re.Match[str]) -> Hazard:
    """A warning for whoever imports the connector, an error for a worker that needs it."""
    return Hazard("kv_connector_unavailable")


@rule(
    anchor=("As of transformers v4.44, default chat template", "ValueError: As of transformers v4.44, default chat template"),
    pattern=r"(?:ValueError: )?As of transformers v4\.44, default chat template is no longer allowed",
    source="As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template",
    samples={
        "0.26.0": "ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat "
        "template if the tokenizer does not define one.",
    },
    since="0.6",
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
    since="0.14",
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
    since="0.10",
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
    since="0.24",
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
    since="0.29",
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
    since="0.16",
    emits=_hazard("warmup_incomplete"),
)
def tuning_skipped(found: re.Match[str]) -> Hazard:
    """FlashInfer's kernels run with default tactics."""
    return Hazard("warmup_incomplete", found[1].partition(" ")[0])


@rule(
    anchor=("Skipping CUDA graph capture. ", "Skipping CUDA graph capture because "),
    pattern=r"Skipping CUDA graph capture\. (?:To turn on CUDA graph capture, |Please add -O )|Skipping CUDA graph capture because pipeline parallel is enabled\.",
    source=(
        "Skipping CUDA graph capture. Please add -O %s to use CUDA graphs.",
        "Skipping CUDA graph capture. To turn on CUDA graph capture, ",
        "Skipping CUDA graph capture because pipeline parallel is enabled.",
    ),
    samples={
        "0.8.5": "Skipping CUDA graph capture. Please add -O 3 to use CUDA graphs.",
        "0.10.0": "Skipping CUDA graph capture. To turn on CUDA graph capture, set -O 3 and ensure `use_cudagraph` was not manually "
        "set to False",
        "0.18.0": "Skipping CUDA graph capture because pipeline parallel is enabled. Pipeline parallel is currently eager-only.",
        "0.26.0": "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure `cudagraph_mode` was not manually set to `NONE`",
    },
    since="0.6",
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
    since="0.11",
    emits=_hazard("kv_telemetry_missing"),
)
def connector_statistics_missing(_: re.Match[str]) -> Hazard:
    """No line will tell of this connector's transfers."""
    return Hazard("kv_telemetry_missing", "connector")


@rule(
    anchor="  Value error, DSpark requires num_speculative_tokens >= ",
    pattern=r"  Value error, DSpark requires num_speculative_tokens >= dspark_block_size \((\d{1,9})\); got (\d{1,9})\. ",
    source=("DSpark requires num_speculative_tokens >= ", "dspark_block_size (%s); got "),
    samples={
        "0.26.0": "  Value error, DSpark requires num_speculative_tokens >= dspark_block_size (5); got 2. Smaller values produce incorrect output. Use "
        "num_speculative_tokens=5 or larger (e.g. 7). [type=value_error, input_value=ArgsKwargs((), {'method': 'dspark'}), input_type=ArgsKwargs]",
    },
    since="0.26",
    until="0.27",
    scope=Scope.EXCEPTION,
    emits=_hazard("draft_length_mismatch"),
)
def drafts_too_short(found: re.Match[str]) -> DraftMismatch:
    """Why the start is about to end: pydantic prints it behind the line that names its exception."""
    return DraftMismatch(found[2], found[1])
