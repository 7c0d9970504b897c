"""Texts at INFO that no known release has, in the files that print our signals: an engine may have reworded one of those."""

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

LONGEST = 20
"""Characters of a beginning that are compared."""

ANYWHERE = "*"
"""Begins a part that may stand anywhere in a text, for one that begins with a value."""

_TAG_END = "] "
_LONGEST_TAG = 66


class _Texts(NamedTuple):
    beginnings: tuple[str, ...]
    parts: tuple[str, ...]


@cache
def _known() -> dict[str, _Texts]:
    """By source file; read when the first line asks for it."""
    listed: dict[str, list[str]] = json.loads(files("parsers.vllm").joinpath("wordings.json").read_text("utf-8"))
    return {
        file: _Texts(
            tuple(text for text in texts if not text.startswith(ANYWHERE)),
            tuple(text.removeprefix(ANYWHERE) for text in texts if text.startswith(ANYWHERE)),
        )
        for file, texts in listed.items()
    }


def is_new(where: str, line: str, start: int) -> bool:
    """Whether a text at INFO is none that any release of vLLM prints from this file; `where` is the header's."""
    texts = _known().get(where.partition(":")[0].rpartition("/")[2])
    if texts is None or not line[start:].strip():
        return False
    if line.startswith(texts.beginnings, start) or any(part in line for part in texts.parts):
        return False
    end = line.find(_TAG_END, start, start + _LONGEST_TAG) if line.startswith("[", start) else -1
    return end < 0 or not line.startswith(texts.beginnings, end + len(_TAG_END))
