"""Compiles that SGLang tells of. It silences FlashInfer's and TileLang's own lines, and its own kernels print nothing at all."""

import re

from parsers.events import CompileBegan, Compiled, CompiledLate, CompileEnded, CompileSession, CompileTook
from parsers.rules import Scope, Series, compile_series, rule
from parsers.units import DECIMAL, label


@rule(
    runtime="sglang",
    anchor=("Try DeepGEMM JIT Compiling for <", "DeepGEMM JIT Compiling for <"),
    pattern=r"(?:Try )?DeepGEMM JIT Compiling for <(\w{1,96})> (?:M=\d{1,9}, )?N=(\d{1,9}), K=(\d{1,9})(?:, num_groups=(\d{1,9}))?",
    source=("Try DeepGEMM JIT Compiling for ", "DeepGEMM JIT Compiling for <%s> M=%s, N=%s, K=%s. Please wait."),
    samples={
        "sglang 0.4.5": "Try DeepGEMM JIT Compiling for <gemm_fp8_fp8_bf16_nt> N=6144, K=2560, num_groups=1 with all Ms. It only takes a litte "
        "time(Typically 1 sec) if you have run `sglang.compile_deep_gemm`. ",
        "sglang 0.4.9": "DeepGEMM JIT Compiling for <gemm_fp8_fp8_bf16_nt> M=33, N=6144, K=2560. Please wait.",
        "sglang 0.5.17": "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=1536, K=4096, num_groups=1 with all Ms. It only takes a little time "
        "(typically 1 sec) if you have run `python3 -m sglang.compile_deep_gemm`. ",
        "sglang 0.5.23": "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=7168, K=2048, num_groups=1 with all Ms. It only takes a little time "
        "(typically 1 sec) if you have run `python3 -m sglang.compile_deep_gemm`. ",
    },
    emits=compile_series("deepgemm", "compile"),
)
def deepgemm_session(found: re.Match[str]) -> CompileSession:
    """One shape of one kernel, on the first rank of a node; its end has no line. Shapes that are not prepared so compile in silence."""
    return CompileSession("deepgemm", "compile", "_".join(filter(None, found.groups())))


@rule(
    runtime="sglang",
    anchor="DeepGEMM warmup: 100%",
    pattern=r"DeepGEMM warmup: 100%\|[^|\n]{0,400}\| \d{1,9}/\d{1,9} \[(?:(\d{1,3}):)?(\d\d):(\d\d)<[^\]\n]{0,64}\]",
    source="DeepGEMM warmup",
    samples={
        "sglang 0.5.17": "DeepGEMM warmup: 100%|██████████| 16384/16384 [01:47<00:00, 152.88it/s]",
        "sglang 0.5.23": "DeepGEMM warmup: 100%|██████████| 16384/16384 [00:33<00:00, 488.12it/s]",
    },
    scope=Scope.BARE,
    emits=[Series("jit_seconds_total", {"backend": "deepgemm", "phase": phase}) for phase in ("startup", "serving")],
    since="0.5.3",
)
def deepgemm_warmed(found: re.Match[str]) -> CompileTook:
    """The session's progress bar at its end: the only word of how long it took."""
    hours, minutes, seconds = found.groups()
    return CompileTook("deepgemm", int(hours or 0) * 3600.0 + int(minutes) * 60.0 + int(seconds), of_a_bar=True)


@rule(
    runtime="sglang",
    anchor="Triton kernel '",
    pattern=rf"Triton kernel '([^'\n]{{1,256}})' took {DECIMAL} s to compile after serving started\.",
    source="Triton kernel '%s' took %.2f s to compile after serving started. ",
    samples={
        "sglang 0.5.23": "Triton kernel '_fwd_kernel_extend' took 6.83 s to compile after serving started. Serving-time compilation can stall the "
        "engine; pre-compile it during engine init.",
    },
    since="0.5.18",
    emits=compile_series("triton", "compile", timed=True),
)
def triton_late(found: re.Match[str]) -> CompiledLate:
    """A Triton kernel compiled once the event loop ran, if it took a second or more; the warm-up request comes after that."""
    return CompiledLate("triton", "compile", label(found[1]), float(found[2]))


