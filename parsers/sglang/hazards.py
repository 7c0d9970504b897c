"""Settings that are known to hurt an SGLang engine, in its own words."""

import re

from parsers.events import DraftMismatch, Hazard
from parsers.rules import Series, rule


@rule(
    runtime="sglang",
    anchor="Using FP8 KV cache but no scaling factors provided.",
    pattern=r"Using FP8 KV cache but no scaling factors provided\. Defaulting to scaling factors of 1\.0\.",
    source="Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.",
    samples={
        "sglang 0.5.17": "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This may lead to less accurate "
        "results!",
        "sglang 0.5.23": "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.",
    },
    emits=[Series("config_hazards_total", {"kind": "fp8_kv_unscaled"})],
)
def fp8_without_scales(_: re.Match[str]) -> Hazard:
    """All ranks say so, once for each model."""
    return Hazard("fp8_kv_unscaled")


@rule(
    runtime="sglang",
    anchor="No chat template found, defaulting to ",
    pattern=r"No chat template found, defaulting to 'string' content format",
    source="No chat template found, defaulting to 'string' content format",
    samples={
        "sglang 0.5.17": "No chat template found, defaulting to 'string' content format",
        "sglang 0.5.23": "No chat template found, defaulting to 'string' content format",
    },
    emits=[Series("config_hazards_total", {"kind": "chat_template_missing"})],
    since="0.5.3",
)
def no_chat_template(_: re.Match[str]) -> Hazard:
    """Chat requests are rendered without the model's own markers."""
    return Hazard("chat_template_missing")


@rule(
    runtime="sglang",
    anchor="DSpark gamma mismatch: ",
    pattern=r"DSpark gamma mismatch: using gamma=(\d{1,9}) \(from speculative_num_draft_tokens=\d{1,9}\) but draft config block_size=(\d{1,9})",
    source="DSpark gamma mismatch: using gamma=%s (from speculative_num_draft_tokens=%s) but draft config block_size=%s.",
    samples={
        "sglang 0.5.17": "DSpark gamma mismatch: using gamma=7 (from speculative_num_draft_tokens=8) but draft config block_size=5.",
    },
    since="0.5.17",
    emits=[Series("config_hazards_total", {"kind": "draft_length_mismatch"})],
)
def gamma_mismatch(found: re.Match[str]) -> DraftMismatch:
    """The draft model was trained for blocks of another length."""
    return DraftMismatch(found[1], found[2])
