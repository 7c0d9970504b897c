"""The events of several files of one source, in the order of their time."""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

WINDOW_SECONDS = 2.0
"""How much later than its last time a file may be taken to be, when a read of it showed no later one."""

PATIENCE = 64
"""So many reads without a later time (16 MiB; a busy second has less) before a file is taken to move with each read."""

T = TypeVar("T")

_NEVER = -math.inf


@dataclass
class _File(Generic[T]):
    order: int
    """Of files at the same time, that which is named first goes first."""
    time: float = _NEVER
    """The last time that it showed."""
    reached: float = _NEVER
    """Up to when it is taken to be read: nothing earlier is expected from it."""
    still: int = 0
    """Reads since it showed a later time."""
    turn: int = -1
    """When it was read last."""
    held: deque[tuple[float, T]] = field(default_factory=deque)


class _Place(NamedTuple):
    """Where a file stands in the order of reading."""

    reached: float
    turn: int
    order: int
    name: str


class Merge(Generic[T]):
    """Holds back what one file says until the files that have more to read have come to the same time.

    `next` names the file to read, the one that is least far; what was read is given to `put`, which returns what may
    be applied now. So a backlog is read in step, and no more than about one chunk a file is held. A file that is read
    to its end holds nothing back: live, events pass at once, in the order in which they are read.

    Within a file nothing is ever reordered: an event is taken to be no later than what follows it, so a clock that was
    ahead for a moment delays nothing. A file whose time stands still lets the others pass by 2 s of log time; that is
    all the disorder there is while it has lines of one busy second, and when it goes on for 64 reads, by 2 s more with
    each read, so that it cannot starve them. A file that never showed a time goes along with the slowest of the others.
    """

    STATE = ("standing",)

    def __init__(self, time_of: Callable[[T], float | None], files: Iterable[str] = ()) -> None:
        """`time_of` gives the time of an event (epoch), None when it has none of its own: it takes that before it."""
        self._time_of = time_of
        self._files: dict[str, _File[T]] = {}
        self._behind: set[str] = set()
        self._holding: set[str] = set()
        self._heads: list[tuple[float, int, str]] = []
        """A heap of the first events that files hold."""
        self._least: list[_Place] = []
        """A heap of the files that are behind; a place that a file has left is skipped when it comes up."""
        self._turn = itertools.count()
        self.follow(files)

    def follow(self, files: Iterable[str]) -> None:
        """From now on these are the files; what is held of others stays, but nothing waits for them."""
        files = list(files)
        for name in self._files.keys() - set(files):
            self._behind.discard(name)
            if name not in self._holding:
                del self._files[name]
        for order, name in enumerate(files):
            new = name not in self._files
            file = self._files.setdefault(name, _File(order))
            if new or (file.order != order and name in self._behind):
                file.order = order
                self._put_behind(name, file)
            file.order = order

    @property
    def standing(self) -> dict[str, tuple[float, float, int, tuple[tuple[float, T], ...]]]:
        """How far each file is, and what it holds; to set it puts all of them behind, for nobody has looked at them."""
        return {name: (file.time, file.reached, file.still, tuple(file.held)) for name, file in self._files.items()}

    @standing.setter
    def standing(self, standing: Mapping[str, tuple[float, float, int, tuple[tuple[float, T], ...]]]) -> None:
        for order, (name, (time, reached, still, held)) in enumerate(standing.items()):
            self._files[name] = _File(order, time, reached, still, held=deque(held))
            self._put_behind(name, self._files[name])
            if held:
                self._holding.add(name)
                heapq.heappush(self._heads, (held[0][0], order, name))

    def next(self) -> str | None:
        """The file to read now, None when all were at their end as of their last read."""
        least = self._first()
        return least.name if least else None

    @property
    def holds(self) -> bool:
        """Whether something waits."""
        return bool(self._holding)

    def is_behind(self, name: str) -> bool:
        """Whether the last read of a file left more to read, or it was never looked at."""
        return name in self._behind

    def look(self, name: str, *, behind: bool) -> None:
        """A file was found at its end or grown; what it brought is put later, so that the others wait for it."""
        if behind:
            self._put_behind(name, self._files[name])
        else:
            self._behind.discard(name)

    def put(self, name: str, events: list[T], *, behind: bool, reached: float | None = None) -> list[T]:
        """Take what a read of a file brought, and return all that may be applied now.

        `behind`: the read brought bytes, and there are more. `reached` is the time of the last line read, which need
        not be an event; without it the last event's.
        """
        file = self._files[name]
        file.turn = next(self._turn)
        alone = not self._holding and len(self._behind) == (name in self._behind)
        if alone and (not behind or len(self._files) == 1):
            # Nothing can come before these, nor be held by this file: no look at the times.
            file.time = file.reached = file.time if reached is None else reached
            self.look(name, behind=behind)
            return events
        times = self._times(file, events)
        last = (times[-1] if times else file.time) if reached is None else reached
        # Much earlier than before: its clock was set back, or ahead for a moment.
        if behind and (file.time == last == _NEVER or file.time - WINDOW_SECONDS <= last <= file.time):
            self._stand_still(name, file)
        else:
            file.reached, file.still = last, 0
        file.time = last
        self.look(name, behind=behind)
        if alone:
            return events
        for index in range(len(times) - 1, -1, -1):
            last = times[index] = min(times[index], last)
        file.held.extend(zip(times, events, strict=True))
        if file.held and name not in self._holding:
            self._holding.add(name)
            heapq.heappush(self._heads, (file.held[0][0], file.order, name))
        return self.release()

    def release(self) -> list[T]:
        """All that nothing must be waited for any more, in order."""
        first = self._first()
        least = first.reached if first else math.inf
        released: list[T] = []
        while self._heads and self._heads[0][0] <= least:
            _, order, name = self._heads[0]
            held = self._files[name].held
            released.append(held.popleft()[1])
            if held:
                heapq.heapreplace(self._heads, (held[0][0], order, name))
            else:
                heapq.heappop(self._heads)
                self._holding.discard(name)
        return released

    def _times(self, file: _File[T], events: list[T]) -> list[float]:
        times, last = [], file.time
        for event in events:
            time = self._time_of(event)
            last = last if time is None else time
            times.append(last)
        return times

    def _put_behind(self, name: str, file: _File[T]) -> None:
        self._behind.add(name)
        heapq.heappush(self._least, _Place(file.reached, file.turn, file.order, name))

    def _first(self) -> _Place | None:
        while self._least:
            place = self._least[0]
            file = self._files.get(place.name)
            if file and place.name in self._behind and place[:3] == (file.reached, file.turn, file.order):
                return place
            heapq.heappop(self._least)
        return None

    def _stand_still(self, name: str, file: _File[T]) -> None:
        file.still += 1
        if file.time == _NEVER:
            others = (self._files[other].reached for other in self._behind if other != name)
            file.reached = max(file.reached, min(others, default=_NEVER)) + WINDOW_SECONDS
        elif file.still == 1 or file.still > PATIENCE:
            file.reached += WINDOW_SECONDS
