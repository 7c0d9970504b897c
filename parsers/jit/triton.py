"""Triton's autotuner prints when it has finished: one line up to 3.2, four lines from 3.3 on."""

import re

from parsers.events import Compiled, CompileTook
from parsers.rules import Scope, compile_series, rule
from parsers.units import DECIMAL


@rule(
    runtime="",
    anchor="Triton autotuning for function ",
    pattern=rf"Triton autotuning for function ([\w.<>]{{1,256}})(?:,$| finished after {DECIMAL}s;[^\n]*)",
    source="Triton autotuning for function %s",
    samples={
        "0.26.0": "Triton autotuning for function fused_moe_kernel,",
        "0.32.0": "Triton autotuning for function _stub_fwd_kernel,",
        "0.33.0": "Triton autotuning for function fused_moe_kernel,",
        "triton 3.2.0": "Triton autotuning for function fused_moe_kernel finished after 1.24s; best config selected: BLOCK_SIZE_M: 16, "
        "BLOCK_SIZE_N: 64, BLOCK_SIZE_K: 128, GROUP_SIZE_M: 1, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None;",
    },
    scope=Scope.BARE,
    emits=compile_series("triton", "autotune", timed=True),
)
def triton_autotune(found: re.Match[str]) -> Compiled:
    """A kernel was tuned for a new key."""
    return Compiled("triton", "autotune", found[1], float(found[2]) if found[2] else None)


@rule(
    runtime="",
    anchor="finished after ",
    pattern=rf"finished after {DECIMAL}s,",
    source="finished after %.2fs",
    samples={
        "0.26.0": "finished after 1.24s,",
        "0.32.0": "finished after 0.00s,",
        "0.33.0": "finished after 1.24s,",
    },
    scope=Scope.BARE,
)
def triton_autotune_took(found: re.Match[str]) -> CompileTook:
    """The third of the four lines."""
    return CompileTook("triton", float(found[1]))
