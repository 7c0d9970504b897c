"""One log, byte by byte in its order, as events. Everything that a line's meaning can depend on is kept here."""

import re
from typing import NamedTuple, TypeAlias

from parsers import access
from parsers.events import NOTHING, EngineStarted, Event, HttpResponses, TransportError, UncaughtException
from parsers.framing import Framing
from parsers.header import (
    ALARMING,
    BAR_THEN_HEADER,
    BEFORE_HEADER,
    FULL_HEADER,
    HEADER,
    LEVELS,
    NOBODY,
    PROCESS_PREFIX,
    UNKNOWN_LEVEL,
    Head,
    LogClock,
    Origin,
    native_head,
    strip_broken_colour,
    strip_colour,
)
from parsers.jsonlog import json_record
from parsers.nixl.native import transport_library
from parsers.rules import KEY_LENGTH, Dispatch, Scope

LINE_LIMIT = 64 * 1024
"""Bytes after which a line is cut."""

_PROCESS_LIMIT = 256
_NESTING_LIMIT = 2
_ACCESS_PREFIXES = 4
_KNOWN_HEADS = 512
_LONGEST_HEADER = 256
_SHORTEST_ACCESS_PREFIX = len("INFO:     ")
_SHORTEST_RECORD = len("INFO 01-01 00:00:00 [a.py:1] ")
_NO_RESPONSES = dict.fromkeys(("2xx", "3xx", "4xx", "5xx"), 0)
# Request loggers print what users send, and their further lines look like records.
_USER_TEXT = re.compile(r"(?:.*[./])?(?:request_)?logger(?:\.py:\d+)?$", re.ASCII)
_TAGS = re.compile(r"(?:\[[^\]\n]{0,64}\] ?){1,3}")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION_NAME = re.compile(r"[A-Za-z_][\w.]*(?::|$)", re.ASCII)
_CALM_EXITS = ("KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError")


Found: TypeAlias = tuple[Event, Head]
"""An event and the head of the line that it came from."""


_Header: TypeAlias = tuple[str, str, str]
"""Process, time and source line: what every line of one record repeats."""


class _Record(NamedTuple):
    """The last record of a process, to which its further lines belong."""

    key: tuple[float | None, str]
    event: Event | None


