"""Compiles that vLLM itself tells of: the JIT monitor after warm-up, and torch.compile's graphs."""

import re

from parsers.events import CompileCache, Compiled, CompileTook
from parsers.rules import Scope, Series, compile_series, rule
from parsers.units import DECIMAL, label

_BACKENDS = {"Triton": "triton", "TileLang": "tilelang", "CuTeDSL": "cutedsl"}


@rule(
    anchor=(
        *(f"{backend} {kernel}JIT compilation during inference: " for backend in _BACKENDS for kernel in ("kernel ", "")),
        "Triton autotune/warmup candidate JIT compilation during inference: ",
    ),
    pattern=r"(Triton|TileLang|CuTeDSL) (?:kernel |autotune/warmup candidate )?JIT compilation during inference: ([^\s(]{1,256}?)(?: \(|\. This causes a latency spike"
    r"(?:; consider extending warmup to cover this shape/config\.)?+)",
    source=(
        "%s %s during inference: %s%s. This causes a latency spike; consider extending warmup to cover this shape/config.",
        "Triton kernel JIT compilation during inference: %s. This causes a latency spike",
        "Triton %sJIT compilation during inference: %s (key=%s).",
    ),
    samples={
        "0.21.0": "Triton kernel JIT compilation during inference: _fwd_kernel_stage1. This causes a latency spike; consider "
        "extending warmup to cover this shape/config.",
        "0.24.0": "Triton autotune/warmup candidate JIT compilation during inference: _fwd_kernel_stage1 (key=5c2f0d5a93b1).",
        "0.26.0": "Triton kernel JIT compilation during inference: _fwd_kernel_stage1. This causes a latency spike; consider "
        "extending warmup to cover this shape/config.",
        "0.32.0": "TileLang kernel JIT compilation during inference: sparse_mla_fwd_kernel (runtime_shapes={q=(7, 128, 576)}). This "
        "causes a latency spike; consider extending warmup to cover this shape/config.",
        "0.33.0": "CuTeDSL JIT compilation during inference: _hc_down_silu_kernel. This causes a latency spike; consider extending "
        "warmup to cover this shape/config.",
    },
    since="0.21",
    emits=[series for backend in _BACKENDS.values() for series in compile_series(backend, "compile", "serving")],
)
def jit_monitor(found: re.Match[str]) -> Compiled:
    """Once per kernel and process, on local rank 0: distinct kernels, a lower bound of compiles."""
    return Compiled(_BACKENDS[found[1]], "compile", label(found[2]), serving=True)


@rule(
    anchor="RuntimeError: ",
    pattern=r"RuntimeError: (Triton|TileLang|CuTeDSL) (?:kernel )?JIT compilation during inference: ([^\s(]{1,256}?)(?: \(|\. This causes a latency spike)",
    source="%s %s during inference: %s%s. This causes a latency spike; consider extending warmup to cover this shape/config.",
    samples={
        "0.33.0": "RuntimeError: Triton kernel JIT compilation during inference: _fwd_kernel_stage1. This causes a latency spike; consider "
        "extending warmup to cover this shape/config.",
    },
    since="0.25",
    scope=Scope.EXCEPTION,
    emits=[series for backend in _BACKENDS.values() for series in compile_series(backend, "compile", "serving")],
)
def jit_refused(found: re.Match[str]) -> Compiled:
    """The same with --jit-monitor-mode error: the step fails, and with it the engine."""
    return Compiled(_BACKENDS[found[1]], "compile", label(found[2]), serving=True, raised=True)


_GRAPH = compile_series("inductor", "compile", timed=True)


@rule(
    anchor="Compiling a graph for ",
    pattern=rf"Compiling a graph for (?:compile range (\([\d, ]+\))|(?:dynamic|general) shape|shape \S{{1,64}}) takes \**{DECIMAL} s",
    source=(
        "Compiling a graph for compile range %s takes %.2f s",
        "Compiling a graph for dynamic shape takes %.2f s",
        "Compiling a graph for general shape takes %.2f s",
        "Compiling a graph for shape %s takes %.2f s",
    ),
    samples={
        "0.9.2": "Compiling a graph for general shape takes 38.19 s",
        "0.12.0": "Compiling a graph for dynamic shape takes 38.19 s",
        "0.26.0": "Compiling a graph for compile range (1, 8192) takes 38.19 s",
        "0.33.0": "Compiling a graph for compile range (1, 8192) takes 38.19 s",
    },
    since="0.6",
    emits=[*_GRAPH, Series("compile_cache_total", {"backend": "inductor", "result": "miss"})],
)
def graph_compiled(found: re.Match[str]) -> Compiled:
    """Inductor compiled a graph."""
    return Compiled("inductor", "compile", found[1] or "", float(found[2]))


@rule(
    anchor="Directly load ",
    pattern=r"Directly load (?:the compiled graph(?:\(s\))?(?: for (?:compile range )?(\([\d, ]{1,40}\)|\w{1,20}))?|AOT compilation)",
    source=(
        "Directly load the compiled graph(s) for compile range %s from the cache, took %.3f s",
        "Directly load the compiled graph(s) for dynamic shape from the cache, took %.3f s",
        "Directly load the compiled graph(s) for shape %s from the cache, took %.3f s",
        "Directly load the compiled graph for shape %s from the cache",
        "Directly load AOT compilation from path %s",
    ),
    samples={
        "0.10.2": "Directly load the compiled graph(s) for dynamic shape from the cache, took 1.204 s",
        "0.26.0": "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.204 s",
        "0.32.0": "Directly load AOT compilation from path "
        "/var/cache/vllm/torch_compile_cache/torch_aot_compile/5c2f0d5a93b1/rank_0_0/model",
    },
    since="0.7",
    emits=[Series("compile_cache_total", {"backend": "inductor", "result": "hit"})],
)
def graph_loaded(found: re.Match[str]) -> CompileCache:
    """A graph came from the cache."""
    return CompileCache("inductor", "hit", found[1] or "")


@rule(
    anchor="Compiling model again due to a load failure",
    pattern=r"Compiling model again due to a load failure",
    source="Compiling model again due to a load failure from %s, reason: %s",
    samples={
        "0.26.0": "Compiling model again due to a load failure from "
        "/var/cache/vllm/torch_compile_cache/torch_aot_compile/5c2f0d5a93b1/rank_0_0/model, reason: Source code has changed "
        "since the last compilation. Recompiling the model.",
    },
    emits=compile_series("inductor", "recompile"),
    since="0.18",
)
def recompiled(_: re.Match[str]) -> Compiled:
    """A cache that could not be used."""
    return Compiled("inductor", "recompile", "")


@rule(
    anchor=("JIT compiling ", "Compiled "),
    pattern=rf"(?:(JIT compiling )(?:FMHA variant: )?(\S{{1,128}})|Compiled (\S{{1,128}}) in {DECIMAL}s)",
    source=("JIT compiling FMHA variant: %s", "JIT compiling %s", "Compiled %s in %.1fs"),
    samples={
        "0.26.0": "JIT compiling FMHA variant: 0_1_0_2_1_0_1",
        "0.33.0": "Compiled decode_q8kv4 in 14.2s",
    },
    since="0.24",
    emits=compile_series("nvcc", "compile", timed=True),
)
def attention_compiled(found: re.Match[str]) -> Compiled | CompileTook:
    """The SM100 attention kernels, which nvcc builds; 0.26 tells only the beginning."""
    if found[1]:
        return Compiled("nvcc", "compile", label(found[2]))
    return CompileTook("nvcc", float(found[4]))
