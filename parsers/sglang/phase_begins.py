"""Where a phase of an SGLang start begins."""

import re

from parsers.events import PhaseBegan
from parsers.rules import rule


@rule(
    runtime="sglang",
    anchor=("Init torch distributed begin.", "Init parallel begin."),
    pattern=r"Init (?:torch distributed|parallel) begin\.",
    source=("Init torch distributed begin.", "Init parallel begin."),
    samples={
        "sglang 0.4.9": "Init torch distributed begin.",
        "sglang 0.5.17": "Init torch distributed begin.",
        "sglang 0.5.23": "Init parallel begin.",
    },
)
def sglang_ranks_meet(_: re.Match[str]) -> PhaseBegan:
    """A rank waits for the others."""
    return PhaseBegan("distributed_init")


@rule(
    runtime="sglang",
    anchor="Load weight begin.",
    pattern=r"Load weight begin\.",
    source="Load weight begin. avail mem=%.2f GB",
    samples={
        "sglang 0.4.9": "Load weight begin. avail mem=77.90 GB",
        "sglang 0.5.17": "Load weight begin. avail mem=93.21 GB",
        "sglang 0.5.23": "Load weight begin. avail mem=93.21 GB",
    },
)
def sglang_loading_begins(_: re.Match[str]) -> PhaseBegan:
    """The weights of the target or the draft model."""
    return PhaseBegan("load_weights")


@rule(
    runtime="sglang",
    anchor="DeepSeek V4 MHC prenorm prewarm: ",
    pattern=r"DeepSeek V4 MHC prenorm prewarm: \d{1,9} n_splits buckets",
    source="DeepSeek V4 MHC prenorm prewarm: %d n_splits buckets",
    samples={
        "sglang 0.5.17": "DeepSeek V4 MHC prenorm prewarm: 9 n_splits buckets",
        "sglang 0.5.23": "DeepSeek V4 MHC prenorm prewarm: 9 n_splits buckets",
    },
    since="0.5.15",
)
def hyper_connections_begin(_: re.Match[str]) -> PhaseBegan:
    """TileLang compiles the kernels of the hyper-connections."""
    return PhaseBegan("jit_warmup")


@rule(
    runtime="sglang",
    anchor="Capture ",
    pattern=r"Capture (?:([\w -]{1,48}?) )?(?:CUDA|cuda|CPU|cpu|NPU|npu|XPU|xpu|MUSA|musa) graph begin\.",
    source=(
        "Capture %s CUDA graph begin. ",
        "Capture piecewise CUDA graph begin. avail mem=",
        "Capture cuda graph begin. This can take up to several minutes. avail mem=",
    ),
    samples={
        "sglang 0.4.9": "Capture cuda graph begin. This can take up to several minutes. avail mem=9.80 GB",
        "sglang 0.5.17": "Capture draft verify CUDA graph begin. backend=full, num_tokens_per_req=6, bs=[1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, "
        "80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224, 240, 256], avail mem=31.27 GB",
        "sglang 0.5.23": "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=6, avail mem=31.27 GB",
    },
)
def sglang_capture_begins(found: re.Match[str]) -> PhaseBegan:
    """One kind of graph on one rank."""
    return PhaseBegan("graph_capture_draft" if "draft" in (found[1] or "") else "graph_capture")