@rule(
    runtime="sglang",
    anchor=("Running FlashInfer autotune", "FlashInfer autotune completed."),
    pattern=r"(Running FlashInfer autotune(?: with cache: | \(cache reuse DISABLED |\.\.\.)|FlashInfer autotune completed\.)",
    source=("Running FlashInfer autotune with cache: %s", "Running FlashInfer autotune...", "FlashInfer autotune completed."),
    samples={
        "sglang 0.5.23": "FlashInfer autotune completed.",
    },
    emits=compile_series("flashinfer", "autotune", timed=True),
    since="0.5.8",
)
def flashinfer_tuned(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """FlashInfer's autotuner in SGLang's words, on all ranks."""
    return (CompileBegan if found[1].startswith("Running") else CompileEnded)("flashinfer", "autotune", "")


@rule(
    runtime="sglang",
    anchor="Compiling a graph for ",
    pattern=rf"Compiling a graph for (?:dynamic|general) shape takes {DECIMAL} s|Compiling a graph for shape (\S{{1,64}}) takes {DECIMAL} s",
    source=("Compiling a graph for dynamic shape takes %.2f s", "Compiling a graph for shape %s takes %.2f s"),
    samples={"sglang 0.5.17": "Compiling a graph for dynamic shape takes 12.41 s"},
    emits=compile_series("inductor", "compile", timed=True),
    since="0.5.5",
)
def sglang_graph_compiled(found: re.Match[str]) -> Compiled:
    """Inductor compiled a piece of the prefill graph."""
    return Compiled("inductor", "compile", label(found[2] or ""), float(found[1] or found[3]))


@rule(
    runtime="sglang",
    anchor="CuTe DSL ",
    pattern=r"CuTe DSL (\w{1,32}) kernel compiled: ([\w=, .()]{1,200})",
    source=("CuTe DSL GDN kernel compiled: N=%s, H=%s", "CuTe DSL KDA kernel compiled: "),
    samples={
        "sglang 0.5.17": "CuTe DSL GDN kernel compiled: N=8, H=16, HV=32, K=128, V=128, pool_size=512, small_batch=True, varlen=False"
    },
    emits=compile_series("cutedsl", "compile"),
    since="0.5.8",
)
def cute_compiled(found: re.Match[str]) -> Compiled:
    """A kernel of linear attention compiled for a shape, when that comes first."""
    return Compiled("cutedsl", "compile", label(f"{found[1]} {found[2]}"))


@rule(
    runtime="sglang",
    anchor="fp8_fa_sm120 attention: compiling for ",
    pattern=r"fp8_fa_sm120 attention: compiling for (S=\d{1,9} H=\d{1,9}) \(once per shape\)",
    source="fp8_fa_sm120 attention: compiling for S=%d H=%d (once per shape)",
    samples={"sglang 0.5.23": "fp8_fa_sm120 attention: compiling for S=4096 H=24 (once per shape)"},
    since="0.5.21",
    emits=compile_series("cutedsl", "compile"),
)
def attention_compiles(found: re.Match[str]) -> CompileSession:
    """FP8 attention of consumer Blackwell, when a shape comes first; its end has no line."""
    return CompileSession("cutedsl", "compile", label(f"fp8_fa_sm120 {found[1]}"))


@rule(
    runtime="sglang",
    anchor="Compiled pinned Helion kernel ",
    pattern=r"Compiled pinned Helion kernel (\w{1,128}) for (\w{1,32})",
    source="Compiled pinned Helion kernel %s for %s",
    samples={"sglang 0.5.23": "Compiled pinned Helion kernel _intra_matrices_wide for short"},
    since="0.5.23",
    emits=compile_series("other", "compile"),
)
def helion_compiled(found: re.Match[str]) -> Compiled:
    """A kernel of Helion's, when a length of its bucket comes first."""
    return Compiled("other", "compile", label(f"{found[1]} {found[2]}"))


@rule(
    runtime="sglang",
    anchor="PCG capture stream is not set",
    pattern=r"PCG capture stream is not set(?:\. This can be a|; likely a) Dynamo runtime recompilation",
    source="PCG capture stream is not set. This can be a Dynamo runtime ",
    samples={
        "sglang 0.5.23": "PCG capture stream is not set. This can be a Dynamo runtime recompilation or an optional VLM branch pre-warmed outside "
        "CUDA graph capture; falling back to eager execution for this subgraph.",
    },
    emits=compile_series("inductor", "recompile"),
    since="0.5.17",
)
def graph_without_stream(_: re.Match[str]) -> Compiled:
    """A graph was made outside of the capture and runs without: once in a process' life, the more there are of it."""
    return Compiled("inductor", "recompile", "")


@rule(
    runtime="sglang",
    anchor="Cached JIT module ",
    pattern=r"Cached JIT module ([\w.-]{1,200}) failed to load; rebuilding\.",
    source="Cached JIT module %s failed to load; rebuilding.",
    samples={
        "sglang 0.5.23": "Cached JIT module sgl_kernel_jit_norm_bf16_4096 failed to load; rebuilding. Got error: undefined symbol: _ZN3foo",
    },
    emits=compile_series("nvcc", "recompile"),
    since="0.5.15",
)
def kernel_rebuilt(found: re.Match[str]) -> Compiled:
    """The only word of SGLang's own kernels: a cached one is of no use and is built again."""
    return Compiled("nvcc", "recompile", label(found[1]))
