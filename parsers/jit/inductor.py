"""torch.compile in torch's own words: kernels that inductor tries, graphs that dynamo makes again."""

import re

from parsers.events import Compiled
from parsers.rules import Scope, compile_series, rule
from parsers.units import DECIMAL, label


@rule(
    runtime="",
    anchor=("SingleProcess AUTOTUNE benchmarking takes ", "SubProcess AUTOTUNE benchmarking takes "),
    pattern=(
        rf"(?:Single|Sub)Process AUTOTUNE benchmarking takes {DECIMAL} seconds and {DECIMAL} seconds precompiling"
        rf"(?: for \d{{1,6}} choices)?(?: and {DECIMAL} seconds prescreening)?"
    ),
    source=(),  # inductor's own wording
    samples={
        "torch 2.9.1": "SingleProcess AUTOTUNE benchmarking takes 0.4124 seconds and 1.2034 seconds precompiling for 18 choices",
        "torch 2.7": "SingleProcess AUTOTUNE benchmarking takes 0.4124 seconds and 1.2034 seconds precompiling for 18 choices and 0.3150 seconds "
        "prescreening",
        "torch 2.5": "SingleProcess AUTOTUNE benchmarking takes 1.3427 seconds and 8.8429 seconds precompiling",
    },
    scope=Scope.BARE,
    emits=compile_series("inductor", "autotune", timed=True),
)
def gemm_autotuned(found: re.Match[str]) -> Compiled:
    """Inductor tried kernels for a matrix product (max-autotune)."""
    return Compiled("inductor", "autotune", "", sum(float(seconds) for seconds in found.groups() if seconds))


@rule(
    runtime="",
    anchor="torch._dynamo hit config.",
    pattern=r"torch\._dynamo hit config\.(?:accumulated_)?(?:recompile_limit|cache_size_limit)[^\n]{0,64}",
    source=(),
    samples={"torch 2.9.1": "torch._dynamo hit config.recompile_limit (8)"},
    scope=Scope.RECORD | Scope.BARE,
    emits=compile_series("inductor", "recompile"),
)
def recompile_limit(_: re.Match[str]) -> Compiled:
    """A function compiled so often that dynamo gave up: it runs uncompiled from now on."""
    return Compiled("inductor", "recompile", "")


@rule(
    runtime="",
    anchor="Recompiling function ",
    pattern=r"Recompiling function (\S{1,256}) in \S[^\n]{0,512}",
    source=(),
    samples={
        "torch 2.8": "Recompiling function forward in /usr/local/lib/python3.10/dist-packages/diffusers/models/transformers/"
        "transformer_flux.py:440",
    },
    scope=Scope.BARE,
    emits=compile_series("inductor", "recompile"),
)
def function_recompiled(found: re.Match[str]) -> Compiled:
    """Only with TORCH_LOGS=recompiles; the guards that failed follow, with the same header."""
    return Compiled("inductor", "recompile", label(found[1]))
