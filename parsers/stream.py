"""The lines of one program in their order, as events. Everything that a line's meaning can depend on is kept here."""

import re
from collections.abc import Callable, Iterable, Iterator

from parsers import access
from parsers.events import QUOTED
from parsers.framing import Framed, Framing
from parsers.header import (
    ALARMING,
    BRACKETED_LEVEL,
    BRACKETED_SOURCE,
    BRACKETED_TIME,
    BRACKETS,
    HEADER,
    HEADER_FIRST,
    NOBODY,
    PROCESS_PREFIX,
    SGLANG_HEADER,
    UNKNOWN_LEVEL,
    Head,
    Origin,
    late_header,
    native_head,
    place,
    strip_broken_colour,
    strip_colour,
)
from parsers.jsonlog import json_record
from parsers.libraries import PROCESS_LIMIT
from parsers.lines import LINE_LIMIT
from parsers.matching import Found
from parsers.records import RecordLines
from parsers.returns import CarriageReturns
from parsers.rules import KEY_LENGTH, VARIABLE_STARTS, Scope, dispatch

_NESTING_LIMIT = 2
_TORN_LINES = 8
_ACCESS_PREFIXES = 4
_KNOWN_HEADS = 512
_LONGEST_HEADER = 256
_BEGINNING = 16
# Request loggers print what users send, and their further lines look like records.
_USER_TEXT = re.compile(r"(?:.*[./])?(?:request_)?logger(?:\.py:\d+)?$", re.ASCII)
_IN_BRACKETS = "brackets"


