"""FlashInfer's autotuner; its C++ builds print nothing (0.6.14 to 0.7.2)."""

import re

from parsers.events import CompileBegan, CompileEnded
from parsers.rules import Scope, compile_series, rule


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
