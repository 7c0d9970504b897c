"""What a format string prints, whatever its values: literals with slots between them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

SLOT = "\0"
_PERCENT = re.compile(
    r"%(?:\((?P<name>[^)]*)\))?(?P<flags>[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?)(?:hh|h|ll|l|z|j|t|L)?(?P<kind>[diouxXeEfFgGcrsapqvtT%])"
)
_BRACES = re.compile(r"\{\{|\}\}|\{[^{}\n]{0,64}\}")
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value is printed: what the source calls it, and how it is converted (`s`, `d`, `.2f`)."""

    name: str
    conversion: str = "s"


Shape: TypeAlias = tuple[str | Slot, ...]


def joined(*shapes: Shape) -> Shape:
    """One shape behind the other, with neighbouring literals as one."""
    parts: list[str | Slot] = []
    for part in (part for shape in shapes for part in shape):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return tuple(parts)


def of_percent(text: str, names: list[str] | None = None) -> Shape:
    """The shape of a format string in %'s language; `names` are those of its values, in their order."""
    parts: list[str | Slot] = []
    end, remaining = 0, iter(names or ())
    for found in _PERCENT.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found["kind"] == "%":
            parts.append("%")
        else:
            kind = {"i": "d", "u": "d", "r": "s", "a": "s", "q": "s", "v": "s", "t": "s", "T": "s", "p": "s"}.get(
                found["kind"], found["kind"]
            )
            flags = found["flags"].replace("*", "") if kind != "s" else ""
            parts.append(Slot(found["name"] or next(remaining, "value"), flags + kind))
    return joined(tuple(part for part in (*parts, text[end:])))


def of_braces(text: str) -> Shape:
    """The shape of a format string of `str.format`, of fmt or of Rust."""
    parts: list[str | Slot] = []
    end = 0
    for found in _BRACES.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        name, _, spec = found[0][1:-1].partition(":")
        parts.append(found[0][0] if found[0] in ("{{", "}}") else of_spec(name or "value", spec))
    return joined((*parts, text[end:]))


def of_spec(name: str, spec: str) -> Slot:
    """The slot of a replacement field. What % cannot print is a word."""
    found = re.fullmatch(r"[<>^+ ]?(0?\d*(?:\.\d+)?)([dfegxX]?)", spec)
    return Slot(name, found[1] + found[2]) if found and found[2] else Slot(name)


def named(expression: str) -> str:
    """A name for a value: its expression, without what cannot stand in one."""
    return re.sub(r"\W+", "_", expression.removeprefix("self.")).strip("_")[:_LONGEST_NAME] or "value"


def written(shape: Shape) -> str:
    """The shape as one format string in %'s language, with the names of the values."""
    return "".join(part.replace("%", "%%") if isinstance(part, str) else f"%({part.name}){part.conversion}" for part in shape)


def plain(shape: Shape) -> str:
    """What two shapes are compared by: their literals, with one mark for each value."""
    return "".join(part if isinstance(part, str) else SLOT for part in shape)


def compared(text: str) -> str:
    """The same of a format string, in the language of %, of braces or of Rust."""
    marked = plain(of_percent(text))
    return marked if SLOT in marked or "{" not in marked else plain(of_braces(marked))


def readable(shape: str) -> str:
    """A compared shape for people."""
    return shape.replace(SLOT, "%s").replace("\n", "\\n")


def rendered(written_shape: str, values: Mapping[str, str]) -> str:
    """The line that a format string prints: with the values of these names, and 7 for others."""
    return written_shape % _Values(values)


class _Values(dict[str, object]):
    def __missing__(self, name: str) -> object:
        return 7
