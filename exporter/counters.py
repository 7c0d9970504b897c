"""Counters and deduplication shared by the parts of an engine's state."""

import hashlib
import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter.families import FAMILIES

FOLD_SECONDS = 2.0
"""The same fact from other processes of an engine within this time is one fact."""

SERIES_LIMIT = 1000
"""Series of one family that a source may have: a broken log must not fill Prometheus."""

_REQUEST_LIMIT = 4096
_REQUEST_SECONDS = 600.0
_FOLD_LIMIT = 4096
_FOLDS_OF_A_KEY = 16
_LATE_SECONDS = 60.0


class Sample(NamedTuple):
    """One series' value; `labels` in the order of the family's."""

    family: str
    labels: tuple[str, ...]
    value: float


def trim(series: dict[Any, Any], limit: int) -> int:
    """Drop the newest entries beyond the limit; how many. Older ones, which a scrape may have seen, stay."""
    dropped = max(0, len(series) - limit)
    for _ in range(dropped):
        series.popitem()
    return dropped


class Counters:
    """Values that only rise, by family and labels."""

    STATE = ("totals",)

    def __init__(self) -> None:
        self._families: defaultdict[str, defaultdict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))

    def family(self, name: str) -> defaultdict[tuple[str, ...], float]:
        """A family's values by labels, for handlers that add to them for many lines."""
        return self._families[name]

    @property
    def totals(self) -> dict[str, dict[tuple[str, ...], float]]:
        """All families; to set them adds to those that are there, which others may hold."""
        return {name: values for name, values in self._families.items() if values}

    @totals.setter
    def totals(self, totals: Mapping[str, Mapping[tuple[str, ...], float]]) -> None:
        for name, values in totals.items():
            self.family(name).update(values)

    def add(self, family: str, *labels: str, by: float = 1.0) -> None:
        """Raise the counter of these labels."""
        self._families[family][labels] += by

    def create(self, family: str, labels: Mapping[str, str]) -> None:
        """Let a counter exist at 0, so that its first event is an increase; nothing when a label is not known yet."""
        names = FAMILIES[family].labels
        if all(name in labels for name in names):
            self.family(family)[tuple(labels[name] for name in names)] += 0.0

    def trim(self) -> int:
        """Keep the number of series in bounds; how many were dropped."""
        return sum(trim(values, SERIES_LIMIT) for values in self._families.values() if len(values) > SERIES_LIMIT)

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        for family, values in self._families.items():
            for labels, value in values.items():
                yield Sample(family, labels, value)


class Fold:
    """One fact as the processes of an engine tell it; `seconds` is the longest duration that was counted, in `phase`."""

    __slots__ = ("counted", "phase", "seconds", "seen", "time")

    def __init__(self, time: float) -> None:
        """`time` is that of the first process."""
        self.time = time
        self.seen: set[str] = set()
        self.counted = False
        self.phase = ""
        self.seconds = 0.0


class Hidden(str):
    """What stands for text of a user, when the text itself is not to be had."""

    __slots__ = ()


class Digest:
    """Stands for text of a user where it must be told from others without being kept: a keyed 64-bit hash."""

    STATE = ("_key",)

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def of(self, text: str) -> str:
        """The same for the same text, also when that is hidden already."""
        if isinstance(text, Hidden):
            return str(text)
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=8, key=self._key).hexdigest()


class Folds:
    """Recognises the same fact from another process. The same process repeating itself is a new fact.

    Processes may be several facts apart: the next telling of each is about the first fact that it has not told yet.
    """

    STATE = ("joinable",)

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, ...], list[Fold]] = OrderedDict()

    @property
    def joinable(self) -> dict[tuple[str, ...], tuple[Fold, ...]]:
        """The facts that another process may still tell, with a minute's grace for lines that come late."""
        last = max((fold.time for folds in self._open.values() for fold in folds), default=0.0)
        recent = {key: tuple(fold for fold in folds if last - fold.time <= _LATE_SECONDS) for key, folds in self._open.items()}
        return {key: folds for key, folds in recent.items() if folds}

    @joinable.setter
    def joinable(self, folds: Mapping[tuple[str, ...], tuple[Fold, ...] | Fold]) -> None:
        # The first version to save a state knew one fact of a key.
        several = {key: (each,) if isinstance(each, Fold) else each for key, each in folds.items()}
        self._open = OrderedDict((key, list(each)) for key, each in several.items())

    def join(self, key: tuple[str, ...], who: str, time: float | None, nameless: int = 1) -> Fold:
        """The fact that this process tells now: one begun by others, or a new one.

        Lines without a process name are of `nameless` processes, that cannot be told apart.
        """
        now = time or 0.0
        folds = self._open.get(key)
        if folds is None:
            folds = self._open[key] = []
            if len(self._open) > _FOLD_LIMIT:
                self._open.popitem(last=False)
        for fold in folds:
            if abs(now - fold.time) <= FOLD_SECONDS:
                name = who or (f"#{len(fold.seen)}" if len(fold.seen) < nameless else "")
                if name not in fold.seen:
                    fold.seen.add(name)
                    return fold
        return self._begin(folds, key, who, now)

    def _begin(self, folds: list[Fold], key: tuple[str, ...], who: str, now: float) -> Fold:
        fold = Fold(now)
        fold.seen.add(who)
        while folds and (abs(now - folds[0].time) > FOLD_SECONDS or len(folds) >= _FOLDS_OF_A_KEY):
            del folds[0]
        folds.append(fold)
        self._open.move_to_end(key)
        return fold


class RequestSet:
    """Counts distinct requests without keeping their ids: keyed hashes, bounded in number and age."""

    STATE = ("recent",)

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self._seen: OrderedDict[str, float] = OrderedDict()

    @property
    def recent(self) -> dict[str, float]:
        """Those that are young enough to count as told, and when they were."""
        last = max(self._seen.values(), default=0.0)
        return {digest: at for digest, at in self._seen.items() if last - at <= _REQUEST_SECONDS}

    @recent.setter
    def recent(self, seen: Mapping[str, float]) -> None:
        self._seen = OrderedDict(seen)

    def is_new(self, request: str, time: float | None) -> bool:
        """Whether this request has not been told before."""
        now = time or 0.0
        digest = self._digest.of(request)
        before = self._seen.get(digest)
        if before is not None and abs(now - before) <= _REQUEST_SECONDS:
            return False
        self._seen[digest] = now
        self._seen.move_to_end(digest)
        if len(self._seen) > _REQUEST_LIMIT:
            self._seen.popitem(last=False)
        return True

    def take(self, request: str) -> bool:
        """Forget a request; whether it was known."""
        return self._seen.pop(self._digest.of(request), None) is not None
