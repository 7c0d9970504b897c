"""The bytes of one file as events: its lines without their wrapping, and a stream for each container that the wrapping names."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from parsers.framing import Framing
from parsers.header import UNKNOWN_LEVEL, strip_colour
from parsers.lines import LineBuffer
from parsers.matching import Found
from parsers.stream import LogStream

CONTAINERS = 64
"""Containers of one file that are told apart; of more, those that run no engine are forgotten."""


Counts: TypeAlias = dict[str, dict[str, int]]
"""Lines by family, and by level or rule."""


class LinePatterns(Protocol):
    """Patterns that users bring, by name."""

    def __iter__(self) -> Iterator[str]:
        """Their names."""

    def count(self, lines: list[str], found: dict[str, int], timeouts: dict[str, int]) -> None:
        """Add in how many lines each is found, and where that took too long."""


def added(counts: Counts, more: Counts) -> Counts:
    """The sum of two."""
    total = {family: dict(by_label) for family, by_label in counts.items()}
    for family, by_label in more.items():
        into = total.setdefault(family, {})
        for label, count in by_label.items():
            into[label] = into.get(label, 0) + count
    return total


class Log:
    """Turns the bytes of one file into events. Nothing in the bytes can make it raise.

    Lines that name no container are the stream `""`. When an engine speaks there, prefixes are a part of its text.
    """

    STATE = ("known_streams", "known_past", "last_time", "_buffer", "_framing", "_wrapped", "_pattern_lines", "_pattern_timeouts")

    def __init__(self, year: int, month: int = 12, patterns: LinePatterns | None = None) -> None:
        """`year` and `month` are those of the last line; most headers print no year. `patterns` are looked for in lines as they are in the file."""
        self._written = year, month
        self._patterns = patterns
        self._pattern_lines: dict[str, int] = {}
        self._pattern_timeouts: dict[str, int] = {}
        self._buffer = LineBuffer()
        self.streams: defaultdict[str, LogStream] = defaultdict(self._new_stream)
        """By container."""
        self._framing = Framing(self.streams)
        self.last_time: float | None = None
        """The last time that a header printed."""
        self.streams[""]
        self._wrapped = False
        self._past: Counts = {}

    def _new_stream(self) -> LogStream:
        return LogStream(self._framing, *self._written)

    def _new_run(self) -> "Run":
        return Run()

    @property
    def known_streams(self) -> defaultdict[str, LogStream]:
        """Those that outlive the process: what stands in the place of a container's name may be a word of a user's."""
        return defaultdict(self._new_stream, {name: stream for name, stream in self.streams.items() if not name or stream.runtime})

    @known_streams.setter
    def known_streams(self, streams: defaultdict[str, LogStream]) -> None:
        self.streams.clear()
        self.streams.update(streams)

    @property
    def known_past(self) -> Counts:
        """What was counted in other streams."""
        past = self._past
        for name, stream in self.streams.items():
            if name and not stream.runtime:
                past = added(past, stream.counts())
        return past

    @known_past.setter
    def known_past(self, past: Counts) -> None:
        self._past = past

    @property
    def unfinished(self) -> int:
        """Bytes of a last line that is not complete."""
        return self._buffer.unfinished

    @property
    def in_parts(self) -> bool:
        """Whether a line has begun that the container runtime delivers in parts."""
        return self._framing.open

    @property
    def runtime(self) -> str:
        """The engine that spoke first, of the containers that are told apart."""
        return next((each.runtime for each in self.streams.values() if each.runtime), "")

    def continue_parts(self, of: "Log") -> None:
        """Go on with the lines that another reading of the same file has begun."""
        self._framing.parts = of._framing.parts  # noqa: SLF001 - of the same class

    def feed(self, data: bytes) -> list[Found]:
        """The events of all lines that `data` completes."""
        return self._read(self._buffer.feed(data))

    def close(self) -> list[Found]:
        """The events of a last line that has no line break: nothing more will follow it."""
        return self._read(self._buffer.close())

    @property
    def _bare(self) -> LogStream:
        return self.streams[""]

    def counts(self) -> Counts:
        """How many lines there were: by family, and by level or rule."""
        born = dict.fromkeys(self._patterns or (), 0)
        own: Counts = {
            "cut_lines_total": {"": self._buffer.cut_lines + self._framing.cut_lines},
            "unseparated_lines_total": {"": 0},
            "pattern_lines_total": born | self._pattern_lines,
            "pattern_timeouts_total": born | self._pattern_timeouts,
        }
        total = added(self._past, own)
        for stream in self.streams.values():
            total = added(total, stream.counts())
        return total

    def _read(self, lines: list[str]) -> list[Found]:
        """Where most lines were wrapped, the next ones are looked at for that first: faster, and the same."""
        if self._patterns:
            self._patterns.count(lines, self._pattern_lines, self._pattern_timeouts)
        if self._wrapped:
            found, unwrapped = self._read_wrapped(lines)
        else:
            before = self._bare.unwrapped
            found = self._read_lines("", lines, None, returns=self._buffer.returns)
            unwrapped = self._bare.unwrapped - before
        if lines:
            self._wrapped = unwrapped * 2 > len(lines)
        return found

    def _read_wrapped(self, lines: list[str]) -> tuple[list[Found], int]:
        """The events of lines, and how many of them were wrapped."""
        found: list[Found] = []
        runs: defaultdict[str, Run] = defaultdict(self._new_run)
        bare, unwrap, unwrapped, own = self._bare, self._framing.unwrap, len(lines), runs[""]
        for line in lines:
            framed = unwrap(line)
            if framed is None:
                found += self._read_runs(runs)
                found += self._read_lines("", [line], None, returns="\r" in line)
                own = runs[""]
                unwrapped -= 1
                continue
            text, time, container = framed
            if text is None:
                continue
            run = runs[container] if container and not bare.is_bare else own
            run.lines.append(text)
            run.times.append(time)
        return found + self._read_runs(runs), unwrapped

    def _read_runs(self, runs: dict[str, "Run"]) -> list[Found]:
        found: list[Found] = []
        for container, run in runs.items():
            found += self._read_run(container, run)
        runs.clear()
        return found

    def _read_run(self, container: str, run: "Run") -> list[Found]:
        text = "".join(run.lines)
        if "\x1b" in text:
            run.lines[:] = map(strip_colour, run.lines)  # JSON escapes it, and a long line may be parted within a code
        return self._read_lines(container, run.lines, run.times, returns="\r" in text)

    def _read_lines(self, container: str, lines: list[str], times: list[str | None] | None, *, returns: bool) -> list[Found]:
        if container not in self.streams and not self._has_room():
            count = len(lines)
            self._past = added(self._past, {"log_lines_total": {UNKNOWN_LEVEL: count}, "unseparated_lines_total": {"": count}})
            return []
        stream = self.streams[container]
        before = stream.clock.last
        found = stream.read(lines, times, returns=returns)
        if stream.clock.last != before:
            self.last_time = stream.clock.last
        if container:
            for _, head in found:
                head.container = container
        others, stream.of_others = stream.of_others, []
        for text, time, name in others:
            run = self._new_run()
            run.add(text or "", time)
            found += self._read_run(name, run)
        return found

    def _has_room(self) -> bool:
        """Whether one more container can be told apart, for which one without an engine may have to go."""
        if len(self.streams) <= CONTAINERS:
            return True
        gone = next((name for name, stream in self.streams.items() if name and not stream.runtime), None)
        if gone is None:
            return False
        self._past = added(self._past, self.streams.pop(gone).counts())
        return True


class Run:
    """Lines of one container that follow each other, without their wrapping."""

    __slots__ = ("lines", "times")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.times: list[str | None] = []

    def add(self, line: str, time: str | None) -> None:
        """A line that is whole."""
        self.lines.append(line)
        self.times.append(time)
