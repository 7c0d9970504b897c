"""Texts at INFO that no known release has, in the files that print our signals: an engine may have reworded one of those."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LONGEST = 64
"""Characters of a beginning that are compared."""

ANYWHERE = "*"
"""Stands before the pieces of a text that begins with a value."""

PIECES = "\t"
"""Stands between them."""

_WORD = re.compile(r"[A-Za-z]{2}")
_TAG_END = "] "
_LONGEST_TAG = 66


class _Texts(NamedTuple):
    beginnings: tuple[str, ...]
    pieces: tuple[tuple[str, ...], ...]


@cache
def _known() -> dict[str, _Texts]:
    """By source file; read when the first line asks for it."""
    listed: dict[str, list[str]] = json.loads(files("parsers.vllm").joinpath("wordings.json").read_text("utf-8"))
    return {
        file: _Texts(
            tuple(text for text in texts if not text.startswith(ANYWHERE)),
            tuple(tuple(text.removeprefix(ANYWHERE).split(PIECES)) for text in texts if text.startswith(ANYWHERE)),
        )
        for file, texts in listed.items()
    }


def _file(where: str) -> str:
    """The name of the source file, of a path or of a logger's dotted name."""
    name = where.partition(":")[0].rpartition("/")[2]
    return name if name.endswith(".py") else name.rpartition(".")[2] + ".py"


def _in_order(pieces: tuple[str, ...], line: str, start: int) -> bool:
    for piece in pieces:
        start = line.find(piece, start) + len(piece)
        if start < len(piece):
            return False
    return True


def is_new(where: str, line: str, start: int) -> bool:
    """Whether a text at INFO is none that any release of vLLM prints from this file; `where` is the header's."""
    texts = _known().get(_file(where))
    if texts is None or not _WORD.search(line, start):
        return False
    if line.startswith(texts.beginnings, start) or any(_in_order(pieces, line, start) for pieces in texts.pieces):
        return False
    end = line.find(_TAG_END, start, start + _LONGEST_TAG) if line.startswith("[", start) else -1
    return end < 0 or not line.startswith(texts.beginnings, end + len(_TAG_END))
