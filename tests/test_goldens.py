"""The whole exposition of real logs, kept beside them: a change in what is exported shows in review, line by line."""

import json
import re
from collections.abc import Callable

import pytest

from exporter import saved
from exporter.exposition import exposition
from exporter.source import Source
from tests.conftest import DATA

YEAR = 2026
LOGS = sorted(
    path.relative_to(DATA).with_suffix("").as_posix() for kind in ("captured", "rendered") for path in DATA.glob(f"*/{kind}-*.log")
)
PLAIN_LOGS = [name for name in LOGS if not re.search(r"cri|docker|json", name)]
_OF_THE_BUILD = "inferlog_build_info{"
_OF_THE_WRAPPING = re.compile(r"inferlog_(?:build_info|\w+_timestamp_seconds|log_lines_total)\{")


@pytest.mark.parametrize("name", LOGS)
def test_exposition_is_the_golden_one(name: str, pytestconfig: pytest.Config) -> None:
    """A saved log always gives the same exposition."""
    source = Source("golden", year=YEAR)
    for _ in saved.read(str(DATA / f"{name}.log"), source):
        pass
    lines = exposition([saved.snapshot(source)]).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(("#", _OF_THE_BUILD)))
    golden = DATA / f"{name}.prom"
    if pytestconfig.getoption("--update-goldens"):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


def docker(line: bytes) -> list[bytes]:
    """A line as Docker's json-file driver keeps it."""
    entry = {"log": line.decode("utf-8", "replace"), "stream": "stdout", "time": "2026-07-14T03:12:07.123456789Z"}
    return [json.dumps(entry, separators=(",", ":")).encode() + b"\n"]


def cri(line: bytes) -> list[bytes]:
    """A line as containerd and CRI-O keep it: a long one in parts."""
    text = line.decode("utf-8", "replace").removesuffix("\n")
    parts = [text[start : start + 100] for start in range(0, len(text), 100)] or [""]
    tags = ["P"] * (len(parts) - 1) + ["F"]
    return [f"2026-07-14T03:12:07.123456789Z stdout {tag} {part}\n".encode() for tag, part in zip(tags, parts, strict=True)]


@pytest.mark.parametrize("wrap", [docker, cri])
@pytest.mark.parametrize("name", PLAIN_LOGS)
def test_a_wrapped_log_tells_the_same(name: str, wrap: Callable[[bytes], list[bytes]]) -> None:
    """In colour or not: only the times are the runtime's."""
    source = Source("golden", year=YEAR)
    for line in (DATA / f"{name}.log").read_bytes().splitlines(keepends=True):
        for wrapped in wrap(line):
            source.feed(wrapped)
    golden = (DATA / f"{name}.prom").read_text(encoding="utf-8").splitlines()
    found = exposition([saved.snapshot(source)]).splitlines()
    told = [[line for line in lines if line and not line.startswith("#") and not _OF_THE_WRAPPING.match(line)] for lines in (golden, found)]

    assert told[0] == told[1]
