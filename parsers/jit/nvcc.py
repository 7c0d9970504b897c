"""What compilers themselves print: a sign that one is at work, not of what it makes nor for whom."""

import re

from parsers.events import CompilerSeen
from parsers.rules import Scope, Series, rule


@rule(
    runtime="",
    anchor=("ptxas info    : Compiling entry function '", "/usr/local/cuda"),
    pattern=r"(?:ptxas info    : Compiling entry function '[^'\n]{1,4096}' for 'sm_\w{1,8}'|/usr/local/cuda[\w.-]{0,16}/bin/nvcc -[^\n]{1,32768})",
    source=(),
    samples={
        "nvcc 12.8": "ptxas info    : Compiling entry function '_Z10gemm_naivePKfS0_Pfiii' for 'sm_120'",
        "nvcc 12.8, by ninja": "/usr/local/cuda/bin/nvcc --generate-dependencies-with-compile -MF cascade.cuda.o.d -O3 -std=c++17 --threads=1 -c "
        "/usr/local/lib/python3.12/dist-packages/flashinfer/data/csrc/cascade.cu -o cascade.cuda.o",
    },
    scope=Scope.BARE,
    emits=[Series("jit_observed_total", {"seen_by": "log", "phase": phase}) for phase in ("startup", "serving")],
)
def compiler_seen(_: re.Match[str]) -> CompilerSeen:
    """FLASHINFER_JIT_VERBOSE, DG_JIT_PTXAS_VERBOSE and the like make them talk: one line an entry function, one a source file."""
    return CompilerSeen()
