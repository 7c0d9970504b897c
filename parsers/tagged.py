"""SGLang's lines: `[2026-08-03 02:00:00 DP0 TP1] message`, without a level, and uvicorn's behind the same header."""

import re
from dataclasses import replace

from parsers import access
from parsers.events import (
    QUOTED,
    CeilingsTold,
    Component,
    DecodeBatch,
    EngineReady,
    EngineStarted,
    HealthAnswered,
    KvCacheBytes,
    KvPools,
    KvRequestMoved,
    PhaseFinished,
    PrefillBatch,
    StartupTimings,
    StateCacheSlots,
)
from parsers.header import ALARMING, HEADER, NOBODY, SGLANG_HEADER, UNKNOWN_LEVEL, Head, LogClock, Origin
from parsers.rules import KEY_LENGTH, Scope, dispatch
from parsers.unknown import UnknownLines

_SERVER_KEYS = frozenset(("INFO", "WARN", "ERRO", "DEBU", "CRIT"))
_PROBE = re.compile(r"GET /health(?:_generate)? HTTP/[\d.]+\" 200\b", re.ASCII)
_RANK_LIMIT = 1024
TAGS = "tags"
"""Of a record that begins behind SGLang's header, with the ranks in it."""

# What only lines at INFO tell: an engine that says any of it has not been told to keep silent.
_SAID_AT_INFO = frozenset(
    (
        *(EngineStarted, EngineReady, Component, PhaseFinished, StartupTimings, CeilingsTold, KvPools, KvCacheBytes, StateCacheSlots),
        *(PrefillBatch, DecodeBatch, KvRequestMoved),
    )
)


class TaggedLines(UnknownLines):
    """Reads the records behind SGLang's header."""

    def __init__(self, year: int, month: int) -> None:
        """As Log."""
        super().__init__()
        self.clock = LogClock(year, month)
        self.own_levels: set[str] = set()
        """Levels of records behind the engine's own header, not the server's."""
        self._wrapped_time: str | None = None
        self._nesting = 0
        """Wrappings that were taken off the line that is read."""
        self._quotes: tuple[str, int] | None = None
        """The kind of header that the last record has, and its nesting, when it quotes a user: all up to the next such one may go on with it."""
        self._tagged_records = dispatch(Scope.RECORD, "sglang")

    def _tagged_head(self, found: re.Match[str]) -> Head:
        stamp, tags = found.groups()
        origin = self._origins.get((tags, ""))
        if origin is None:
            if len(self._origins) >= _RANK_LIMIT:
                origin = NOBODY
            else:
                origin = self._origins[tags, ""] = Origin(tags.strip().replace(" ", "_"), "")
        return Head(origin, UNKNOWN_LEVEL, self.clock.read(stamp), "", None, self._wrapped_time)

    def _tagged_line(self, line: str) -> bool:
        """Read a line behind SGLang's header; False when there is none."""
        found = SGLANG_HEADER.match(line)
        if found is None:
            return False
        self._tagged_message(line, found.end(), self._tagged_head(found))
        return True

    def _tagged_message(self, line: str, start: int, head: Head) -> None:
        """What stands behind the header: a line of uvicorn, which has a level, or a record."""
        if line[start : start + KEY_LENGTH] in _SERVER_KEYS and (found := HEADER.match(line, start)) and found[4] is None:
            self.levels[found[3]] += 1
            self.runtime = self.runtime or "sglang"
            self._tagged_server_line(line, found.end(), found[3], head)
        else:
            self.levels[UNKNOWN_LEVEL] += 1
            self._tagged_record(line, start, head)

    def _tagged_server_line(self, line: str, start: int, level: str, head: Head) -> None:
        if self._answer(line, start, head):
            return
        request = line.find(access.MARK, start)
        if request >= 0 and _PROBE.match(line, request + len(access.MARK)):
            self._emit(HealthAnswered(), head)
            return
        known = self._match(dispatch(Scope.BARE, "sglang", whole=True), line, start, replace(head, level=level))
        if known is None and level in ALARMING:
            self.unrecognised[level] += 1

    def _tagged_record(self, line: str, start: int, head: Head) -> None:
        """A record of SGLang's, whatever its header; what no rule knows stands out when it begins like a failure."""
        event = self._match(self._tagged_records, line, start, head)
        self._quotes = (TAGS, self._nesting) if event is QUOTED and self.runtime == "sglang" else None
        if event is not None:
            if type(event) in _SAID_AT_INFO:
                self.own_levels.add("INFO")
            else:
                self._look_for_failure(event)
        elif self.runtime != "sglang":  # the header is any program's that prints a time in brackets
            event = self._match(dispatch(Scope.BARE, whole=True), line, start, head)
            if event is None and not self.runtime:
                self._unknown_of_nobody(line, start, head)
        else:
            self._unknown_of_sglang(line, start, head)
