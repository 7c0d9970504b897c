"""Compiles that vLLM itself tells of: the JIT monitor after warm-up, and torch.compile's graphs."""

import re

from parsers.events import CompileCache, Compiled
from parsers.rules import Series, rule
from parsers.units import DECIMAL

_BACKENDS = {"Triton": "triton", "TileLang": "tilelang", "CuTeDSL": "cutedsl"}


@rule(
    anchor=tuple(f"{backend} {kernel}JIT compilation during inference: " for backend in _BACKENDS for kernel in ("kernel ", "")),
    pattern=r"(Triton|TileLang|CuTeDSL) (?:kernel )?JIT compilation during inference: ([^\s(]{1,256}?)(?: \(|\. This causes a latency spike)",
    source="%s %s during inference: %s%s. This causes a latency spike; consider extending warmup to cover this shape/config.",
    samples={
        "0.26.0": "Triton kernel JIT compilation during inference: _fwd_kernel_stage1. This causes a latency spike; consider extending warmup to "
        "cover this shape/config.",
        "0.32.0": "TileLang kernel JIT compilation during inference: sparse_mla_fwd_kernel (runtime_shapes={q=(7, 128, 576)}). This causes a "
        "latency spike; consider extending warmup to cover this shape/config.",
    },
    since="0.26",
    emits=[Series("jit_events_total", {"backend": backend, "event": "compile", "phase": "serving"}) for backend in _BACKENDS.values()],
)
def jit_monitor(found: re.Match[str]) -> Compiled:
    """Once per kernel and process, on local rank 0: distinct kernels, a lower bound of compiles."""
    return Compiled(_BACKENDS[found[1]], "compile", found[2], serving=True)


_GRAPH = [Series("jit_events_total", {"backend": "inductor", "event": "compile", "phase": phase}) for phase in ("startup", "serving")]


@rule(
    anchor="Compiling a graph for ",
    pattern=rf"Compiling a graph for (?:compile range (\([\d, ]+\))|(?:dynamic|general) shape|shape \S{{1,64}}) takes \**{DECIMAL} s",
    source=("Compiling a graph for compile range %s takes %.2f s", "Compiling a graph for dynamic shape takes %.2f s"),
    samples={"0.26.0": "Compiling a graph for compile range (1, 8192) takes 38.19 s"},
    emits=[*_GRAPH, Series("compile_cache_total", {"backend": "inductor", "result": "miss"})],
)
def graph_compiled(found: re.Match[str]) -> Compiled:
    """Inductor compiled a graph."""
    return Compiled("inductor", "compile", found[1] or "", float(found[2]))


@rule(
    anchor="Directly load ",
    pattern=r"Directly load (?:the compiled graph|AOT compilation)",
    source=(
        "Directly load the compiled graph(s) for compile range %s from the cache, took %.3f s",
        "Directly load AOT compilation from path %s",
    ),
    samples={"0.26.0": "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.204 s"},
    emits=[Series("compile_cache_total", {"backend": "inductor", "result": "hit"})],
)
def graph_loaded(_: re.Match[str]) -> CompileCache:
    """A graph came from the cache."""
    return CompileCache("inductor", "hit")
