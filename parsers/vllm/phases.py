"""The phases of a vLLM start with their seconds, and the memory that they took."""

import re

from parsers.events import DraftCaptureBegan, MemoryReport, MemoryUsed, PhaseFinished
from parsers.rules import Scope, rule
from parsers.units import DECIMAL, GIB


@rule(
    anchor="Loading weights took ",
    pattern=rf"Loading weights took {DECIMAL} seconds",
    source="Loading weights took %.2f seconds",
    samples={
        "0.10.2": "Loading weights took 64.83 seconds",
        "0.26.0": "Loading weights took 64.83 seconds",
        "0.32.0": "Loading weights took 0.01 seconds",
        "0.33.0": "Loading weights took 64.83 seconds",
    },
    since="0.8",
)
def weights_read(found: re.Match[str]) -> PhaseFinished:
    """Weights read from disk; the whole of loading is told by `model_loaded`."""
    return PhaseFinished("read_weights", float(found[1]))


@rule(
    anchor="Model loading took ",
    pattern=rf"Model loading took {DECIMAL} Gi?B(?: memory)? and {DECIMAL} seconds",
    source=(
        "Model loading took %s GiB memory and %.6f seconds",
        "Model loading took %s GiB and %.6f seconds",
        "Model loading took %.4f GB and %.6f seconds",
    ),
    samples={
        "0.10.2": "Model loading took 35.6400 GiB and 71.400000 seconds",
        "0.26.0": "Model loading took 35.64 GiB and 71.402917 seconds",
        "0.33.0": "Model loading took 35.64 GiB memory and 71.402917 seconds",
    },
    since="0.8",
)
def model_loaded(found: re.Match[str]) -> PhaseFinished:
    """One rank has its weights."""
    return PhaseFinished("load_weights", float(found[2]), MemoryUsed("weights", float(found[1]) * GIB))


@rule(
    anchor="Loading model weights took ",
    pattern=rf"Loading model weights took {DECIMAL} Gi?B",
    source=("Loading model weights took %.4f GB", "Loading model weights took %.4f GiB"),
    samples={
        "0.6.6": "Loading model weights took 8.5107 GB",
        "0.9.2": "Loading model weights took 8.5107 GiB",
    },
    until="0.9",
    scope=Scope.RECORD | Scope.BARE,
)
def v0_weights(found: re.Match[str]) -> MemoryReport:
    """The weights of one rank; GB are GiB."""
    return MemoryReport((MemoryUsed("weights", float(found[1]) * GIB),))


@rule(
    anchor=("Memory profiling takes ", "Initial profiling/warmup run took "),
    pattern=rf"(?:Memory profiling takes|Initial profiling/warmup run took) {DECIMAL} s",
    source=("Initial profiling/warmup run took %.2f s", "Memory profiling takes "),
    samples={
        "0.8.5": "Memory profiling takes 1.73 seconds",
        "0.26.0": "Initial profiling/warmup run took 3.81 s",
        "0.32.0": "Initial profiling/warmup run took 0.02 s",
        "0.33.0": "Initial profiling/warmup run took 3.81 s",
    },
    since="0.6",
)
def kv_profiled(found: re.Match[str]) -> PhaseFinished:
    """The run that shows how much memory is left for KV."""
    return PhaseFinished("kv_profile", float(found[1]))


@rule(
    anchor=("torch.compile t", "torch.compile and initial "),
    pattern=rf"torch\.compile (?:took|takes|and initial profiling/warmup run together took) \**{DECIMAL} s\**",
    source=(
        "torch.compile took %.2f s in total",
        "torch.compile takes %.2f s in total",
        "torch.compile and initial profiling/warmup run together took %.2f s in total",
    ),
    samples={
        "0.10.2": "torch.compile takes 52.44 s in total",
        "0.18.0": "torch.compile and initial profiling/warmup run together took 61.20 s in total",
        "0.26.0": "torch.compile took 52.44 s in total",
        "0.33.0": "torch.compile took 52.44 s in total",
    },
    since="0.6",
)
def torch_compile_total(found: re.Match[str]) -> PhaseFinished:
    """Bytecode and graphs together; from 0.18 on, where nothing is compiled ahead of time, with the profiling run that compiles them."""
    return PhaseFinished("torch_compile", float(found[1]))


