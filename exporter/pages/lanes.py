"""What the pages draw over time: marks, their rows, and how far across a time is. Templates only draw."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Tone: TypeAlias = Literal["good", "neutral", "note", "bad"]
"""What something means for who runs the engine."""

GOOD: Final = "good"
NEUTRAL: Final = "neutral"
NOTE: Final = "note"
BAD: Final = "bad"
_UNDERMOST: tuple[Tone, ...] = (NEUTRAL, GOOD, NOTE, BAD)


@dataclass(frozen=True)
class Tick:
    """A time under the axis."""

    x: float
    text: str


@dataclass(frozen=True)
class Dot:
    """Something that happened."""

    x: float
    tone: Tone
    title: str


@dataclass(frozen=True)
class Band:
    """Something that held for a while; `text` is empty where it does not fit."""

    x: float
    width: float
    tone: Tone
    text: str
    title: str


@dataclass(frozen=True)
class Lane:
    """One row of a timeline."""

    name: str
    dots: tuple[Dot, ...] = ()
    bands: tuple[Band, ...] = ()


@dataclass(frozen=True)
class Scale:
    """From the times `first` to `last` to places between `left` and `right`."""

    left: float
    right: float
    first: float
    last: float

    def x(self, at: float) -> float:
        """How far across a time is; one before the first is at the left."""
        return round(self.left + (self.right - self.left) * max(0.0, (at - self.first) / (self.last - self.first)), 1)


def worst_on_top(dots: Iterable[Dot]) -> tuple[Dot, ...]:
    """In the order in which they are drawn over each other."""
    return tuple(sorted(dots, key=lambda dot: _UNDERMOST.index(dot.tone)))
