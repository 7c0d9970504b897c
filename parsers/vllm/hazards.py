"""Settings that vLLM warns of once at start-up and that explain later trouble."""

import re

from parsers.events import Hazard
from parsers.rules import Series, rule


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
