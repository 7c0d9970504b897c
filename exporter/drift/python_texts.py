"""What a Python expression says as text: constants, f-strings, sums, joined lists, and the variables that hold them."""

import ast
from collections.abc import Mapping
from typing import TypeVar

from exporter.drift.shapes import Shape, Slot, joined, named, of_braces, of_percent, of_spec

_VARIANTS = 24
"""Ways that one message can be put together which are followed: the shortest and the longest."""
_DEEPEST = 40
_MOST_STARRED = 24

Variants = list[Shape]
Listed = list[tuple[Shape, ...]]
Either = TypeVar("Either", bound=tuple[object, ...])


class Texts:
    """The variables of a scope that hold text, each with the shapes that it can have."""

    def __init__(self, returned: Mapping[str, ast.expr], outer: "Mapping[str, Variants] | None" = None) -> None:
        """`returned` is what the module's functions give back, by their names."""
        self.returned = returned
        self.names: dict[str, Variants] = dict(outer or {})
        self.lists: dict[str, Listed] = {}

    def items(self, node: ast.List | ast.Tuple) -> Listed:
        listed: Listed = [()]
        for each in node.elts:
            if self.is_text(each):
                listed = few([(*before, shape) for before in listed for shape in self.text(each)])
        return listed

    def is_text(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                return True
            case ast.Name(id=name):
                return name in self.names
            case ast.BinOp(op=ast.Add() | ast.Mod()):
                return self.is_text(node.left) or (isinstance(node.op, ast.Add) and self.is_text(node.right))
            case ast.IfExp():
                return self.is_text(node.body) or self.is_text(node.orelse)
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "join" | "strip" | "rstrip")):
                return self.is_text(value)
            case ast.Call(func=ast.Name(id=name)):
                return isinstance(self.returned.get(name), ast.Constant | ast.JoinedStr)
            case _:
                return False

    def text(self, node: ast.expr, names: list[str] | None = None, depth: int = 0) -> Variants:
        """The shapes that an expression can have. `names` are those of the arguments that the call fills in."""
        if depth > _DEEPEST:
            return [(Slot("value"),)]
        match node:
            case ast.Constant(value=str(literal)):
                return [of_percent(literal, names) if names is not None else (literal,)]
            case ast.JoinedStr():
                return self.joined_string(node, names, depth)
            case ast.Name(id=name) if name in self.names:
                return [_filled(shape, names) for shape in self.names[name]]
            case ast.BinOp(op=ast.Add()):
                return pairs(self.text(node.left, names, depth + 1), self.text(node.right, names, depth + 1))
            case ast.BinOp(op=ast.Mod()):
                given = node.right.elts if isinstance(node.right, ast.Tuple) else [ast.Starred(node.right)]
                return self.text(node.left, [name for each in given for name in names_of(each)], depth + 1)
            case ast.IfExp():
                return either(self.text(node.orelse, names, depth + 1), self.text(node.body, names, depth + 1))
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(separator)), attr="join"), args=[ast.Name(id=name)]) if (
                name in self.lists
            ):
                return [_filled(separated(separator, each), names) for each in self.lists[name]]
            case ast.Call(func=ast.Attribute(value=value, attr="format")) if self.is_text(value):
                return [of_braces("".join(part for part in shape if isinstance(part, str))) for shape in self.text(value, None, depth + 1)]
            case ast.Call(func=ast.Name(id=name)) if self.is_text(node):
                return Texts(self.returned).text(self.returned[name], None, depth + 1)
            case ast.Call(func=ast.Attribute(value=value, attr="strip" | "rstrip")) if self.is_text(value):
                return self.text(value, names, depth + 1)
            case _:
                return [(Slot(named(ast.unparse(node))),)]

    def joined_string(self, node: ast.JoinedStr, names: list[str] | None, depth: int) -> Variants:
        variants: Variants = [()]
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                # What an inner expression holds (a constant, or a text that was put together before) is text here.
                spec = (
                    "".join(str(each.value) for each in part.format_spec.values if isinstance(each, ast.Constant))
                    if isinstance(part.format_spec, ast.JoinedStr)
                    else ""
                )
                inner: Variants = (
                    self.text(part.value, None, depth + 1)
                    if not spec and self.is_text(part.value)
                    else [(of_spec(named(ast.unparse(part.value)), spec),)]
                )
                if spec.endswith("%"):
                    inner = [(of_spec(named(ast.unparse(part.value)), spec[:-1] + "f"), "%")]
                variants = pairs(variants, inner)
            else:
                variants = pairs(variants, self.text(part, names, depth + 1))
        return variants


def names_of(argument: ast.expr) -> list[str]:
    """The names of an argument's values; how many a starred one has, nothing tells."""
    name = named(ast.unparse(argument.value if isinstance(argument, ast.Starred) else argument))
    return [f"{name}_{at}" for at in range(_MOST_STARRED)] if isinstance(argument, ast.Starred) else [name]


def _filled(shape: Shape, names: list[str] | None) -> Shape:
    """A text that was put together before, once its %-values are known."""
    if names is None:
        return shape
    remaining = list(names)
    parts: list[Shape] = []
    for part in shape:
        if isinstance(part, str):
            parts.append(of_percent(part, remaining))
            del remaining[: sum(isinstance(each, Slot) for each in parts[-1])]
        else:
            parts.append((part,))
    return joined(*parts)


def separated(separator: str, shapes: tuple[Shape, ...]) -> Shape:
    """Shapes with a separator between them."""
    parts: list[Shape] = []
    for shape in shapes:
        parts += [(separator,), shape] if parts else [shape]
    return joined(*parts)


def pairs(left: Variants, right: Variants) -> Variants:
    """Each of the first before each of the second."""
    return few([joined(one, other) for one in left for other in right])


def either(one: list[Either], other: list[Either]) -> list[Either]:
    """Variants after either of two branches."""
    return few(list(dict.fromkeys([*one, *other])))


def few(variants: list[Either]) -> list[Either]:
    """The shortest and the longest when there are too many."""
    return ends(variants, _VARIANTS // 2) if len(variants) > _VARIANTS else variants


def ends(variants: list[Either], number: int) -> list[Either]:
    """So many of the shortest and of the longest."""
    ordered = sorted(variants, key=_length)
    return [*ordered[:number], *ordered[-number:]] if len(ordered) > 2 * number else ordered


def _length(parts: object) -> int:
    return sum(map(_length, parts)) if isinstance(parts, tuple) else len(parts) if isinstance(parts, str) else 1
