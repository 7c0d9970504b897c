"""TileLang tells the beginning and the end of each compile, on every rank; verbosely how long it took (0.1.9 to 0.1.15)."""

import re

from parsers.events import NOTHING, CompileBegan, CompileCache, Compiled, CompileEnded, CompileFailed, Nothing
from parsers.rules import Scope, Series, compile_series, rule
from parsers.units import DECIMAL, label


@rule(
    runtime="",
    anchor=("TileLang begins to compile kernel ", "TileLang completes to compile kernel "),
    pattern=r"TileLang (begins|completes) to compile kernel `([^`\n]{1,256})`(?: with `out_idx=[^`\n]{0,256}`)?(?: \[repeated \d+x across cluster\])?",
    source=("TileLang begins to compile kernel `%s` with `out_idx=%s`", "TileLang completes to compile kernel `%s`"),
    samples={
        "0.26.0": "TileLang begins to compile kernel `hc_pre_kernel` with `out_idx=None`",
        "0.33.0": "TileLang completes to compile kernel `hc_pre_kernel`",
    },
    scope=Scope.BARE,
    emits=compile_series("tilelang", "compile", timed=True),
)
def tilelang_compile(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """A load from TileLang's disk cache prints neither line."""
    if found[1] == "begins":
        return CompileBegan("tilelang", "compile", found[2])
    return CompileEnded("tilelang", "compile", found[2])


@rule(
    runtime="",
    anchor=("TileLang JIT phase done: cache.compile ", "TileLang JIT phase failed: cache.compile "),
    pattern=rf"TileLang JIT phase (done|failed): cache\.compile elapsed={DECIMAL}s [^\n]{{0,1024}}?\bkernel='([^'\n]{{1,256}})'[^\n]{{0,1024}}",
    source=("TileLang JIT phase done: %s elapsed=%.3fs%s", "TileLang JIT phase failed: %s elapsed=%.3fs%s"),
    samples={
        "tilelang 0.1.15": "TileLang JIT phase done: cache.compile elapsed=11.482s backend='tvm_ffi', cache_key='5c2f0d5a93b1', "
        "cache_path='/var/cache/tilelang/0.1.15/kernels/5c2f0d5a93b1', kernel='hc_pre_kernel', target='cuda -arch=sm_90a', target_host=None",
    },
    scope=Scope.BARE,
    emits=[*compile_series("tilelang", "compile", timed=True), Series("jit_failures_total", {"backend": "tilelang"})],
)
def tilelang_phase(found: re.Match[str]) -> Compiled | CompileFailed:
    """With TILELANG_JIT_DIAGNOSTICS=1 the whole compile to the millisecond, behind its pair; the phases within it are left out."""
    if found[1] == "failed":
        return CompileFailed("tilelang", found[3])
    return Compiled("tilelang", "compile", found[3], float(found[2]))


@rule(
    runtime="",
    anchor="Found kernel '",
    pattern=r"Found kernel '([^'\n]{1,256})' in memory cache\.",
    source="Found kernel '%s' in memory cache. For better performance, consider using `@tilelang.jit` instead of direct kernel caching.",
    samples={
        "tilelang 0.1.15": "Found kernel 'hc_pre_kernel' in memory cache. For better performance, consider using `@tilelang.jit` instead of direct "
        "kernel caching.",
    },
    scope=Scope.BARE,
    emits=[Series("compile_cache_total", {"backend": "tilelang", "result": "hit"})],
)
def tilelang_cached(found: re.Match[str]) -> CompileCache:
    """A warning, but no compile; hits on disk print nothing."""
    return CompileCache("tilelang", "hit", label(found[1]))


@rule(
    runtime="",
    anchor=("Auto-tuning with ", "Auto-tuning failed: "),
    pattern=(
        r"Auto-tuning (?:with [\d.]{1,16} CPU (?:utilizations|counts), \d{1,6} CPUs available, \d{1,6} CPUs will be used(, but the max)?"
        r"|(failed): No configuration successfully compiled)"
    ),
    source=("Auto-tuning with %s CPU utilizations, %s CPUs available, %s CPUs will be used", "Auto-tuning failed: No configuration "),
    samples={
        "tilelang 0.1.9": "Auto-tuning with 0.9 CPU utilizations, 64 CPUs available, 57 CPUs will be used",
        "tilelang 0.1.15": "Auto-tuning failed: No configuration successfully compiled and passed benchmarking/validation.",
    },
    scope=Scope.BARE,
    emits=[*compile_series("tilelang", "autotune"), Series("jit_failures_total", {"backend": "tilelang"})],
)
def tilelang_autotune(found: re.Match[str]) -> Compiled | CompileFailed | Nothing:
    """Its beginning, which names no kernel; a warning repeats it with a lower number of CPUs. Its end is a progress bar's."""
    if found[2]:
        return CompileFailed("tilelang", "")
    return NOTHING if found[1] else Compiled("tilelang", "autotune", "")
