"""What the files that print our signals say at INFO, by its beginnings: the list by which the parser knows a text that no release had."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from exporter.drift.compare import rules_about
from exporter.drift.python_source import calls_of, given, unfollowed
from exporter.drift.release import PYTHON, Release
from exporter.drift.shapes import SLOT, Shape, compared, plain
from exporter.drift.signals import VLLM
from parsers.rules import Scope
from parsers.wordings import ANYWHERE, LONGEST, PIECES

SAID = "said "
"""Of a level in the data file: what stands behind it is the name of a source file, and the text a beginning and no format string."""

FREE = ""
"""The beginning of what nothing in the sources tells."""

_SHORTEST = 4


def said(release: Release, files: Collection[str]) -> Iterator[tuple[str, str]]:
    """The beginnings of all that a release's watched files say at INFO: `files`, and those in which a rule's line is printed at INFO."""
    literals = {
        literal for rule in rules_about(release.name) if rule.scope & Scope.RECORD for text in rule.source if (literal := compared(text))
    }
    said_at_info = {path: [call.shape for call in found if call.level == "INFO"] for path, found in calls_of(release).items()}
    watched = {*files}
    for path, shapes in said_at_info.items():
        if file_name(path) not in watched and any(literal in text for text in map(plain, shapes) for literal in literals):
            watched.add(file_name(path))
    for path, shapes in said_at_info.items():
        if file_name(path) in watched:
            for shape in shapes:
                for beginning in beginnings(shape):
                    yield SAID + file_name(path), beginning
    printers: dict[str, set[str]] = defaultdict(set)
    for member in release.members(tuple(f"/{name}" for name in sorted(watched))):
        for function in unfollowed(member.path, member.text):
            printers[function].add(SAID + file_name(member.path))
    yield from ((level, FREE) for level in printers.pop("", ()))
    for member in release.members(PYTHON) if printers else ():
        for function, levels in printers.items():
            for shape in given((function,), member.text):
                yield from ((level, beginning) for level in levels for beginning in beginnings(shape))


def file_name(path: str) -> str:
    """What a header shows of a source file."""
    return path.rpartition("/")[2]


def beginnings(shape: Shape) -> Iterator[str]:
    """How each line of a text begins; where that is a value, the pieces between the values."""
    for line in plain(shape).split("\n"):
        first, *others = line.split(SLOT)
        if len(first) >= _SHORTEST or (first and not others):
            yield first[:LONGEST]
        elif line.strip():
            pieces = [piece for piece in (first, *others) if len(piece.strip()) >= _SHORTEST]
            yield ANYWHERE + PIECES.join(pieces)[:LONGEST] if pieces else FREE


def wordings(printed: Iterable[Iterable[tuple[str, str]]]) -> str:
    """The parser's list: by file, what any release of vLLM begins with. A file that anybody may speak through is not watched."""
    found: dict[str, set[str]] = defaultdict(set)
    for level, beginning in (each for release in printed for each in release if each[0].startswith(SAID)):
        found[level.removeprefix(SAID)].add(beginning)
    rows = [
        f" {json.dumps(file)}: {json.dumps(sorted(texts), ensure_ascii=False)}"
        for file, texts in sorted(found.items())
        if FREE not in texts
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


WATCHED = (VLLM,)
"""Engines whose headers tell the source file."""
