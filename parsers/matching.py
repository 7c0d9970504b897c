"""From the lines of one log to events: the rules that match, and the access lines between them."""

import re
from typing import TypeAlias

from parsers import access
from parsers.events import (
    NOTHING,
    QUOTED,
    EngineFailure,
    EngineStarted,
    Event,
    HealthAnswered,
    HttpResponses,
    IntervalStats,
    KvCompatibility,
    KvLoadFailed,
    KvLoadSkipped,
    KvRecomputed,
    KvRoomFailed,
    KvTransferFailure,
    Nothing,
    PrefillBatch,
    TransportError,
)
from parsers.framing import repetitions
from parsers.header import LEVELS, UNKNOWN_LEVEL, Head, Origin, begins_record
from parsers.rules import KEY_LENGTH, VARIABLE_STARTS, Dispatch, Rule

_LONGEST_CLIENT = 64
_SHORTEST_RECORD = len("INFO 01-01 00:00:00 [a.py:1] ")
_NO_RESPONSES = dict.fromkeys(("2xx", "3xx", "4xx", "5xx", access.ANSWERED), 0)
_TAGS = re.compile(r"(?:\[[^\]\n]{0,64}\] ?){1,3}")
# Events for which it matters what was answered before: SGLang's batches are told from probes by it, and who answers after a hang is back.
_OUTLIVED = (KvLoadFailed, KvLoadSkipped, KvRecomputed, KvRoomFailed, KvTransferFailure)  # by answers that come later
_NEXT_TO_RESPONSES = frozenset((EngineFailure, PrefillBatch, HealthAnswered, *_OUTLIVED))
_AFTER_RESPONSES = frozenset((EngineStarted, IntervalStats)) | _NEXT_TO_RESPONSES
# Events of which each process' own is counted: Ray prints one line for the equal ones of several workers.
_EACH_COUNTS = frozenset((KvCompatibility, KvTransferFailure, TransportError))

Found: TypeAlias = tuple[Event, Head]
"""An event and the head of the line that it came from."""


class Matcher:
    """Collects the events of one log, in its order."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self.levels: dict[str, int] = dict.fromkeys((*LEVELS, UNKNOWN_LEVEL), 0)
        self.unrecognised: dict[str, int] = dict.fromkeys(("WARNING", "ERROR", "CRITICAL"), 0)
        self.rule_errors: dict[str, int] = {}
        self.runtime = ""
        self._requests = access.Requests()
        self._found: list[Found] = []
        self._responses = dict(_NO_RESPONSES)
        self._responses_in_order = True
        self._origins: dict[tuple[str | None, str | None], Origin] = {}
        self._glued: list[str] = []

    def _answer(self, line: str, start: int, head: Head) -> bool:
        """Count an access line; False when it is none, or of a probe. A client on a Unix socket has no address."""
        at = line.find(access.MARK, max(start - 1, 0), start + _LONGEST_CLIENT)
        code = self._requests.response_class(line[at + len(access.MARK) :]) if at >= 0 and " " not in line[start:at] else ""
        if code:
            self._responses[code] += 1
            if self._responses_in_order:
                self._flush_responses(head)
                self._responses_in_order = False
        return bool(code)

    def _match(self, rules: Dispatch, line: str, start: int, head: Head) -> Event | None:
        """Try the rules that can stand at `start`. None when no rule knew the line."""
        candidates = rules.table.get(line[start : start + KEY_LENGTH])
        if not candidates:
            if line[start : start + 1] not in VARIABLE_STARTS:
                return None
            if line[start] == "[" and (tags := _TAGS.match(line, start)):
                start = tags.end()
                candidates = rules.table.get(line[start : start + KEY_LENGTH])
            candidates = candidates or rules.numbered(line, start)
        return self._first(candidates, line, start, head, whole=rules.whole)

    def _first(self, candidates: tuple[Rule, ...], line: str, start: int, head: Head, *, whole: bool = False) -> Event | None:
        """The event of the first of these rules that knows the message; `whole` when nothing may follow what it knows."""
        for rule in candidates:
            found = rule.pattern.match(line, start)
            if found is None:
                continue
            end = found.end()
            more = end < len(line)
            if more and whole and line[end:].strip():
                return None
            event: Event
            try:
                event = rule.build(found)
            except Exception:  # noqa: BLE001 - a failing rule is counted and never stops the others
                self.rule_errors[rule.name] = self.rule_errors.get(rule.name, 0) + 1
                event = NOTHING
            # Line breaks get lost between processes, so that another record begins here; but not in what a user wrote.
            if more and event is not QUOTED and len(line) - end >= _SHORTEST_RECORD and begins_record(line, end):
                self._glued.append(line[end:])
            if not self.runtime:
                self.runtime = rule.runtime
            kind = type(event)
            if kind is not Nothing:
                if kind in _AFTER_RESPONSES or self._responses_in_order:
                    self._emit(event, head)
                else:
                    self._found.append((event, head))
                if more and kind in _EACH_COUNTS and (others := repetitions(line, end) - 1):
                    self._found += [(event, head)] * others
            return event
        return None

    def _emit(self, event: Event, head: Head) -> None:
        kind = type(event)
        if self._responses_in_order:
            self._flush_responses(head)
        elif kind is IntervalStats:
            responses = self._responses
            if answers := responses["2xx"] + responses[access.ANSWERED]:  # how many were answered in this interval counts
                self._found.append((HttpResponses({"2xx": answers}, responses[access.ANSWERED]), head))
                responses["2xx"] = responses[access.ANSWERED] = 0
        elif kind in _NEXT_TO_RESPONSES:
            self._flush_responses(head)
        if kind is EngineStarted:
            self._flush_responses(head)
            self._origins.clear()
            self._responses_in_order = True  # whether traffic came before the next event decides what that means
        self._found.append((event, head))

    def _flush_responses(self, head: Head) -> None:
        responses = self._responses
        if counts := {code: count for code, count in responses.items() if count}:
            self._responses.update(_NO_RESPONSES)
            if answered := counts.pop(access.ANSWERED, 0):
                counts["2xx"] = counts.get("2xx", 0) + answered
            self._found.append((HttpResponses(counts, answered), head))
