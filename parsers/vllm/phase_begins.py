"""Where a phase of a vLLM start begins. Progress bars tell it too late: in a file their line is whole when the bar is."""

import re

from parsers.events import PhaseBegan
from parsers.rules import rule


@rule(
    anchor="world_size=",
    pattern=r"world_size=\d{1,9} rank=\d{1,9} local_rank=\d{1,9} distributed_init_method=",
    source="world_size=%d rank=%d local_rank=%d distributed_init_method=%s backend=%s",
    samples={
        "0.10.2": "world_size=4 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:43877 backend=nccl",
        "0.26.0": "world_size=4 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:43877 backend=nccl",
        "0.33.0": "world_size=4 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:43877 backend=nccl",
    },
)
def ranks_meet(_: re.Match[str]) -> PhaseBegan:
    """A rank waits for the others; nothing but the next phase tells that all are there."""
    return PhaseBegan("distributed_init")


@rule(
    anchor="Starting to load model ",
    pattern=r"Starting to load model ",
    source="Starting to load model %s...",
    samples={
        "0.10.2": "Starting to load model /models/Qwen3-32B...",
        "0.26.0": "Starting to load model /models/Qwen3-32B...",
        "0.32.0": "Starting to load model /models/tiny...",
        "0.33.0": "Starting to load model /models/Qwen3-32B...",
    },
)
def loading_begins(_: re.Match[str]) -> PhaseBegan:
    """The weights are about to be loaded. The second runner has no such line, only its own name before it."""
    return PhaseBegan("load_weights")


@rule(
    anchor=("Starting torch.compile", "Using cache directory: ", "Dynamo bytecode transform time: "),
    pattern=r"(?:Starting torch\.compile|Using cache directory: \S{1,1024} for vLLM's torch\.compile|Dynamo bytecode transform time: )",
    source=("Starting torch.compile", "Using cache directory: %s for vLLM's torch.compile", "Dynamo bytecode transform time: %.2f s"),
    samples={
        "0.10.2": "Dynamo bytecode transform time: 11.27 s",
        "0.26.0": "Dynamo bytecode transform time: 11.27 s",
        "0.33.0": "Starting torch.compile",
    },
    since="0.7",
)
def compiling_begins(_: re.Match[str]) -> PhaseBegan:
    """Before 0.33 the first word comes when the bytecode is done and the graphs are next."""
    return PhaseBegan("compile")


@rule(
    anchor=("JIT kernel warmup starting.", "Warming up DeepSeek V4 mHC TileLang kernels "),
    pattern=r"(?:JIT kernel warmup starting\.|Warming up DeepSeek V4 mHC TileLang kernels for token sizes: )",
    source=("JIT kernel warmup starting.", "Warming up DeepSeek V4 mHC TileLang kernels for token sizes: %s"),
    samples={
        "0.26.0": "Warming up DeepSeek V4 mHC TileLang kernels for token sizes: [1, 2, 4, 8, 16, 32, 64, 128, 8192]",
        "0.33.0": "JIT kernel warmup starting.",
    },
    since="0.24",
)
def warmup_begins(_: re.Match[str]) -> PhaseBegan:
    """Kernels compile before the first request."""
    return PhaseBegan("jit_warmup")
