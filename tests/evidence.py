"""How the sample lines of the rules are known: they stand in a log of tests/data, or in tests/data/lines with their origin.

A key is a version of vLLM, another engine and its version (`sglang 0.5.17`), or the library whose words the line has.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

DATA = Path(__file__).parent / "data"
LINES = DATA / "lines"
ORIGINS = {"captured": "captured", "rendered": "rendered", "field": "reported"}
"""What the first word of a log's name says of it, the best evidence first."""

OTHER_ENGINES = frozenset({"sglang", "aibrix", "llm-d", "sglang_router"})

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What a sample stands behind: nothing, the header of an engine or a library, what a JSON object or a viewer puts before a message.
_HEAD = re.compile(
    r"(?:^|\"message\": ?\"|\\n|\[?\b[\w./-]+:\d+\] |\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? +"
    r"|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z_]{2,7}\d+)*\] (?:[A-Z]+: +)?|\(\w+\.py:\d+\): |- flashinfer\.jit: |\([A-Za-z][\w-]* pid=\d+(?:, ip=[\w.]+)?\) )(?:\[\w{1,32}\] )?$",
    re.ASCII,
)
_LONG = 400
"""Characters from which a sample may be the beginning of a longer line: dumps of a whole configuration."""


def known(key: str, sample: str) -> str:
    """`captured`, `rendered` or `reported`, whichever is best; empty when no test data show the line at that version."""
    forms = (sample, json.dumps(sample, ensure_ascii=False)[1:-1])
    for origin, line in _lines(key):
        for form in forms:
            before, found, rest = line.partition(form)
            if found and _HEAD.search(before) and (not rest or rest[0] == '"' or len(sample) > _LONG):
                return origin
    return ""


@cache
def version_of(log: str) -> str:
    """The release that a log of tests/data is of, as far as anybody knows: `0.26` when not even its author said more."""
    return str(_cases()[log]["version"]).partition("-")[0].partition("+")[0]


@cache
def _cases() -> dict[str, dict[str, str]]:
    cases: dict[str, dict[str, str]] = yaml.safe_load((DATA / "expectations.yaml").read_text(encoding="utf-8"))
    return cases


@cache
def _lines(key: str) -> tuple[tuple[str, str], ...]:
    """All lines that can show a sample, with their origin."""
    found: list[tuple[str, str]] = []
    engine, version = release(key)
    if version:
        for word, origin in ORIGINS.items():
            paths = sorted(DATA.glob(f"{engine}-*/{word}-*.log"))
            logs = (path for path in paths if version_of(f"{path.parent.name}/{path.stem}") == version)
            for path in logs:
                found += [(origin, _COLOUR.sub("", line)) for line in path.read_text("utf-8", "replace").splitlines()]
    return (*found, *sorted(kept_lines(kept_in(key))))


def kept_in(key: str) -> Path:
    """The file with the lines that no log has."""
    engine, version = release(key)
    return LINES / f"{f'{engine}-{version}' if version else engine}.txt"


def release(key: str) -> tuple[str, str]:
    """The engine and its version, or a library and nothing."""
    if key[0].isdigit():
        return "vllm", key
    name, _, version = key.partition(" ")
    return name, version if name in OTHER_ENGINES else ""


def kept_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of such a file, each with the origin that the comment over its block tells."""
    origin = ""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        if line.startswith("# "):
            origin = line[2:].partition(": ")[0]
        else:
            yield origin, line
