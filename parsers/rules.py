"""A rule is data: where a line begins, the shape that it must have, the event it makes, and real lines that prove it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache, cached_property
from typing import NamedTuple

from parsers.events import Event


class Scope(Flag):
    """Where in a log a rule's line may stand."""

    __hash__ = object.__hash__  # an Enum's own is a Python function, which `dispatch` would call for each bare line

    RECORD = auto()
    """The first line of a record, after its header."""
    CONTINUATION = auto()
    """A further line of a record, after the repeated header."""
    EXCEPTION = auto()
    """The line that names an exception: in a traceback, as a record of level WARNING or above, or without header."""
    BARE = auto()
    """A whole line without the engine's header, at column 0 or after another library's header."""
    GATEWAY = auto()
    """A record of a gateway or a controller, after its header and in klog's shape when a Go program prints it."""


class Series(NamedTuple):
    """A counter series that a rule can raise; labels that are learnt from the log are left out, `since` is a version of the engine."""

    family: str
    labels: Mapping[str, str] = {}
    since: str = ""


def compile_series(backend: str, event: str, *phases: str, timed: bool = False) -> list[Series]:
    """The series that a rule about compiles can raise, with durations when the log has them; both phases without `phases`."""
    found = []
    for phase in phases or ("startup", "serving"):
        found.append(Series("jit_events_total", {"backend": backend, "event": event, "phase": phase}))
        if timed:
            found.append(Series("jit_seconds_total", {"backend": backend, "phase": phase}))
    return found


Build = Callable[[re.Match[str]], Event]


@dataclass(frozen=True)
class Rule:
    """One line of an engine that inferlog understands. `source` are the engine's own literals, for the drift check."""

    name: str
    runtime: str
    since: str
    until: str
    anchors: tuple[str, ...]
    expression: str
    build: Build
    source: tuple[str, ...]
    samples: Mapping[str, str]
    scope: Scope
    emits: tuple[Series, ...]
    about: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when the first line asks for it: a short command need not wait for a hundred of them."""
        return re.compile(self.expression, re.ASCII)


_REGISTRY: list[Rule] = []


def rule(
    *,
    anchor: str | tuple[str, ...],
    pattern: str,
    source: str | tuple[str, ...],
    samples: Mapping[str, str],
    runtime: str = "vllm",
    since: str = "",
    until: str = "",
    scope: Scope = Scope.RECORD,
    emits: Iterable[Series] = (),
) -> Callable[[Build], Build]:
    """Register the decorated function as a rule of its name. It gets the match and may return NOTHING.

    `pattern` is matched at the start of the message and begins with one of the `anchor` literals (four characters or
    more; a leading `#` stands for a number). `samples` maps a version to a real message,
    which also stands in a log of tests/data or, with its origin, in tests/data/lines.
    """
    anchors = (anchor,) if isinstance(anchor, str) else anchor

    def register(build: Build) -> Build:
        _REGISTRY.append(
            Rule(
                name=build.__name__,
                runtime=runtime,
                since=since,
                until=until,
                anchors=anchors,
                expression=pattern,
                build=build,
                source=(source,) if isinstance(source, str) else source,
                samples=samples,
                scope=scope,
                emits=tuple(emits),
                about=(build.__doc__ or "").strip(),
            )
        )
        return build

    return register


def registry() -> tuple[Rule, ...]:
    """All rules, in the order of their definition."""
    return tuple(_REGISTRY)


KEY_LENGTH = 4
NUMBER_KEY = "#"
VARIABLE_STARTS = frozenset("[0123456789")
"""A message that begins so may match a rule that its first characters do not tell: behind a tag, or with a number first."""


@cache
def dispatch(scope: Scope, runtime: str = "", *, whole: bool = False) -> "Dispatch":
    """The one of this kind, for all streams: the rules are all there when the first stream is made."""
    return Dispatch(scope, runtime, whole=whole)


class Dispatch:
    """Finds the few rules that can match a message by its first characters."""

    def __init__(self, scope: Scope, runtime: str = "", *, whole: bool = False) -> None:
        """Index the rules of the scope, behind a header that tells the runtime only its own and those of libraries.

        `whole` when nothing may follow what they match.
        """
        self.whole = whole
        self.table: dict[str, tuple[Rule, ...]] = {}
        # Short anchors first: they are those of the periodic lines, which are the most frequent.
        for each in sorted(_REGISTRY, key=lambda rule: min(map(len, rule.anchors))):
            if each.scope & scope and (not runtime or each.runtime in (runtime, "")):
                for key in {a[0] if a[0] == NUMBER_KEY else a[:KEY_LENGTH] for a in each.anchors}:
                    self.table[key] = (*self.table.get(key, ()), each)

    def numbered(self, text: str, start: int) -> tuple[Rule, ...]:
        """The rules whose anchor begins with a number, when one stands at `start`."""
        return self.table.get(NUMBER_KEY, ()) if text[start : start + 1].isdigit() else ()
