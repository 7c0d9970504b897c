"""A log whose events know the number of their line, for whoever wants to look it up."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Self

from parsers.events import HttpResponses
from parsers.framing import Framing
from parsers.header import NOBODY, UNKNOWN_LEVEL, Head
from parsers.lines import LineBuffer
from parsers.log import Log, Run
from parsers.matching import Found
from parsers.stream import LogStream

SERVER_ERRORS = "5xx"


@dataclass(slots=True)
class NumberedHead(Head):
    """A head with the number of the line that brought the event; the first line is 1."""

    line: int = 0
    errors: "tuple[NumberedHead, NumberedHead] | None" = None
    """Of answers that are told together, the first and the last that was a server's error."""


_FIELDS = tuple(field.name for field in fields(Head))


def _numbered(head: Head, line: int) -> NumberedHead:
    found = NumberedHead(*(getattr(head, name) for name in _FIELDS))
    found.line = line
    return found


class Position:
    """The line that is being read."""

    def __init__(self) -> None:
        self.line = 0
        self.text = ""


class _NumberedLines(list[str]):
    """Lines that move the position as they are read."""

    def __init__(self, position: Position, lines: Iterable[str] = (), first: int = 1) -> None:
        super().__init__(lines)
        self._position = position
        self._numbers = list(range(first, first + len(self)))

    def append(self, line: str) -> None:
        """A line that is read now, and will be again."""
        super().append(line)
        self._numbers.append(self._position.line)

    def __iter__(self) -> Iterator[str]:
        position = self._position
        for position.line, position.text in zip(self._numbers, super().__iter__(), strict=True):
            yield position.text


class _Answers(dict[str, int]):
    """Counts of answers by class, which note where those were that are a server's errors."""

    def __init__(self, counts: dict[str, int], here: Callable[[], NumberedHead]) -> None:
        super().__init__(counts)
        self._here = here
        self.errors: tuple[NumberedHead, NumberedHead] | None = None

    def __setitem__(self, code: str, count: int) -> None:
        if code == SERVER_ERRORS:
            here = self._here()
            self.errors = (self.errors[0] if self.errors else here), here
        super().__setitem__(code, count)


class _NumberedEvents(list[Found]):
    """Events as they are made, each of the line that is being read."""

    def __init__(self, position: Position, answers: _Answers) -> None:
        super().__init__()
        self._position, self._answers = position, answers

    def append(self, found: Found) -> None:
        event, head = found
        numbered = _numbered(head, self._position.line)
        if type(event) is HttpResponses and SERVER_ERRORS in event.counts:
            numbered.errors, self._answers.errors = self._answers.errors, None
        super().append((event, numbered))

    def __iadd__(self, more: Iterable[Found]) -> Self:  # type: ignore[override, misc]
        for found in more:
            self.append(found)
        return self


class NumberedStream(LogStream):
    """Numbers what it finds."""

    def __init__(self, framing: Framing, position: Position, year: int, month: int) -> None:
        super().__init__(framing, year, month)
        self.position = position
        self._responses = self._answers = _Answers(self._responses, self._here)

    def _here(self) -> NumberedHead:
        """A head for a line that has none of its own: as late as the last one that had."""
        return NumberedHead(NOBODY, UNKNOWN_LEVEL, self.clock.last, wrapped_time=self._wrapped_time, line=self.position.line)

    def read(self, lines: list[str], times: list[str | None] | None = None, *, returns: bool) -> list[Found]:
        self._found = _NumberedEvents(self.position, self._answers)
        return super().read(lines, times, returns=returns)


class _NumberedBuffer(LineBuffer):
    """Tells when it gave a line whose break has not come yet."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = False

    def feed(self, data: bytes) -> list[str]:
        self.ahead = False
        return super().feed(data)

    def _overlong(self) -> list[str]:
        self.ahead = True
        return super()._overlong()


class NumberedLog(Log):
    """The same events as of a Log, in the same order; their heads are numbered. It takes longer."""

    def __init__(self, year: int, month: int = 12) -> None:
        self._position = Position()
        super().__init__(year, month)
        self._buffer: _NumberedBuffer = _NumberedBuffer()
        self._breaks = 0

    @property
    def lines(self) -> int:
        """Lines that were read, with the last one if it has no line break."""
        return self._breaks

    def feed(self, data: bytes) -> list[Found]:
        lines = self._buffer.feed(data)
        self._breaks += data.count(b"\n")
        return self._read_from(lines, self._breaks + self._buffer.ahead)

    def close(self) -> list[Found]:
        lines = self._buffer.close()
        self._breaks += bool(lines)
        return self._read_from(lines, self._breaks)

    def _read_from(self, lines: list[str], last: int) -> list[Found]:
        first = last - len(lines) + 1
        if self._wrapped or self._bare.is_bare:
            return self._read(_NumberedLines(self._position, lines, first))
        found = []
        # Lines of containers are set aside and read behind the others while it is open which of them are wrapped.
        for number, line in enumerate(lines, first):
            self._position.line, self._position.text = number, line
            found += self._read([line])
        return found

    def _new_stream(self) -> LogStream:
        return NumberedStream(self._framing, self._position, *self._written)

    def _new_run(self) -> Run:
        run = super()._new_run()
        run.lines = _NumberedLines(self._position)
        return run
