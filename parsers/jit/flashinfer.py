"""FlashInfer: its autotuner, its CuTe-DSL kernels, and its C++ builds, which print nothing from 0.3 on unless they fail."""

import re

from parsers.events import CompileBegan, CompileCache, CompileEnded, CompileFailed, Hazard
from parsers.rules import Scope, Series, compile_series, rule
from parsers.units import label

_BUILD_SECONDS = 1.0
"""A module that was built before loads in a fraction of this; to build it takes many times as long."""

# Rules about what most releases never print emit no series at 0: it would say that there was no such compile.


@rule(
    runtime="",
    anchor=("[Autotuner]: Autotuning process ", "[AutoTuner]: Autotuning process "),
    pattern=r"\[Auto[tT]uner\]: Autotuning process (starts|ends)",
    source=("[Autotuner]: Autotuning process starts ...", "[Autotuner]: Autotuning process ends"),
    samples={
        "0.10.1": "[Autotuner]: Autotuning process ends",
        "0.19": "[Autotuner]: Autotuning process starts ...",
    },
    scope=Scope.BARE,
    emits=compile_series("flashinfer", "autotune", timed=True),
)
def flashinfer_autotune(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """Both ends carry milliseconds."""
    return (CompileBegan if found[1] == "starts" else CompileEnded)("flashinfer", "autotune", "")


@rule(
    runtime="",
    anchor=("Loading JIT ops: ", "Finished loading JIT ops: "),
    pattern=r"(Loading|Finished loading) JIT ops: (\S{1,512})",
    source=("Loading JIT ops: %s", "Finished loading JIT ops: %s"),
    samples={
        "flashinfer 0.2": "Loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16_dtype_kv_bf16_dtype_o_bf16_dtype_idx_i32_head"
        "_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False_use_logits_cap_False_f16qk_False_sm90",
        "flashinfer 0.2, done": "Finished loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16_dtype_kv_bf16_dtype_o_bf16_dtype_idx_i3"
        "2_head_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False_use_logits_cap_False_f16qk_False_sm90",
    },
    until="0.6",
    scope=Scope.BARE,
)
def flashinfer_build(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """The same two lines for a build and for a load of what was built before: the time between them tells which. Gone in 0.3."""
    if found[1] == "Loading":
        return CompileBegan("flashinfer", "compile", label(found[2]))
    return CompileEnded("flashinfer", "compile", label(found[2]), least=_BUILD_SECONDS)


@rule(
    runtime="",
    anchor=("Compiling CuTe-DSL kernel ", "Persisted CuTe-DSL kernel to ", "Failed to persist CuTe-DSL kernel "),
    pattern=(
        r"(?:(Compiling) CuTe-DSL kernel \w{1,256}/(\w{1,512})|Persisted CuTe-DSL kernel to [^\n]{1,512}/(\w{1,512})\.o"
        r"|Failed to persist CuTe-DSL kernel \w{1,256}/(\w{1,512}) to [^\n]{1,1024})"
    ),
    source=("Compiling CuTe-DSL kernel %s", "Persisted CuTe-DSL kernel to %s", "Failed to persist CuTe-DSL kernel %s to "),
    samples={
        "flashinfer 0.7.2": "Compiling CuTe-DSL kernel nvfp4_quantize_sm100a_cute_dsl/swizzled_bf16_4096",
        "flashinfer 0.7.2, done": "Persisted CuTe-DSL kernel to /var/cache/flashinfer/0.7.2/100a/cached_ops/nvfp4_quantize_sm100a_cute_dsl/"
        "swizzled_bf16_4096.o",
        "flashinfer 0.7.2, kept": "Failed to persist CuTe-DSL kernel nvfp4_quantize_sm100a_cute_dsl/swizzled_bf16_4096 to /var/cache/flashinfer/0.7.2/"
        "100a/cached_ops/nvfp4_quantize_sm100a_cute_dsl/swizzled_bf16_4096.o: [Errno 28] No space left on device. The kernel will be recompiled next run.",
    },
    scope=Scope.BARE,
)
def cute_dsl_compile(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """Both ends carry milliseconds; with its cache off FlashInfer says nothing."""
    if found[1]:
        return CompileBegan("cutedsl", "compile", label(found[2]))
    return CompileEnded("cutedsl", "compile", label(found[3] or found[4]))


@rule(
    runtime="",
    anchor=("Failed to load cached CuTe-DSL kernel from ", "[Autotuner]: Config cache hit for ", "[AutoTuner]: Config cache hit for "),
    pattern=(
        r"(?:Failed to load cached CuTe-DSL kernel from [^\n]{1,512}?/(\w{1,512})\.o: |\[Auto[tT]uner\]: Config cache hit for (\S{1,256}) \(runner=)"
    ),
    source=("Failed to load cached CuTe-DSL kernel from %s", "[Autotuner]: Config cache hit for %s (runner=%s, source=config file)"),
    samples={
        "flashinfer 0.6.14": "[Autotuner]: Config cache hit for trtllm::fused_moe::gemm1 (runner=MoERunner, source=config file)",
        "flashinfer 0.7.2": "Failed to load cached CuTe-DSL kernel from /var/cache/flashinfer/0.7.2/100a/cached_ops/nvfp4_quantize_sm100a_cute_dsl/"
        "swizzled_bf16_4096.o: undefined symbol: cuLaunchKernelEx. Recompiling.",
    },
    scope=Scope.BARE,
    emits=[Series("compile_cache_total", {"backend": "flashinfer", "result": "hit"})],
)
def flashinfer_cache(found: re.Match[str]) -> CompileCache:
    """A tuned configuration came from a file, or a kept kernel is of no use."""
    return CompileCache("cutedsl", "miss", label(found[1])) if found[1] else CompileCache("flashinfer", "hit", label(found[2]))


@rule(
    runtime="",
    anchor=(
        "[AutoTuner]: No tuned config covers ",
        "[Autotuner]: OOM detected, falling back to default tactic",
        "[Autotuner]: Cache file ",
    ),
    pattern=(
        r"\[Auto[tT]uner\]: (?:No tuned config covers (\S{1,256}) input_shapes=|(OOM) detected, falling back to default tactic"
        r"|(Cache) file [^\n]{1,512}? was created in a different environment)"
    ),
    source=(
        "[AutoTuner]: No tuned config covers ",
        "[Autotuner]: OOM detected, falling back to default tactic",
        "[Autotuner]: Cache file %s was created in a different environment",
    ),
    samples={
        "flashinfer 0.6.14": "[AutoTuner]: No tuned config covers trtllm::fused_moe::gemm1 input_shapes=((32768, 7168), (256, 4096, 7168)); falling "
        "back to runner=MoERunner tactic=-1.  This shape is outside the tuning bucket range -- expand tuning_buckets / max_num_tokens during the "
        "next tuning pass to avoid this perf cliff.",
        "flashinfer 0.7.2": "[Autotuner]: OOM detected, falling back to default tactic",
    },
    scope=Scope.BARE,
    emits=[Series("config_hazards_total", {"kind": "warmup_incomplete"})],
)
def tactic_missing(found: re.Match[str]) -> Hazard:
    """Kernels run with default tactics, once a shape: slower than what was tuned."""
    return Hazard("warmup_incomplete", found[1] or found[2] or found[3])


@rule(
    runtime="",
    anchor="RuntimeError: Ninja build failed.",
    pattern=r"RuntimeError: Ninja build failed\.(?: Ninja output:)?",
    source="Ninja build failed.",
    samples={"flashinfer 0.6.14": "RuntimeError: Ninja build failed. Ninja output:"},
    scope=Scope.EXCEPTION | Scope.BARE,
    emits=[Series("jit_failures_total", {"backend": "flashinfer"})],
)
def ninja_failed(_: re.Match[str]) -> CompileFailed:
    """A C++ build of FlashInfer's; the compiler's output follows."""
    return CompileFailed("flashinfer", "")