class LogStream:
    """Turns the bytes of one log into events. Nothing in the bytes can make it raise."""

    def __init__(self, year: int) -> None:
        """`year` is that of the first line; most headers print none."""
        self.levels: dict[str, int] = dict.fromkeys((*LEVELS, UNKNOWN_LEVEL), 0)
        self.unrecognised: dict[str, int] = dict.fromkeys(("WARNING", "ERROR", "CRITICAL"), 0)
        self.rule_errors: dict[str, int] = {}
        self.cut_lines = 0
        self.runtime = ""
        self.clock = LogClock(year)
        self._records = Dispatch(Scope.RECORD)
        self._continuations = Dispatch(Scope.CONTINUATION)
        self._exceptions = Dispatch(Scope.EXCEPTION)
        self._bare = Dispatch(Scope.BARE)
        self._framing = Framing()
        self._rest = b""
        self._skipping = False
        self._found: list[Found] = []
        self._responses = dict(_NO_RESPONSES)
        self._responses_in_order = True
        self._origins: dict[tuple[str | None, str | None], Origin] = {}
        self._heads: dict[str, Head] = {}
        self._access_prefixes: tuple[str, ...] = ()
        self._last_records: dict[str, _Record] = {}
        self._open_tracebacks: set[str] = set()
        self._continues: _Header | None = None
        self._terminal = False
        self._wrapped_time: str | None = None
        self._nesting = 0
        self._glued: list[str] = []

    def feed(self, data: bytes) -> list[Found]:
        """The events of all lines that `data` completes."""
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
        else:
            block = self._rest + data[:end]
            self._rest = b""
            self._block(self._without_skipped(block))
            self._keep(data[end + 1 :])
        return self._take()

    def close(self) -> list[Found]:
        """The events of a last line that has no line break: nothing more will follow it."""
        block, self._rest = self._rest, b""
        self._block(self._without_skipped(block))
        self._skipping = False
        return self._take()

    # -- bytes to lines ------------------------------------------------------------------------------------------------

    def _keep(self, data: bytes) -> None:
        """Keep the beginning of a line; a line that gets too long is read as far as it may go, the remainder skipped."""
        if self._skipping and b"\r" not in data:
            return
        self._rest += data
        if len(self._rest) <= LINE_LIMIT:
            return
        bar_end = self._rest.rfind(b"\r", 0, -1)
        block, self._rest = (self._rest[:bar_end], self._rest[bar_end:]) if bar_end > 0 else (self._rest, b"")
        self._block(self._without_skipped(block))
        if len(self._rest) > LINE_LIMIT or not self._rest:
            self._rest, self._skipping = b"", True

    def _without_skipped(self, block: bytes) -> bytes:
        if not self._skipping:
            return block
        self._skipping = False
        ends = [at for mark in (b"\n", b"\r") if (at := block.find(mark)) >= 0]
        return block[min(ends) + 1 :] if ends else b""

    def _block(self, block: bytes) -> None:
        text = strip_colour(block.decode("utf-8", "replace"))
        if "\0" in text:
            text = text.replace("\0", "")  # the hole that truncation under a writer without O_APPEND leaves
        lines = text.split("\n")
        if "\r" in text or self._continues:
            self._returned_lines(lines)
        else:
            self._plain_lines(lines)

    def _returned_lines(self, lines: list[str]) -> None:
        """Lines of which some have carriage returns; the others take the fast path, in their order."""
        plain: list[str] = []
        for line in lines:
            if "\r" in line or self._continues:
                self._plain_lines(plain)
                plain = []
                self._physical_line(line)
            else:
                self._terminal = False
                plain.append(line)
        self._plain_lines(plain)

    def _plain_lines(self, lines: list[str]) -> None:
        """The path of nearly every byte: no carriage returns, no record left open. A short cut through `_line`.

        Access lines and lines that no rule can match end here; records go on with the header that was matched.
        """
        header, table, levels, responses = HEADER.match, self._records.table, self.levels, self._responses
        requests, mark, heads = access.known(), access.MARK, self._heads
        for line in lines:
            if line.startswith(self._access_prefixes):
                code = requests.get(line[line.find(mark, _SHORTEST_ACCESS_PREFIX) :])
                if code is not None and not self._responses_in_order:
                    levels["INFO"] += 1
                    if code:
                        responses[code] += 1
                    continue
            end = line.find("] ", 0, _LONGEST_HEADER) + 2
            head = heads.get(line[:end])
            if head is None:
                found = header(line)
                if found is None or found.end() != end or len(line) > LINE_LIMIT:
                    self._line(line)
                    continue
                head = self._remember_head(line[:end], found)
            self.clock.last = head.time
            level = head.level
            levels[level] += 1
            if level != "INFO" or line[end : end + KEY_LENGTH] in table or line[end : end + 1].isdigit():
                self._record(line, end, head)
                if self._glued:
                    self._line(self._glued.pop())

    def _remember_head(self, text: str, found: re.Match[str]) -> Head:
        """Records of one process and second share their header: in a busy log most headers are read once."""
        process, identity, level, stamp, where = found.groups()
        if len(self._heads) >= _KNOWN_HEADS:
            self._heads.clear()
        head = self._heads[text] = self._head(process, identity, level, stamp, where)
        return head

    def _physical_line(self, line: str) -> None:
        """A line with carriage returns: redrawn bars, the mark that a record continues, or the line ends of a terminal."""
        terminal_end = line.endswith("\r") and self._terminal
        if terminal_end:
            line = line[:-1]
        elif not line.endswith("\r"):
            self._terminal = False
        continues = line.endswith("\r")
        pieces = [piece for piece in line.split("\r") if piece]
        opened = self._continues
        self._continues = None
        for piece in pieces:
            self._line(piece, opened)
            opened = None
        if continues and pieces:
            found = HEADER.match(pieces[-1])
            key = self._continuation_key(found) if found else None
            self._continues = key
            if key is None:
                self._terminal = True  # no record continues without a header, so this is how all lines end here

    @staticmethod
    def _continuation_key(found: re.Match[str]) -> _Header | None:
        process, identity, _, stamp, where = found.groups()
        return ((process or "") + (identity or ""), stamp, where) if stamp else None

    # -- lines to records ----------------------------------------------------------------------------------------------

    def _line(self, line: str, opened: _Header | None = None) -> None:
        """One line; `opened` is the header of the line before, when that line said that its record continues."""
        if len(line) > LINE_LIMIT:
            line = line[:LINE_LIMIT]
            self.cut_lines += 1
        self._one(line, opened)
        while self._glued:
            self._one(self._glued.pop())

    def _one(self, line: str, opened: _Header | None = None) -> None:
        found = HEADER.match(line)
        if found is None:
            self._headless(line)
            return
        process, identity, level, stamp, where = found.groups()
        self.levels[level] += 1
        if stamp is None:
            if level == "INFO":
                self._learn_access_prefix(line[: found.end()])
            self._server_line(line, found.end(), self._head(process, identity, level))
            return
        if opened and opened != self._continuation_key(found):
            self._terminal, opened = True, None  # its line end belongs to the terminal: another record follows
        self._record(line, found.end(), self._head(process, identity, level, stamp, where), continued=opened is not None)

    def _head(self, process: str | None, identity: str | None, level: str, stamp: str = "", where: str = "") -> Head:
        clock = self.clock
        time = clock.last if not stamp or stamp == clock.text else clock.read(stamp)
        origin = self._origins.get((process, identity))
        if origin is None:
            if len(self._origins) >= _PROCESS_LIMIT:
                self._origins.clear()
            origin = self._origins[process, identity] = Origin(process or "", identity or "")
        return Head(origin, level, time, where, None, self._wrapped_time)

    def _learn_access_prefix(self, prefix: str) -> None:
        if prefix not in self._access_prefixes:
            self._access_prefixes = (*self._access_prefixes[-_ACCESS_PREFIXES + 1 :], prefix)

    def _server_line(self, line: str, start: int, head: Head) -> None:
        """A line of uvicorn: an access line, or one of its life cycle."""
        at = line.find(access.MARK, start)
        code = access.response_class(line[at:]) if at >= 0 else ""
        if code:
            self._responses[code] += 1
            if self._responses_in_order:
                self._flush_responses(head)
                self._responses_in_order = False
        else:
            self._match(self._bare, line, start, head, whole=True)

    def _record(self, line: str, start: int, head: Head, *, continued: bool = False) -> None:
        """A line behind the engine's own header; `continued` when it surely is no first line of a record."""
        where = head.where
        if "logger" in where and _USER_TEXT.match(where):
            return
        event: Event | None = None
        matched = not continued and (event := self._match(self._records, line, start, head)) is not None
        if head.level not in ALARMING:
            if not matched:
                self.runtime = self.runtime or "vllm"
                self._match(self._continuations, line, start, head)
            return
        who, key = head.origin.who, (head.time, where)
        if not matched:
            last = self._last_records.get(who)
            same = last is not None and last.key == key
            if same or continued:
                self._match(self._exceptions, line, start, head._replace(parent=last.event if last and same else None))
                return
            event = self._match(self._exceptions, line, start, head)
            self.unrecognised[head.level] += event is None
        if len(self._last_records) >= _PROCESS_LIMIT:
            self._last_records.clear()
        self._last_records[who] = _Record(key, event)

    def _headless(self, line: str) -> None:
        """A line that does not begin with the engine's header: wrapped, JSON, of another library, or of nobody."""
        if self._nesting < _NESTING_LIMIT and (framed := self._framing.unwrap(line)):
            if framed.line is not None:
                self._unwrapped(framed.line.rstrip("\r"), framed.time)
            return
        if line.startswith("{") and self._json(line):
            return
        if (plain := strip_broken_colour(line)) != line:
            self._glued.append(plain)
        elif "] " in line and (header := self._late_header(line)):
            self._glued.append(header)
        else:
            self._foreign(line)

    @staticmethod
    def _late_header(line: str) -> str:
        """The record behind a progress bar that has no line break, or behind what a user or a tool put before the header."""
        if ("it]" in line or "/s]" in line) and (bar := BAR_THEN_HEADER.search(line)) and FULL_HEADER.match(line, bar.end()):
            return line[bar.end() :]
        before = BEFORE_HEADER.match(line)
        return before[1] + line[before.end() :] if before else ""

    def _unwrapped(self, line: str, time: str | None) -> None:
        self._wrapped_time, self._nesting = time, self._nesting + 1
        self._line(line)
        self._wrapped_time, self._nesting = None, self._nesting - 1

    def _json(self, line: str) -> bool:
        record = json_record(line)
        if record is None:
            return False
        level = record.level if record.level in self.levels else UNKNOWN_LEVEL
        self.levels[level] += 1
        head = self._head(record.process, record.identity, level, record.time, record.where)
        first = record.lines[0]
        if record.where.startswith("uvicorn"):
            self._server_line(f" - {first}" if first.startswith('"') else first, 0, head)
            return True
        self._last_records.pop(head.origin.who, None)  # each object is a record of its own, whatever its time
        self._record(first, 0, head)
        if not _USER_TEXT.match(head.where):
            for each in record.lines[1:]:
                self._record(each, 0, head, continued=True)
        return True

    def _foreign(self, line: str) -> None:
        """Behind the process prefix, if any: another library's header and message, or a line without any header."""
        prefix = PROCESS_PREFIX.match(line)
        process, identity = prefix.groups() if prefix else ("", "")
        start = prefix.end() if prefix else 0
        native = native_head(line, start)
        if native is None:
            self.levels[UNKNOWN_LEVEL] += 1
            self._headerless(line, start, self._head(process, identity, UNKNOWN_LEVEL))
            return
        level = native.level if native.level in self.levels else UNKNOWN_LEVEL
        self.levels[level] += 1
        head = self._head(process, identity, level, native.time, native.where)
        matched = self._match(self._bare, line, native.end, head) is not None
        if level in ("ERROR", "CRITICAL"):
            library = transport_library(native.where)
            if library:
                self._emit(TransportError(library), head)
            elif not matched:
                self.unrecognised[level] += 1

    def _headerless(self, line: str, start: int, head: Head) -> None:
        if self._match(self._bare, line, start, head, whole=True) is None:
            self._match(self._exceptions, line, start, head)
        if line.startswith(_TRACEBACK, start):
            if len(self._open_tracebacks) < _PROCESS_LIMIT:
                self._open_tracebacks.add(head.origin.who)
        elif head.origin.who in self._open_tracebacks and (name := _EXCEPTION_NAME.match(line, start)):
            self._open_tracebacks.discard(head.origin.who)
            if not name[0].startswith(_CALM_EXITS):
                self._emit(UncaughtException(), head)

    # -- records to events ---------------------------------------------------------------------------------------------

    def _match(self, rules: Dispatch, line: str, start: int, head: Head, *, whole: bool = False) -> Event | None:
        """Try the rules that can stand at `start`. None when no rule knew the line."""
        candidates = rules.table.get(line[start : start + KEY_LENGTH]) or rules.numbered(line, start)
        if not candidates and line.startswith("[", start) and (tags := _TAGS.match(line, start)):
            start = tags.end()
            candidates = rules.table.get(line[start : start + KEY_LENGTH]) or rules.numbered(line, start)
        for rule in candidates:
            found = rule.pattern.match(line, start)
            if found is None:
                continue
            end = found.end()
            if len(line) - end > 0:
                if whole and line[end:].strip():
                    return None
                if len(line) - end >= _SHORTEST_RECORD and FULL_HEADER.match(line, end):
                    self._glued.append(line[end:])  # line breaks get lost between processes: here begins another record
            try:
                event = rule.build(found)
            except (ValueError, ArithmeticError, LookupError, TypeError):
                self.rule_errors[rule.name] = self.rule_errors.get(rule.name, 0) + 1
                return NOTHING
            self.runtime = self.runtime or rule.runtime
            if event is not NOTHING:
                self._emit(event, head)
            return event
        return None

    def _emit(self, event: Event, head: Head) -> None:
        if self._responses_in_order or type(event) is EngineStarted:
            self._flush_responses(head)
            if type(event) is EngineStarted:
                self._responses_in_order = True  # whether traffic came before the next event decides what that means
        self._found.append((event, head))

    def _flush_responses(self, head: Head) -> None:
        counts = {code: count for code, count in self._responses.items() if count}
        if counts:
            self._found.append((HttpResponses(counts), head))
            self._responses.update(_NO_RESPONSES)

    def _take(self) -> list[Found]:
        self._flush_responses(Head(NOBODY, UNKNOWN_LEVEL, self.clock.last))
        found, self._found = self._found, []
        return found
