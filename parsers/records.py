"""Records of vLLM's: a first line, and the further ones that have the same header."""

from dataclasses import replace

from parsers.events import QUOTED, Event, KvTransferFailure
from parsers.header import ALARMING, Head, Record, place
from parsers.libraries import PROCESS_LIMIT, TRACEBACK, LibraryLines
from parsers.likeness import VLLM, alike
from parsers.rules import Dispatch, Rule, Scope, dispatch

_OWN_ERROR = "RuntimeError: "
"""How vLLM's connector raises what it has found out itself; libraries have exceptions of their own."""


class RecordLines(LibraryLines):
    """Reads messages whose header is known."""

    def __init__(self, year: int, month: int) -> None:
        """As Log."""
        super().__init__(year, month)
        self._records = dispatch(Scope.RECORD, "vllm")
        self._explained = False

    def _calm_record(self, line: str, start: int, head: Head, rules: tuple[Rule, ...] | None) -> None:
        """A record at INFO, with the rules that its first characters tell."""
        if self._wrapped_time is not head.wrapped_time:
            head = self._wrapped_head(head)
        if rules is None or head.quotes_users:
            self._record(line, start, head)
        elif (event := self._first(rules, line, start, head)) is not None:
            self._explained = event is not QUOTED
        else:
            self._unknown_record(line, start, head)

    def _record(self, line: str, start: int, head: Head, rules: Dispatch | None = None) -> Event | None:
        """A line behind vLLM's header: the first of a record, or a further one with the header of an alarming one.

        `rules` when the header does not tell which engine it is.
        """
        if head.quotes_users:
            return QUOTED
        # Without source lines nothing tells the next record from a further line of a quote.
        if head.level in ALARMING and ":" in head.where and (record := self._open_record(head)) and record.quotes_users:
            return QUOTED
        event = self._match(rules or self._records, line, start, head)
        if head.level in ALARMING:
            self._alarming_record(line, start, head, event)
        elif event is not None:
            self._explained = event is not QUOTED
        else:
            self.runtime = self.runtime or ("" if rules else "vllm")
            self._unknown_record(line, start, head)
        return event

    def _unknown_record(self, line: str, start: int, head: Head) -> None:
        """One at INFO. Further lines mean something only where the first is the engine's: known, or empty as above its logo."""
        self._explained = not line[start:].strip()
        self._is_strange(line, start, head)

    def _further_line(self, line: str, start: int, head: Head) -> None:
        """A line that surely is no first one of a record."""
        if head.quotes_users:
            return
        if head.level in ALARMING:
            self._goes_on(line, start, head)
        elif self._explained and self._match(dispatch(Scope.CONTINUATION), line, start, head) is None:
            unread = alike(VLLM, line, start)
            if unread and unread.signal == "version":  # the logo's; no other signal is a further line
                self._emit(unread, head)

    def _alarming_record(self, line: str, start: int, head: Head, event: Event | None) -> None:
        """A warning or an error: its further lines may hold the exception that caused it."""
        if event is None:
            if self._goes_on(line, start, head):
                return
            event = self._match(self._exceptions, line, start, head)
            self.unrecognised[head.level] += event is None
        if len(self._last_records) >= PROCESS_LIMIT:
            self._last_records.clear()
        self._last_records[head.origin.who] = Record((head.time, place(head.where)), event, _raises(line, start))

    def _open_record(self, head: Head) -> Record | None:
        record = self._last_records.get(head.origin.who)
        return record if record is not None and record.key == (head.time, place(head.where)) else None

    def _goes_on(self, line: str, start: int, head: Head) -> bool:
        """Take a further line of the alarming record before; False when it is of another.

        Exceptions count once a traceback has begun: before, what looks like one is text that somebody sent.
        """
        record = self._open_record(head)
        if record is None:
            return False
        if record.quotes_users:
            return True
        if record.raised:
            event = self._match(self._exceptions, line, start, replace(head, parent=record.event))
            # Why a transfer failed is told here alone, and in a handshake's own words there is nothing of a user.
            if event is None and type(record.event) is KvTransferFailure and line.startswith(_OWN_ERROR, start):
                self._count_unknown(head.level)
        elif line.startswith(TRACEBACK, start):
            record.raised = True
        return True

    def _wrapped_head(self, head: Head) -> Head:
        """A header that is known, at the time of this line's wrapping."""
        return Head(head.origin, head.level, head.time, head.where, None, self._wrapped_time, head.quotes_users)


def _raises(line: str, start: int) -> bool:
    """Whether an alarming record has a traceback in its further lines: it begins with its first words, or ends with them."""
    return line.startswith(TRACEBACK, start) or line.endswith(TRACEBACK)
