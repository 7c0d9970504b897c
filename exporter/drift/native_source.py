"""Literals of C++, Go and Rust sources, and of built libraries: text only, for nothing tells what a macro prints."""

import re
from collections.abc import Iterator

from exporter.drift.shapes import compared

_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.){0,4000})"((?:\s|//[^\n]*\n|\bPRI[a-zA-Z0-9]+\b){0,200}(?="))?')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PRINTABLE = re.compile(rb"[\x09\x20-\x7e]{6,}")
_SHORTEST = 4


def literals(source: str) -> Iterator[str]:
    """String literals as they are compared; neighbours are one, as the compiler has it."""
    text = ""
    for found in _LITERAL.finditer(source):
        text += _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found[1])
        if found[2] is None:
            if len(text) >= _SHORTEST:
                yield compared(text)
            text = ""


def strings(binary: bytes) -> Iterator[str]:
    """What is printable in a built library, as it is compared."""
    for found in _PRINTABLE.finditer(binary):
        yield compared(found[0].decode("ascii"))