class LogStream(RecordLines):
    """Turns the lines of one program into events. Nothing in the lines can make it raise."""

    STATE = (
        "levels",
        "unrecognised",
        "rule_errors",
        "runtime",
        "own_levels",
        "cut_lines",
        "clock",
        "_returns",
        "_responses_in_order",
        "_last_records",
        "_open_tracebacks",
        "_explained",
        "_quotes",
        "_value",
        "_failed",
    )

    def __init__(self, framing: Framing, year: int, month: int = 12) -> None:
        """`framing` is that of the file; `year` and `month` are those of the last line, as most headers print no year."""
        super().__init__(year, month)
        self.cut_lines = 0
        """Lines that were longer than LINE_LIMIT, and that a bar had redrawn."""
        self.unwrapped = 0
        """Lines that had a wrapping of their own."""
        self.of_others: list[Framed] = []
        """Lines that a prefix within this text says another container's are."""
        self._framing = framing
        self._returns = CarriageReturns()
        self._heads: dict[str, Head | None] = {}
        """By the text of a header; None for the beginning of a message that is like no signal's."""
        self._access_prefixes: tuple[str, ...] = ()

    def read(self, lines: list[str], times: list[str | None] | None = None, *, returns: bool) -> list[Found]:
        """The events of lines; `returns` when there may be carriage returns in them.

        `times` are those of the wrapping that was taken off.
        """
        text: Iterable[str] = lines
        if times is not None:
            text, self._nesting = self._timed(lines, times), 1
        if returns or self._returns.open:
            text = self._returned_lines(text)
        elif lines:
            self._returns.plain_line()
        self._plain_lines(text)
        self._wrapped_time, self._nesting = None, 0
        self._flush_responses(Head(NOBODY, UNKNOWN_LEVEL, self.clock.last))
        found, self._found = self._found, []
        return found

    @property
    def is_bare(self) -> bool:
        """Whether an engine speaks here without a prefix, so that what looks like one is its text. A few lines may have lost theirs."""
        # Lines whose prefix was taken for text are among those counted here.
        return bool(self.runtime) and sum(self.levels.values()) > 2 * self._framing.prefixed + _TORN_LINES

    def counts(self) -> dict[str, dict[str, int]]:
        """How many lines there were: by family, and by level or rule."""
        return {
            "log_lines_total": self.levels,
            "unrecognised_lines_total": self.unrecognised,
            "rule_errors_total": self.rule_errors,
            "cut_lines_total": {"": self.cut_lines},
        }

    def _timed(self, lines: list[str], times: list[str | None]) -> Iterator[str]:
        """Each line at the time of its wrapping."""
        for line, self._wrapped_time in zip(lines, times, strict=True):
            yield line

    def _returned_lines(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines without carriage returns, for the fast path; the others are read on the way."""
        returns = self._returns
        for line in lines:
            if "\r" in line or returns.open:
                if not self._quotes and returns.only_ends(line):
                    yield line[:-1]
                else:
                    self._physical_line(line)
            else:
                returns.plain_line()
                if self._quotes:
                    self._line(line)
                else:
                    yield line

    # -- lines to records ----------------------------------------------------------------------------------------------

    def _plain_lines(self, lines: Iterable[str]) -> None:
        """The path of nearly every byte: no carriage returns, no record left open. A short cut through `_line`.

        Access lines and lines that no rule can match end here; records go on with the header that was matched.
        """
        header, table, levels, responses = HEADER.match, self._records.table, self.levels, self._responses
        requests, mark, heads, clock = self._requests.known, access.MARK, self._heads, self.clock
        rest, calm = iter(lines), 0
        prefixes = self._go_on(rest)
        for line in rest:
            if line.startswith(prefixes):
                client, _, request = line.partition(mark)
                code = requests.get(request)
                if code is not None and len(client) < _LONGEST_HEADER:
                    calm += 1
                    if code:
                        responses[code] += 1
                    continue
            text, bracket, message = line.partition("] ")
            start = len(text) + 2
            head = heads.get(text)
            if head is None or not bracket:
                match = SGLANG_HEADER.match if text[:1] == "[" else header
                found = match(line) if bracket and start <= _LONGEST_HEADER else None
                if found is None or found.end() != start:
                    levels["INFO"] += calm
                    calm = 0
                    self._line(line)
                    prefixes = self._go_on(rest)
                    continue
                head = self._remember_head(text, found)
            elif clock.last is not head.time:
                clock.last, clock.text = head.time, ""
            if head.level == "INFO":
                calm += 1
                rules = table.get(message[:KEY_LENGTH])
                if rules is not None or message[:1] in VARIABLE_STARTS:
                    self._calm_record(line, start, head, rules)
                elif message[:_BEGINNING] not in heads:
                    self._is_strange(line, start, head)
            else:
                self._uncommon_line(line, start, head if self._wrapped_time is head.wrapped_time else self._wrapped_head(head), rest)
            if self._glued or self._responses_in_order:
                prefixes = self._go_on(rest)
        levels["INFO"] += calm

    def _is_strange(self, line: str, start: int, head: Head) -> bool:
        """One look at each beginning of a message at INFO: it costs more than all else that is done with a line that tells nothing."""
        beginning = line[start : start + _BEGINNING] if head.level == "INFO" and self.runtime else ""
        if beginning and beginning in self._heads:
            return False
        strange = super()._is_strange(line, start, head)
        if beginning and not strange:
            if len(self._heads) >= _KNOWN_HEADS:
                self._heads.clear()
            self._heads[beginning] = None
        return strange

    def _go_on(self, lines: Iterator[str]) -> tuple[str, ...]:
        """What is glued to the last record, and the lines of one that quotes a user, whatever they look like, up to the next record.

        Returns what stands before access lines from now on, none while their place among the records matters.
        """
        if self._glued:
            self._line(self._glued.pop())
        while self._quotes and (line := next(lines, None)) is not None:
            self._line(line)
        return () if self._responses_in_order else self._access_prefixes

    def _uncommon_line(self, line: str, start: int, head: Head, rest: Iterator[str]) -> None:
        """A line of SGLang's, which has no level and may quote a user in the `rest`, or a warning or an error of vLLM's."""
        if head.level is UNKNOWN_LEVEL:
            self._tagged_message(line, start, head)
            if self._quotes:
                self._go_on(rest)
        else:
            self.levels[head.level] += 1
            self._record(line, start, head)

    def _remember_head(self, text: str, found: re.Match[str]) -> Head:
        """Records of one process and second share their header: in a busy log most headers are read once."""
        if len(self._heads) >= _KNOWN_HEADS:
            self._heads.clear()
        if found.re is SGLANG_HEADER:
            head = self._heads[text] = self._tagged_head(found)
            return head
        self.runtime = self.runtime or "vllm"
        process, identity, level, stamp, where = found.groups()
        self.own_levels.add(level)
        head = self._heads[text] = self._head(process, identity, level, stamp, where)
        return head

    def _physical_line(self, line: str) -> None:
        """A line with carriage returns, or one that may continue a record whose last line had one."""
        if self._nesting < _NESTING_LIMIT and (framed := self._framing.unwrap(line)):
            self._unwrapped(framed)
            return
        parts, goes_on = self._returns.split(line)
        if not parts:
            self.levels[UNKNOWN_LEVEL] += 1
            return
        headless = self.levels[UNKNOWN_LEVEL]
        first = HEADER.match(parts[0])
        if (first and first[4]) or (parts[0][0] == "[" and SGLANG_HEADER.match(parts[0])):
            self._line(parts[0])  # what stands behind a return in a record is its text
        else:
            for part in parts:
                self._line(part)
        self.levels[UNKNOWN_LEVEL] = min(self.levels[UNKNOWN_LEVEL], headless + 1)  # a redrawn bar is one physical line
        if goes_on:
            last = first if first and first[4] else HEADER.match(parts[-1])
            key = (last[4], place(last[5])) if last and last[4] else None
            self._returns.goes_on((last[1] or "") + (last[2] or "") if last else "", key)

    def _line(self, line: str) -> None:
        if len(line) > LINE_LIMIT:
            self.cut_lines += 1
            line = line[:LINE_LIMIT]
        self._one(line)
        while self._glued:
            self._one(self._glued.pop())

    def _one(self, line: str) -> None:
        found = self._header(line)
        if found is None:
            if self._wrapped(line):
                return
            plain = strip_broken_colour(line)  # once: taking codes out may put new ones together
            found = self._header(plain) if plain != line else None
            if found is None:
                if plain == line or not self._wrapped(plain):
                    self._headless(plain)
                return
            line = plain
        process, identity, level, stamp, where = found.groups()
        self.levels[level] += 1
        if stamp is None:
            if level == "INFO":
                self._learn_access_prefix(line[: found.end()])
            self._server_line(line, found.end(), self._head(process, identity, level))
            return
        self.own_levels.add(level)
        continued = bool(self._returns.open) and self._returns.continues((process or "") + (identity or ""), (stamp, place(where)))
        record: Callable[[str, int, Head], object] = self._further_line if continued else self._record
        record(line, found.end(), self._head(process, identity, level, stamp, where))

    def _header(self, line: str) -> re.Match[str] | None:
        """VLLM's or uvicorn's header, but in what a user of SGLang's wrote."""
        return HEADER.match(line) if line[:1] in HEADER_FIRST and not self._quotes else None

    def _head(self, process: str | None, identity: str | None, level: str, stamp: str = "", where: str = "") -> Head:
        clock = self.clock
        time = clock.last if not stamp or stamp == clock.text else clock.read(stamp)
        origin = self._origins.get((process, identity))
        if origin is None:
            if len(self._origins) >= PROCESS_LIMIT:
                return Head(NOBODY, level, time, where, None, self._wrapped_time)  # no engine has so many processes
            origin = self._origins[process, identity] = Origin(process or "", identity or "")
        return Head(origin, level, time, where, None, self._wrapped_time, "logger" in where and _USER_TEXT.match(where) is not None)

    def _learn_access_prefix(self, prefix: str) -> None:
        if prefix not in self._access_prefixes:
            self._access_prefixes = (*self._access_prefixes[-_ACCESS_PREFIXES + 1 :], prefix)

    def _server_line(self, line: str, start: int, head: Head) -> None:
        """A line of uvicorn: an access line, or one of its life cycle."""
        if self._answer(line, start, head):
            return
        if self._match(dispatch(Scope.BARE, whole=True), line, start, head) is None and head.level in ALARMING:
            self.unrecognised[head.level] += 1

    def _wrapped(self, line: str) -> bool:
        """Read what a container runtime or a JSON formatter put around a line; False when there is nothing around it."""
        if self._nesting < (self._quotes[1] if self._quotes else _NESTING_LIMIT) and (framed := self._framing.unwrap(line)):
            self._unwrapped(framed)
            return True
        return line.startswith("{") and not self._quotes and self._json(line)

    def _headless(self, line: str) -> None:
        """A line that does not begin with vLLM's header: SGLang's, of another library, or of nobody."""
        if self._value.level and self._value_goes_on(line):
            return
        if line[:1] == "[" and self._tagged_line(line):
            return
        if line[:1] == "(" and "] " in line and (prefix := PROCESS_PREFIX.match(line)) and self._tagged_line(line[prefix.end() :]):
            return  # behind Ray's prefix
        if self._quotes and not (self._quotes[0] == _IN_BRACKETS and _levelled(line)):
            self.levels[UNKNOWN_LEVEL] += 1
        elif "] " in line and (header := late_header(line)):
            self._glued.append(header)
            # A progress bar may tell something at its end.
            self._match(dispatch(Scope.BARE, whole=True), line.removesuffix(header), 0, self._head("", "", UNKNOWN_LEVEL))
        else:
            self._foreign(line)

    def _unwrapped(self, framed: Framed) -> None:
        self.unwrapped += 1
        text, time, container = framed
        if text is None:
            return
        if container and not self._nesting and not self.is_bare:
            self.of_others.append(framed)
            return
        line, outer = strip_colour(text), self._wrapped_time  # JSON escapes it, and a long line may be parted within a code
        self._wrapped_time, self._nesting = time or outer, self._nesting + 1
        if "\r" in line or self._returns.open:
            self._physical_line(line)
        else:
            self._line(line)
        self._wrapped_time, self._nesting = outer, self._nesting - 1

    def _json(self, line: str) -> bool:
        record = json_record(line)
        if record is None:
            return False
        level = record.level if record.level in self.levels else UNKNOWN_LEVEL
        self.levels[level] += 1
        head = self._head(record.process, record.identity, level, record.time, record.where)
        first = record.lines[0]
        if record.go:
            self._gateway_record(record.go, 0, head)
            return True
        if record.server:
            self._server_line(first, 0, head)
            return True
        self.own_levels.add(level)
        self._last_records.pop(head.origin.who, None)  # each object is a record of its own, whatever its time
        if record.where.startswith("sglang"):
            self._tagged_record(first, 0, head)
            for each in () if self._quotes else record.lines[1:]:
                self._match(self._exceptions, each, 0, head)
            self._quotes = None
        else:
            self._record(first, 0, head, dispatch(Scope.RECORD))
            for each in record.lines[1:]:
                self._further_line(each, 0, head)
        self._glued.clear()  # what looks like a header within an object is text
        return True

    def _foreign(self, line: str) -> None:
        """Behind the process prefix, if any: another library's header and message, or a line without any header."""
        process, identity, start = "", "", 0
        if line[:1] == "(" and (prefix := PROCESS_PREFIX.match(line)):
            process, identity = prefix.groups()
            start = prefix.end()
        native = native_head(line, start)
        if native is None:
            if line.startswith("2", start) and self._gateway_line(line, start):
                return
            if line.startswith("[", start) and (brackets := BRACKETS.match(line, start)):
                self._bracketed(line, brackets, process, identity)
            else:
                self.levels[UNKNOWN_LEVEL] += 1
                self._headerless(line, start, self._head(process, identity, UNKNOWN_LEVEL))
            return
        level = native.level if native.level in self.levels else UNKNOWN_LEVEL
        self.levels[level] += 1
        if not (native.epoch and self._native_goes_on(native)):
            head = self._head(process, identity, level, native.time, native.where)
            if native.process and not process:
                head.origin = Origin("", f" pid={native.process}")
            head.wrapped_time = head.wrapped_time or native.epoch or None
            if not self._klog_line(line, native, head):
                self._native_record(line, native, head)

    def _bracketed(self, line: str, brackets: re.Match[str], process: str, identity: str) -> None:
        """A line behind bracket groups: a header that a user's logging configuration made."""
        if HEADER.match(line, brackets.end()):
            self._glued.append(line[brackets.end() :])
            return
        level, time, where = (each.search(brackets[1]) for each in (BRACKETED_LEVEL, BRACKETED_TIME, BRACKETED_SOURCE))
        head = self._head(
            process, identity, level[0] if level else UNKNOWN_LEVEL, time[0] if time else "", where[0] if where else ""
        )  # fmt: skip
        self.levels[head.level] += 1
        if level:
            event = self._record(line, brackets.end(), head, dispatch(Scope.RECORD))
            self._quotes = (_IN_BRACKETS, self._nesting) if event is QUOTED and self.runtime != "vllm" else None
        else:
            self._headerless(line, brackets.start(), head)


def _levelled(line: str) -> bool:
    """Whether a line begins with a header in brackets."""
    brackets = BRACKETS.match(line) if line[:1] == "[" else None
    return brackets is not None and BRACKETED_LEVEL.search(brackets[1]) is not None
