"""What an engine went through: its last events, and how it was before its last start."""

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from exporter.clock import EventClock
from parsers import events
from parsers.events import PRIVATE_FIELDS
from parsers.header import NOBODY, Head
from parsers.units import label

EVENTS_LIMIT: Final = 100

_BURST_SECONDS = 60.0
"""The same event within this time is one entry that counts."""

_WORDS = frozenset({str, bool})
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTED: tuple[type[Any], ...] = (
    events.EngineStarted, events.ContainerStarted, events.EngineReady, events.WarmupFailed, events.EngineStopping,
    events.AddressInUse, events.UncaughtException, events.Hazard, events.HealthCheckFailed, events.Retracted,
    events.CompileFailed, events.CompilerSeen, events.DraftMismatch, events.KvRoomMixedUp,
    events.KvTransferFailure, events.KvRoomFailed, events.KvCompatibility, events.KvPeerChanged, events.KvParamsRefused, events.KvExpired,
    events.KvLateRead, events.KvRecomputed, events.KvLoadFailed, events.KvLoadSkipped, events.TransportError,
)  # fmt: skip
"""Not what is periodic, nor what the state of the engine tells as well. Compiles and failures are noted once they are counted."""

_PUBLIC_FIELDS = {kind: tuple(name for name in kind._fields if name not in PRIVATE_FIELDS and name != "kernel") for kind in _NOTED}

Handler = Callable[[Any, Head], None]


class Moment(NamedTuple):
    """When something was told, for a clock that may learn the zone later."""

    time: float | None
    wrapped_time: str | None

    def epoch(self, clock: EventClock) -> float | None:
        """Seconds since the epoch."""
        return clock.epoch(Head(NOBODY, "", self.time, wrapped_time=self.wrapped_time))


def moment_of(head: Head) -> Moment:
    """When its line was told."""
    return Moment(head.time, head.wrapped_time)


@dataclass(slots=True)
class Noted:
    """An event in words of ours, as JSON, when it was told first and last, and how often. Numbers are for the metrics."""

    text: str
    first: Moment
    last: Moment
    count: int = 1

    def public(self) -> dict[str, str | bool]:
        """What `text_of` put together."""
        words: dict[str, str | bool] = json.loads(self.text)
        return words


class Portrait(NamedTuple):
    """What one engine process was, for comparing it with the next."""

    version: str
    settings: dict[str, str]
    pools: dict[str, float]
    """Tokens by engine and pool."""
    phases: dict[str, float]
    state: str


class History:
    """Bounded in all it keeps, and without a word of a user."""

    STATE = ("events", "before")

    def __init__(self) -> None:
        self.events: deque[Noted] = deque(maxlen=EVENTS_LIMIT)
        self.before: Portrait | None = None
        """The process before; of what it did not live to tell, the one before that."""

    def noting(self, handlers: Mapping[type[object], Handler]) -> dict[type[object], Handler]:
        """The handlers, of which those of events worth a note take one."""

        def noting(handle: Handler) -> Handler:
            def note_and_handle(event: Any, head: Head) -> None:
                self._note(text_of(event), moment_of(head))
                handle(event, head)

            return note_and_handle

        return {kind: noting(handle) if kind in _NOTED else handle for kind, handle in handlers.items()}

    def compiled(self, backend: str, kind: str, phase: str, now: Moment) -> None:
        """A compile that counts."""
        self._note(_text("Compiled", (("backend", backend), ("kind", kind), ("phase", phase))), now)

    def failed(self, kind: str, now: Moment) -> None:
        """A failure that is none of a shutdown's last words."""
        self._note(_text("EngineFailure", (("kind", kind),)), now)

    def judged(self, verdict: str, now: Moment) -> None:
        """Another P/D verdict: each stands for itself, since the one before ended with it."""
        self.events.append(Noted(_text("Verdict", (("verdict", verdict),)), now, now))

    def _note(self, text: str, now: Moment) -> None:
        for noted in reversed(self.events):
            if noted.text == text:
                if abs((now.time or 0.0) - (noted.last.time or 0.0)) <= _BURST_SECONDS:
                    noted.last, noted.count = now, noted.count + 1
                    return
                break
        self.events.append(Noted(text, now, now))

    def ended(self, portrait: Portrait) -> None:
        """Another process takes the place of the one that was so."""
        before = self.before
        if before:
            portrait = portrait._replace(
                version=portrait.version or before.version,
                settings=portrait.settings or before.settings,
                pools=portrait.pools or before.pools,
                phases=portrait.phases or before.phases,
            )
        self.before = portrait

    def changes(self, now: Portrait) -> dict[str, Any] | None:
        """What is known to be another than in the process before; None without one."""
        before = self.before
        if not before:
            return None
        differs = {
            "version": _differences({"version": before.version}, {"version": now.version}).get("version"),
            "settings": _differences(before.settings, now.settings),
            "kv_cache_size_tokens": _differences(before.pools, now.pools),
        }
        return {key: value for key, value in differs.items() if value}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Of what both tell: a start that has not come so far yet has lost nothing."""
    both = sorted(key for key in before.keys() & now.keys() if before[key] and now[key])
    return {key: {"before": before[key], "now": now[key]} for key in both if before[key] != now[key]}


def text_of(event: Any) -> str:
    """An event's name and those words of its that come from a small set, as JSON. Many lines tell the same, and it is made once."""
    kind = type(event)
    return _text(kind.__name__, tuple([(name, word) for name in _PUBLIC_FIELDS[kind] if type(word := getattr(event, name)) in _WORDS]))


@lru_cache(512)
def _text(name: str, words: tuple[tuple[str, str | bool], ...]) -> str:
    plain = {key: label(word) if isinstance(word, str) else word for key, word in words}
    return json.dumps({"event": _WORD_START.sub("_", name).lower(), **plain})
