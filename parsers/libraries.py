"""Records of the libraries under an engine, which print with headers of their own or with none."""

import re

from parsers.events import Nothing, TransportError, UncaughtException
from parsers.framing import repetitions
from parsers.gateway.lines import GatewayLines
from parsers.header import ALARMING, Head, NativeHead, Record, place
from parsers.nixl.native import transport_library
from parsers.rules import Scope, dispatch

PROCESS_LIMIT = 1024
TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION_NAME = re.compile(r"[A-Za-z_][\w.]*(?::|$)", re.ASCII)
_CALM_EXITS = ("KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError")


class LibraryLines(GatewayLines):
    """Reads lines behind native headers, and lines without any."""

    def __init__(self, year: int, month: int) -> None:
        """As Log."""
        super().__init__(year, month)
        self._exceptions = dispatch(Scope.EXCEPTION)
        self._last_records: dict[str, Record] = {}
        self._open_tracebacks: set[str] = set()

    def _native_goes_on(self, native: NativeHead) -> bool:
        """Whether this is a further line of UCX's record before: each has the whole header, to the microsecond."""
        key, who = (float(native.epoch), place(native.where)), f"ucx {native.process}"
        if (before := self._last_records.get(who)) and before.key == key:
            return True
        if who in self._last_records or len(self._last_records) < PROCESS_LIMIT:
            self._last_records[who] = Record(key, None)
        return False

    def _native_record(self, line: str, native: NativeHead, head: Head) -> None:
        """A record of a library. An error of one that moves KV counts, whatever else it tells, but where it adds nothing."""
        event = self._match(dispatch(Scope.BARE), line, native.end, head)
        library = "ucx" if native.epoch else transport_library(native.where)
        if library and head.level in ("ERROR", "CRITICAL") and type(event) is not Nothing:
            for _ in range(repetitions(line, native.end)):
                self._emit(TransportError(library), head)
        elif event is None and head.level in ALARMING:
            self.unrecognised[head.level] += 1

    def _headerless(self, line: str, start: int, head: Head) -> None:
        if self._match(dispatch(Scope.BARE, whole=True), line, start, head) is None:
            self._match(self._exceptions, line, start, head)
        if line.startswith(TRACEBACK, start):
            if len(self._open_tracebacks) < PROCESS_LIMIT:
                self._open_tracebacks.add(head.origin.who)
        elif head.origin.who in self._open_tracebacks and (name := _EXCEPTION_NAME.match(line, start)):
            self._open_tracebacks.discard(head.origin.who)
            if not name[0].startswith(_CALM_EXITS):
                self._emit(UncaughtException(), head)
