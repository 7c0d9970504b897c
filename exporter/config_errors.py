"""Faults in the configuration, told in one line."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pydantic_core import ErrorDetails

from exporter.source_names import STDIN

MAX_BYTES = 1 << 20
MAX_SHOWN = 64

Location = tuple[str | int, ...]

EXPECTED = {
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
}


class ConfigError(Exception):
    """A fault in the configuration, told in one line that never quotes a possible secret."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message))


class Place(NamedTuple):
    """A position in a file, counted from 1."""

    line: int = 1
    column: int = 1


START = Place()


class Fault(NamedTuple):
    """What is wrong at one location of the configuration."""

    location: Location
    message: str
    on_key: bool = False
    place: Place | None = None

    def __str__(self) -> str:
        name = dotted(self.location)
        if self.on_key:
            return f"key '{name}': {self.message}"
        return f"{name}: {self.message}" if name else self.message


def cut(text: str) -> str:
    """Shorten text that is to be shown."""
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def dotted(location: Location) -> str:
    """Write a location as `sources[0].pd_role`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in location)
    return "".join(parts).removeprefix(".")


def did_you_mean(text: str, valid: Iterable[str]) -> str:
    """Name the valid word nearest to a wrong one, if there is a near one."""
    by_lower = {each.lower(): each for each in valid}
    near = difflib.get_close_matches(text[:MAX_SHOWN].lower(), list(by_lower), n=1)
    return f"; did you mean '{by_lower[near[0]]}'?" if near else ""


def fault_of(error: ErrorDetails, keys: Iterable[str]) -> Fault:
    """Tell pydantic's finding in our words, for it would quote the value; `keys` are valid in this place."""
    location, kind, value = error["loc"], error["type"], error["input"]
    on_key = location[-1:] == ("[key]",)
    if on_key:
        location = location[:-1]
    if kind == "extra_forbidden":
        return Fault(location, "unknown key" + did_you_mean(str(location[-1]), keys), on_key=True)
    if kind == "literal_error":
        choices = re.findall(r"'(\w+)'", error["ctx"]["expected"])
        wrong = f"'{cut(value)}'" if isinstance(value, str) else _kind(value)
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        return Fault(location, f"{wrong} is not one of {', '.join(choices)}{near}")
    if kind in EXPECTED:
        return Fault(location, f"expected {EXPECTED[kind]}, not {_kind(value)}")
    return Fault(location, str(error.get("ctx", {}).get("error", "not valid")), on_key)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
    return "a mapping"


def as_written(location: Location, sources: object) -> Location:
    """Point to `path` where it was read as `paths[0]`."""
    match location:
        case ("sources", int(index), "paths", 0) if isinstance(sources, list) and sources[index].get("path") is not None:
            return ("sources", index, "path")
    return location


def faults_across(sources: list[object]) -> Iterator[Fault]:
    """Find what one key alone does not show, in data that has not been validated."""
    names: set[str] = set()
    paths: set[str] = set()
    for index, source in enumerate(sources):
        if not isinstance(source, dict):
            continue
        at = ("sources", index)
        if source.get("path") is not None and source.get("paths") is not None:
            yield Fault((*at, "paths"), "give 'path' or 'paths', not both")
        if source.get("engine_metrics_token_file") is not None and source.get("engine_metrics_url") is None:
            yield Fault((*at, "engine_metrics_token_file"), "needs engine_metrics_url")
        name = source.get("name")
        if isinstance(name, str):
            if name in names:
                yield Fault((*at, "name"), "another source has this name")
            names.add(name)
        for number, path in enumerate(paths_of(source)):
            if not isinstance(path, str):
                continue
            if path in paths:
                what = "standard input" if path == STDIN else "this log"
                yield Fault(as_written((*at, "paths", number), sources), f"{what} is read already")
            paths.add(path)


def paths_of(source: Mapping[str, object]) -> list[object]:
    """List the paths of one source, whichever way they are written."""
    path, paths = source.get("path"), source.get("paths")
    if path is not None:
        return [path]
    return list(paths) if isinstance(paths, list | tuple) else []
