"""Log calls of Python sources as shapes: what a module would print, followed through its variables, branches and joined lists."""

import ast
import warnings
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from exporter.drift.python_texts import Listed, Texts, Variants, either, ends, few, names_of, pairs, separated
from exporter.drift.release import PYTHON, Release
from exporter.drift.shapes import SLOT, Shape, Slot, compared, joined

LEVELS = {
    "debug": "DEBUG", "info": "INFO", "warning": "WARNING", "warn": "WARNING", "error": "ERROR", "exception": "ERROR", "critical": "CRITICAL",
    "fatal": "CRITICAL",
}  # fmt: skip
ALARMING = frozenset(("WARNING", "ERROR", "CRITICAL"))
EXCEPTION = "raise"
PRINTED = "print"
KEYS = "keys"
_ENDS = 2
"""Of those, how many at each end are kept in the end."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one call prints. `level` is a log level, `raise` for an exception, `print`, or `keys` for a returned dictionary, as `key=value` pairs."""

    path: str
    level: str
    shape: Shape


def calls(path: str, source: str) -> Iterator[Call]:
    """All calls of a module, each way that they can print. Nothing when it does not parse."""
    if (tree := parsed(source)) is not None:
        yield from _Module(path).read(tree)


@lru_cache(maxsize=1)
def calls_of(release: Release) -> dict[str, tuple[Call, ...]]:
    """The calls of a whole release, by file; several look at those of one release after another."""
    return {member.path: tuple(calls(member.path, member.text)) for member in release.members(PYTHON)}


def unfollowed(path: str, source: str) -> set[str]:
    """Functions of a module that print a text at INFO which their callers give; "" for one that nothing in the sources tells."""
    tree = parsed(source)
    if tree is None:
        return set()
    module = _Module(path)
    deque(module.read(tree), maxlen=0)
    return module.unfollowed


