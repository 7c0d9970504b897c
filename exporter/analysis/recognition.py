"""A log that notes which rule knew its lines, and the shapes of warnings and errors that none knew."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from parsers.events import Event
from parsers.framing import Framing
from parsers.header import HEADER, PROCESS_PREFIX, SGLANG_HEADER, Head, native_head, strip_broken_colour
from parsers.jsonlog import json_record
from parsers.numbered import NumberedLog, NumberedStream, Position
from parsers.rules import Dispatch, Rule
from parsers.stream import LogStream

SHAPES_LIMIT = 1000
"""Shapes that are told apart: a log that has more logs anything."""

WORDS_OF_A_SHAPE = 6
_NESTED = 3
_ENDS = re.compile(r"[\"'`“”‘’()\[\]{}<>:0-9]")
_WORD = re.compile(r"[^\W\d_](?:[\w.,;/%+=@-]{0,40})", re.ASCII)
_MODULE = re.compile(r"[\w./-]{1,64}", re.ASCII)
# The level and the time of an engine's header, somewhere in a line whose beginning is not known.
_BURIED = re.compile(r"(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,24}\] ")


class Shape(NamedTuple):
    """What a line no rule knew looks like: of its text no more than some words up to the first that may be a user's."""

    level: str
    module: str
    words: str


@dataclass(slots=True)
class Seen:
    """How often, and in which lines first and last."""

    count: int
    first: int
    last: int


@dataclass
class Recognition:
    """What was recognised of a log, and what was not."""

    rules: dict[str, Seen] = field(default_factory=dict)
    shapes: dict[Shape, Seen] = field(default_factory=dict)
    shapes_left_out: int = 0
    buried: int = 0
    """Lines with an engine's header that is not at their beginning, behind a wrapping that is not known."""


def shape_of(level: str, text: str) -> Shape:
    """The shape of a line, without what is wrapped around it."""
    for _ in range(_NESTED):
        framed = Framing().unwrap(text)
        if framed is None or framed[0] is None:
            break
        text = framed[0]
    module, message = _parts(strip_broken_colour(text))
    words = _ENDS.split(message, maxsplit=1)[0].split()[:WORDS_OF_A_SHAPE]
    plain = [word for word in words if _WORD.fullmatch(word)]
    return Shape(level, module if _MODULE.fullmatch(module) else "", " ".join(plain))


def _parts(text: str) -> tuple[str, str]:
    """The module that logged, and its message."""
    if header := HEADER.match(text):
        return (header[5] or "").partition(":")[0], text[header.end() :]
    if header := SGLANG_HEADER.match(text):
        return "", text[header.end() :]
    if text.startswith("{") and (record := json_record(text)):
        return record.where.partition(":")[0], record.lines[0]
    prefix = PROCESS_PREFIX.match(text)
    start = prefix.end() if prefix else 0
    if native := native_head(text, start):
        return native.where.partition(":")[0], text[native.end :]
    return "", text[start:]


class _Counts(dict[str, int]):
    """Counts that tell when one of them rises."""

    def __init__(self, counts: dict[str, int], rose: Callable[[str], None]) -> None:
        super().__init__(counts)
        self._rose = rose

    def __setitem__(self, level: str, count: int) -> None:
        if count > self.get(level, 0):
            self._rose(level)
        super().__setitem__(level, count)


class _CountingTable(dict[str, tuple[Rule, ...]]):
    """Rules that say so when they match; each is made when a line first asks for it."""

    def __init__(self, table: dict[str, tuple[Rule, ...]], matched: Callable[[str], None]) -> None:
        super().__init__()
        self._table, self._matched = table, matched

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self and key in self._table:
            self[key] = tuple(map(self._counted, self._table[key]))
        return super().get(key, default)

    def _counted(self, rule: Rule) -> Rule:
        def build(found: re.Match[str]) -> Event:
            self._matched(rule.name)
            return rule.build(found)

        counted = replace(rule, build=build)
        counted.__dict__["pattern"] = rule.pattern  # compiled once for all
        return counted


class _CountingDispatch(Dispatch):
    """The same rules, which say so when they match."""

    def __init__(self, rules: Dispatch, matched: Callable[[str], None]) -> None:
        self.whole = rules.whole
        self.table = _CountingTable(rules.table, matched)


class _Stream(NumberedStream):
    """Notes what its rules match, and lines behind which the counts of those that none knew have risen."""

    def __init__(self, framing: Framing, position: Position, year: int, month: int, recognition: Recognition) -> None:
        super().__init__(framing, position, year, month)
        self._recognition = recognition
        self._counting: dict[int, Dispatch] = {}
        self._records = _CountingDispatch(self._records, self._matched)  # most records ask its table themselves
        self.unrecognised = _Counts(self.unrecognised, self._unknown)

    def _match(self, rules: Dispatch, line: str, start: int, head: Head) -> Event | None:
        counting = rules if isinstance(rules, _CountingDispatch) else self._counting.get(id(rules))
        if counting is None:
            counting = self._counting[id(rules)] = _CountingDispatch(rules, self._matched)
        return super()._match(counting, line, start, head)

    def _matched(self, name: str) -> None:
        _note(self._recognition.rules, name, self.position.line)

    def _unknown(self, level: str) -> None:
        shape, shapes = shape_of(level, self.position.text), self._recognition.shapes
        if shape in shapes or len(shapes) < SHAPES_LIMIT:
            _note(shapes, shape, self.position.line)
        else:
            self._recognition.shapes_left_out += 1

    def _headless(self, line: str) -> None:
        if _BURIED.search(line, 1):
            self._recognition.buried += 1
        super()._headless(line)


def _note(into: dict[Any, Seen], key: str | Shape, line: int) -> None:
    seen = into.get(key)
    if seen:
        seen.count, seen.last = seen.count + 1, line
    else:
        into[key] = Seen(1, line, line)


class CheckedLog(NumberedLog):
    """Reads as any log does, and notes what it knew."""

    def __init__(self, year: int, month: int = 12) -> None:
        self.recognition = Recognition()
        super().__init__(year, month)

    def _new_stream(self) -> LogStream:
        return _Stream(self._framing, self._position, *self._written, self.recognition)
