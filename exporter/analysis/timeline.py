"""What happened, in order: bounded, and with bursts of the same as one entry."""

from collections import deque
from dataclasses import dataclass
from itertools import chain

from exporter.analysis.marks import READY, START, STOP, VERDICT, Place
from exporter.pages.lanes import Tone

BURST_SECONDS = 60.0
"""The same within this time is one entry that counts."""

_TURNS = frozenset({START, READY, STOP, VERDICT})
"""Kinds of which each stands for itself: what held before ends with it."""

KEPT = 1000
"""Entries of an engine's first, and as many of its last, that are kept."""


@dataclass(slots=True)
class Entry:
    """Something that happened, with the places where it did first and last."""

    kind: str
    tone: Tone
    text: str
    first: Place
    last: Place
    count: float = 1


class Timeline:
    """Entries of one engine in the order of its log."""

    def __init__(self) -> None:
        self._first: list[Entry] = []
        self._last: deque[Entry] = deque(maxlen=KEPT)
        self._recent: dict[tuple[str, str], Entry] = {}
        self.left_out = 0

    def add(self, kind: str, tone: Tone, text: str, place: Place, count: float = 1, *, until: Place | None = None) -> None:
        """One more, or more of the same, the last of them at `until`."""
        last = until or place
        before = self._recent.get((kind, text))
        if before and kind not in _TURNS and abs((place.time or 0.0) - (before.last.time or 0.0)) <= BURST_SECONDS:
            before.last, before.count = last, before.count + count
            return
        if len(self._recent) >= KEPT:
            self._recent.clear()
        entry = self._recent[kind, text] = Entry(kind, tone, text, place, last, count)
        if len(self._first) < KEPT:
            self._first.append(entry)
        else:
            self.left_out += len(self._last) == KEPT
            self._last.append(entry)

    @property
    def entries(self) -> list[Entry]:
        """All that were kept."""
        return list(chain(self._first, self._last))
