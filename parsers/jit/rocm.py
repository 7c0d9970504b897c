"""AITER (ROCm) builds its modules with hipcc at their first use; one process builds, the others wait."""

import re

from parsers.events import CompileBegan, CompileEnded, CompileFailed
from parsers.rules import Scope, Series, compile_series, rule
from parsers.units import DECIMAL, label

_WHO = r"\[aiter\] (?:\[pid=\d{1,10} pname=[^\]\n]{1,64}\] )?"


@rule(
    runtime="",
    anchor="[aiter] ",
    pattern=rf"{_WHO}(?:start build \[([^\]\n]{{1,256}})\](?: under [^\n]{{1,512}})?|finish build \[([^\]\n]{{1,256}})\], cost {DECIMAL}s)",
    source=("start build [%s] under %s", "finish build [%s], cost %.1fs "),
    samples={
        "aiter 0.1.5": "[aiter] finish build [module_gemm_a8w8_bpreshuffle], cost 102.34592665s",
        "aiter 0.1.7": "[aiter] start build [module_rmsnorm] under /usr/local/lib/python3.12/dist-packages/aiter/jit/build/module_rmsnorm",
        "aiter 0.1.15": "[aiter] [pid=254 pname=Process-4] start build [module_moe] under /sgl-workspace/aiter/aiter/jit/build/module_moe",
        "aiter 0.1.15, done": "[aiter] [pid=2406910 pname=MainProcess] finish build [module_moe], cost 67.3s ",
    },
    scope=Scope.BARE,
    emits=compile_series("aiter", "compile", timed=True),
)
def aiter_build(found: re.Match[str]) -> CompileBegan | CompileEnded:
    """The end is told of a build that failed, too. An import alone is none: most modules are built before."""
    if found[1]:
        return CompileBegan("aiter", "compile", label(found[1]))
    return CompileEnded("aiter", "compile", label(found[2]), float(found[3]))


@rule(
    runtime="",
    anchor="[aiter] ",
    pattern=rf"{_WHO}failed (?:jit build|build jit) \[([^\]\n]{{1,256}})\][↓]*",
    source="failed jit build [%s]",
    samples={"aiter 0.1.7": "[aiter] failed jit build [module_aiter_enum]↓↓↓↓↓↓↓↓↓↓"},
    scope=Scope.BARE,
    emits=[Series("jit_failures_total", {"backend": "aiter"})],
)
def aiter_failed(found: re.Match[str]) -> CompileFailed:
    """The compiler's output follows, and the exception."""
    return CompileFailed("aiter", label(found[1]))
