"""TileLang tells the beginning and the end of each compile, on every rank (0.1.9 to 0.1.15)."""

import re

from parsers.events import CompileBegan, CompileEnded
from parsers.rules import Scope, compile_series, rule


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