def given(functions: Collection[str], source: str) -> Iterator[Shape]:
    """The texts that a module gives to functions of these names, and the defaults of those that it defines."""
    tree = parsed(source)
    for node in ast.walk(tree) if tree and any(name in source for name in functions) else ():
        if isinstance(node, ast.Call) and _last_name(node.func) in functions:
            arguments = [*node.args, *(each.value for each in node.keywords)]
        elif isinstance(node, ast.FunctionDef) and node.name in functions:
            arguments = [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        else:
            continue
        texts = Texts({})
        for each in arguments:
            yield from texts.text(each, []) if texts.is_text(each) else ()


def strings(source: str) -> Iterator[str]:
    """All string literals of a module as they are compared, whatever they are for."""
    tree = parsed(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield compared(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else SLOT for part in node.values)


@lru_cache(maxsize=1)
def parsed(source: str) -> ast.Module | None:
    """The module, None when it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's escapes
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Module:
    """One pass over a module. The names of a scope map to the shapes that they can have."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: dict[tuple[str, Shape], None] = {}
        self.returned: dict[str, ast.expr] = {}
        """What functions of one return statement give back, by their names."""
        self.unfollowed: set[str] = set()
        """The functions in which a text at INFO came that nobody could follow; "" where no caller gives it."""

    def read(self, tree: ast.Module) -> Iterator[Call]:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and isinstance(last := node.body[-1], ast.Return) and last.value is not None:
                self.returned[node.name] = last.value
        _Scope(self).block(tree.body)
        for level, shape in self.found:
            yield Call(self.path, level, shape)

    def add(self, level: str, variants: Variants) -> None:
        for shape in ends(variants, _ENDS):
            if any(isinstance(part, str) and part.strip() for part in shape):
                self.found[level, shape] = None


class _Scope(Texts):
    """Statements in their order."""

    def __init__(self, module: _Module, outer: "dict[str, Variants] | None" = None) -> None:
        super().__init__(module.returned, outer)
        self.module = module
        self.function = ""
        self.parameters: frozenset[str] = frozenset()

    # -- statements

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                scope = _Scope(self.module, self.names)
                if not isinstance(node, ast.ClassDef):
                    scope.function, scope.parameters = node.name, frozenset(each.arg for each in (*node.args.args, *node.args.kwonlyargs))
                scope.block(node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body)
            case ast.If():
                self.expressions(node.test)
                self.branches(node.body, node.orelse)
            case ast.For() | ast.AsyncFor() | ast.While():
                self.branches([*node.body, *node.orelse], [])
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expressions(item.context_expr)
                self.block(node.body)
            case ast.Try() | ast.TryStar():
                self.block(node.body)
                for handler in node.handlers:
                    self.branches(handler.body, [])
                self.block([*node.orelse, *node.finalbody])
            case ast.Match():
                for case in node.cases:
                    self.branches(case.body, [])
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if node.value is not None:
                self.assign(name, node.value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
                self.extend(name, node.value)
            case ast.Raise(exc=ast.Call(func=function, args=[first, *_])):
                self.module.add(EXCEPTION, [joined((f"{_last_name(function)}: ",), shape) for shape in self.text(first)])
            case ast.Return(value=ast.Dict(keys=[ast.Constant(value=str()), *_] as keys)):
                self.expressions(node)
                words = [each.value for each in keys if isinstance(each, ast.Constant) and isinstance(each.value, str)]
                self.module.add(KEYS, [separated(", ", tuple((f"{word}=", Slot("value")) for word in words))])
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                self.expressions(node)

    def branches(self, one: list[ast.stmt], other: list[ast.stmt]) -> None:
        """Either of two blocks: a name has what it has after one of them."""
        names, lists = self.names, self.lists
        ends = []
        for body in (other, one):
            self.names, self.lists = dict(names), dict(lists)
            self.block(body)
            ends.append((self.names, self.lists))
        (self.names, self.lists), (more_names, more_lists) = ends
        for name, variants in more_names.items():
            self.names[name] = either(self.names.get(name, []), variants)
        for name, listed in more_lists.items():
            self.lists[name] = either(self.lists.get(name, []), listed)

    def assign(self, name: str, value: ast.expr) -> None:
        self.expressions(value)
        if isinstance(value, ast.List | ast.Tuple):
            self.lists[name] = self.items(value)
        elif self.is_text(value):
            self.names[name] = self.text(value)
        else:
            self.names.pop(name, None)
            self.lists.pop(name, None)

    def extend(self, name: str, value: ast.expr) -> None:
        self.expressions(value)
        if name in self.lists and isinstance(value, ast.List | ast.Tuple):
            self.lists[name] = few([(*before, *more) for before in self.lists[name] for more in self.items(value)])
        elif name in self.names:
            self.names[name] = pairs(self.names[name], self.text(value))

    # -- expressions

    def expressions(self, node: ast.AST) -> None:
        """Calls and strings anywhere within; what a call prints is no string of its own."""
        if isinstance(node, ast.Name | ast.Constant | ast.expr_context | ast.operator):
            return
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            taken = self.call(node)
            inner = [child for child in inner if child not in taken]
        for child in inner:
            if isinstance(child, ast.stmt):
                self.statement(child)
            else:
                self.expressions(child)

    def call(self, node: ast.Call) -> list[ast.expr]:
        """Take what a call prints or appends; which of its arguments that were."""
        name = _last_name(node.func)
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in self.lists
            and node.args
        ):
            self.grow(node.func.value.id, name, node.args[0])
            return node.args[:1]
        level = _level(node.func, name)
        args = node.args
        if name == "log" and args and (given := LEVELS.get(_last_name(args[0]).lower())):
            level, args = given, args[1:]
        if not level or not args:
            return []
        names = [name for each in args[1:] for name in names_of(each)]
        variants = self.text(args[0], names or None) if self.is_text(args[0]) else []
        self.module.add(level, variants)
        if level == "INFO" and not variants and name != "log":
            self.module.unfollowed.add(self.function if isinstance(args[0], ast.Name) and args[0].id in self.parameters else "")
        return [args[0]] if variants else []

    def grow(self, name: str, method: str, argument: ast.expr) -> None:
        if method == "append":
            more: Listed = [(shape,) for shape in self.text(argument)]
        elif method == "extend" and isinstance(argument, ast.List | ast.Tuple):
            more = self.items(argument)
        else:
            return
        self.lists[name] = few([(*before, *each) for before in self.lists[name] for each in more])


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _level(function: ast.expr, name: str) -> str:
    """The level that a call logs at; "" when it does not log."""
    base = name.removesuffix("_once").removeprefix("log_").removeprefix("rank0_")
    if isinstance(function, ast.Attribute) and base in LEVELS:
        return LEVELS[base]
    if name in ("log_fn", "log", "log_info_on_rank0", "info_once", "rank0_log", "print_info_once"):
        return "INFO"
    if name in ("print_warning_once", "warning_once", "warn"):
        return "WARNING"
    return PRINTED if name == "print" else ""