@rule(
    anchor=("Graph capturing finished in ", "Encoder graph capturing finished in "),
    pattern=rf"(?:G|Encoder g)raph capturing finished in \**{DECIMAL} secs(?:\**, took {DECIMAL} GiB|\.)",
    source=(
        "Graph capturing finished in %.0f secs, took %.2f GiB",
        "Graph capturing finished in %.0f secs.",
        "Encoder graph capturing finished in %.0f secs, took %.2f GiB (%d graphs)",
    ),
    samples={
        "0.6.3": "Graph capturing finished in 18 secs.",
        "0.10.2": "Graph capturing finished in 46 secs, took 2.31 GiB",
        "0.26.0": "Graph capturing finished in 46 secs, took 2.31 GiB",
        "0.31.0": "Encoder graph capturing finished in 4 secs, took 0.31 GiB (12 graphs)",
        "0.33.0": "Graph capturing finished in 46 secs, took 2.31 GiB",
    },
)
def graphs_captured(found: re.Match[str]) -> PhaseFinished:
    """CUDA graphs of one rank, those of an encoder and of a draft model among them; to 0.6.3 without their memory."""
    memory = MemoryUsed("cuda_graph", float(found[2]) * GIB) if found[2] else None
    return PhaseFinished("graph_capture", float(found[1]), memory)


@rule(
    anchor="Capturing model for ",
    pattern=r"Capturing model for (?:[\w-]{1,64} ){0,2}speculator\.\.\.",
    source=(
        "Capturing model for %s speculator...",
        "Capturing model for speculator...",
        "Capturing model for Eagle speculator...",
        "Capturing model for multi-module MTP speculator...",
    ),
    samples={
        "0.18.0": "Capturing model for Eagle speculator...",
        "0.23.0": "Capturing model for speculator...",
        "0.26.0": "Capturing model for DSpark speculator...",
        "0.27.0": "Capturing model for multi-module MTP speculator...",
        "0.33.0": "Capturing model for DSpark speculator...",
    },
    since="0.12",
)
def draft_capture_began(_: re.Match[str]) -> DraftCaptureBegan:
    """The draft model's share of the capture begins; the line that ends the whole capture ends it, too."""
    return DraftCaptureBegan()


@rule(
    anchor="JIT kernel warmup finished in ",
    pattern=rf"JIT kernel warmup finished in {DECIMAL}s",
    source="JIT kernel warmup finished in %.2fs.",
    samples={"0.33.0": "JIT kernel warmup finished in 27.31s."},
    since="0.29",
)
def jit_warmed_up(found: re.Match[str]) -> PhaseFinished:
    """Kernels compiled before the first request."""
    return PhaseFinished("jit_warmup", float(found[1]))


@rule(
    anchor="CuTeDSL warmup compiled ",
    pattern=rf"CuTeDSL warmup compiled \d+ units in {DECIMAL} s",
    source="CuTeDSL warmup compiled %d units in %.2f s.",
    samples={"0.26.0": "CuTeDSL warmup compiled 12 units in 3.40 s."},
    since="0.25",
    until="0.26",
)
def cutedsl_warmed_up(found: re.Match[str]) -> PhaseFinished:
    """CuTeDSL's share of the warm-up."""
    return PhaseFinished("jit_warmup", float(found[1]))


@rule(
    anchor="DeepSeek V4 mHC TileLang warmup finished in ",
    pattern=rf"DeepSeek V4 mHC TileLang warmup finished in {DECIMAL} seconds",
    source="DeepSeek V4 mHC TileLang warmup finished in %.2f seconds.",
    samples={"0.26.0": "DeepSeek V4 mHC TileLang warmup finished in 18.62 seconds."},
    since="0.24",
    until="0.29",
)
def mhc_warmed_up(found: re.Match[str]) -> PhaseFinished:
    """The same for DeepSeek-V4's hyper-connections."""
    return PhaseFinished("jit_warmup", float(found[1]))


@rule(
    anchor="init engine (profile, create kv cache, warmup model) took ",
    pattern=rf"init engine \(profile, create kv cache, warmup model\) took \**{DECIMAL} s(?:econds)?\**(?: \(compilation: {DECIMAL} s)?",
    source=(
        "init engine (profile, create kv cache, warmup model) took %.2f s (compilation: %.2f s)",
        "init engine (profile, create kv cache, warmup model) took %.2f s",
        "init engine (profile, create kv cache, warmup model) took %.2f seconds",
    ),
    samples={
        "0.10.2": "init engine (profile, create kv cache, warmup model) took 213.08 seconds",
        "0.26.0": "init engine (profile, create kv cache, warmup model) took 213.08 s (compilation: 52.44 s)",
        "0.32.0": "init engine (profile, create kv cache, warmup model) took 36.24 s",
        "0.33.0": "init engine (profile, create kv cache, warmup model) took 213.08 s (compilation: 52.44 s)",
    },
    since="0.6",
)
def engine_initialised(found: re.Match[str]) -> PhaseFinished:
    """The engine core is ready to work; compilation is a part of it."""
    return PhaseFinished("init_engine", float(found[1]), None, float(found[2]) if found[2] else None)
