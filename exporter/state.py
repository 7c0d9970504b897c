"""The state of live objects as JSON, and back into objects of the same kind.

A class names in `STATE` the attributes that make up its state; a property serves where an attribute alone will not do.
Nothing else of an object is saved. In the JSON, arrays stand for tuples; what else JSON does not know is an object with a
`~` that names its kind, and only the kinds listed here are ever made from a file.
"""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from exporter.counters import Digest, Fold, Hidden
from exporter.evidence.rdma import RdmaReading
from exporter.history import Moment, Noted, Portrait
from exporter.jit import OpenCompile
from exporter.jit_incidents import Kernel
from exporter.pd_evidence import Period
from parsers import events
from parsers.events import PRIVATE_FIELDS
from parsers.header import Head, Origin, Record

Json: TypeAlias = Any
_KIND = "~"
_PLAIN = frozenset({str, int, float, bool, type(None)})
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "bytes": bytes.fromhex,
    "Hidden": Hidden,
}
_EVENTS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, tuple)]
_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*_EVENTS, Head, Origin, Record, OpenCompile, Period, Noted, Kernel, Moment, Portrait, RdmaReading)
}
_OMITTED = frozenset({"where"})
"""Of a head: nothing needs it after the line that it came from, and a forged one may hold anything."""


def _fields(kind: type[Any]) -> tuple[str, ...]:
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    return tuple(name for name in names if name not in _OMITTED)


# Found once: a state is taken behind each scrape, and most of it are hundreds of these.
_FIELDS = {kind: _fields(kind) for kind in _CLASSES.values() if kind is not Origin}


class Stateful(Protocol):
    """An object whose state can be saved."""

    @property
    def STATE(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the class
        """The attributes that make up the state."""


class Freezer:
    """Turns state into JSON. A fold that several hold stays one fold, and of what users wrote only the digest is left."""

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self._folds: dict[int, int] = {}

    def state(self, of: Stateful) -> dict[str, Json]:
        """The state of an object."""
        return {name: self.value(getattr(of, name)) for name in of.STATE}

    def value(self, value: Any) -> Json:
        """Anything that a state may hold; TypeError when it may not."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return self._all(value)
        if (names := _FIELDS.get(kind)) is not None:
            return self._object(kind.__name__, names, value)
        if isinstance(value, dict):
            return self._dict(value)
        if hasattr(kind, "STATE"):
            return self.state(value)
        return {_KIND: kind.__name__} | self._parts(kind, value)

    def _parts(self, kind: type[Any], value: Any) -> dict[str, Json]:
        parts: dict[str, Json]
        if kind is list:
            parts = {"of": self._all(value)}
        elif kind in (set, frozenset):
            parts = {"of": sorted(self._all(value), key=repr)}  # the same state is the same text
        elif kind is deque:
            parts = {"of": self._all(value), "most": value.maxlen}
        elif kind is bytes:
            parts = {"of": value.hex()}
        elif kind is Origin:
            parts = {"process": value.process, "identity": value.who[len(value.process) :]}
        elif kind is Fold:
            parts = self._fold(value)
        else:
            raise TypeError(f"a state cannot hold {kind.__name__}")
        return parts

    def _object(self, kind: str, names: tuple[str, ...], value: Any) -> dict[str, Json]:
        parts = {_KIND: kind}
        for name in names:
            part = getattr(value, name)
            parts[name] = self._hidden(part) if name in PRIVATE_FIELDS else part if type(part) in _PLAIN else self.value(part)
        return parts

    def _hidden(self, value: Any) -> Json:
        if isinstance(value, str):
            return {_KIND: "Hidden", "of": self._digest.of(value)}
        return None if value is None else list(map(self._hidden, value))

    def _all(self, values: Iterable[Any]) -> list[Json]:
        return [each if (kind := type(each)) in _PLAIN else self._all(each) if kind is tuple else self.value(each) for each in values]

    def _dict(self, value: dict[Any, Any]) -> Json:
        if all(type(key) is str for key in value) and _KIND not in value:
            return dict(zip(value, self._all(value.values()), strict=True))
        return {_KIND: "dict", "of": self._all(value.items())}

    def _fold(self, fold: Fold) -> dict[str, Json]:
        number = self._folds.get(id(fold))
        if number is not None:
            return {"number": number}
        number = self._folds[id(fold)] = len(self._folds)
        return {"number": number} | {name: self.value(getattr(fold, name)) for name in Fold.__slots__}


class Thawer:
    """Puts a state back into a new object. What raises ValueError, TypeError, KeyError or AttributeError is none of ours."""

    def __init__(self) -> None:
        self._folds: dict[int, Fold] = {}

    def restore(self, into: Stateful, state: dict[str, Json]) -> None:
        """Set the attributes that the state has; objects and collections are filled, as others may hold them."""
        for name in into.STATE:
            if name in state:
                self._set(into, name, state[name])

    def _set(self, into: Stateful, name: str, saved: Json) -> None:
        now = getattr(into, name)
        if hasattr(type(now), "STATE"):
            self.restore(now, saved)
            return
        if isinstance(now, defaultdict):
            now = now.copy()
            now.clear()
            for key, each in saved.items():
                self.restore(now[key], each)
            setattr(into, name, now)
            return
        value = self.value(saved)
        if isinstance(now, dict | set) and not isinstance(getattr(type(into), name, None), property):
            now.clear()
            now.update(value)
        else:
            setattr(into, name, value)

    def value(self, saved: Json) -> Any:
        """What `Freezer.value` was given."""
        if type(saved) is list:
            return tuple(map(self.value, saved))
        if type(saved) is not dict:
            return saved
        kind = saved.get(_KIND)
        if kind is None:
            return {key: self.value(each) for key, each in saved.items()}
        return self._object(kind, {key: each for key, each in saved.items() if key != _KIND})

    def _object(self, kind: str, saved: dict[str, Json]) -> Any:
        if kind == "Fold":
            return self._fold(**saved)
        parts = {key: self.value(each) for key, each in saved.items()}
        if kind in _COLLECTIONS:
            return _COLLECTIONS[kind](parts["of"])
        if kind == "deque":
            return deque(parts["of"], maxlen=parts["most"])
        return _CLASSES[kind](**parts)

    def _fold(self, number: int, **saved: Json) -> Fold:
        fold = self._folds.get(number)
        if fold is None:
            fold = self._folds[number] = Fold(saved["time"])
            for name in Fold.__slots__:
                setattr(fold, name, self.value(saved[name]))
        return fold
