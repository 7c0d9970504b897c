"""The configuration file as plain data that remembers its lines.

Whoever reads one imports this when he does: a daemon without such files saves the 0.8 MiB that YAML takes.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from exporter.config_errors import MAX_BYTES, START, ConfigError, Fault, Location, Place

MAX_VALUES = 20_000
"""Aliases make a small file expand without end: values are counted after expansion."""
MAX_DEPTH = 20

NULL_TAG = "tag:yaml.org,2002:null"
PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq")
)


class Document:
    """A YAML file as mappings, lists, None and text: every scalar is the text that stands there.

    No setting is a number or a boolean, so `timezone: +08:00` (480 for YAML) and `replica: 007` mean what they say.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self._keys: dict[Location, Place] = {}
        self._values: dict[Location, Place] = {}
        self.data: dict[str, object] = {}
        root = self._compose(self._read())
        if root is None:
            raise self._error("the file is empty")
        if not isinstance(root, yaml.MappingNode):
            raise self._error("the top level is not a mapping of keys", _place(root.start_mark))
        data = self._value(root, ())
        assert isinstance(data, dict)
        self.data = data

    def first_error(self, faults: Iterable[Fault]) -> ConfigError:
        """Make the error for the fault that stands first in the file."""
        place, text = min((self._place_of(fault), str(fault)) for fault in faults)
        return self._error(text, place)

    def _place_of(self, fault: Fault) -> Place:
        if fault.place is not None:
            return fault.place
        location = fault.location
        if fault.on_key and location in self._keys:
            return self._keys[location]
        while location not in self._values:  # a missing key has no place: take that of its mapping
            location = location[:-1]
        return self._values[location]

    def _error(self, text: str, place: Place = START) -> ConfigError:
        return ConfigError(f"{self.path}:{place.line}:{place.column}: {text}")

    def _read(self) -> str:
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise self._error(f"cannot read the file: {error.strerror or type(error).__name__}") from None
        except ValueError:  # a NUL in the path
            raise self._error("cannot read the file: not a valid path") from None
        if len(data) > MAX_BYTES:
            raise self._error("the file is larger than 1 MiB")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error("the file is not UTF-8", Place(data.count(b"\n", 0, error.start) + 1)) from None

    def _compose(self, text: str) -> yaml.Node | None:
        loader = None
        try:
            loader = yaml.SafeLoader(text)
            return loader.get_single_node()
        except yaml.reader.ReaderError as error:
            place = Place(text.count("\n", 0, error.position) + 1)
            raise self._error("not valid YAML: a control character", place) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            # The name of an alias may be an unquoted password that begins with "*".
            problem = re.sub(r"\b(alias|anchor|handle) .*", r"\1", error.problem or "", flags=re.DOTALL)
            raise self._error(f"not valid YAML: {problem}", _place(mark) if mark else START) from None
        except RecursionError:
            raise self._error("nested too deeply") from None
        except (ValueError, OverflowError):  # PyYAML on "\UFFFFFFFF" and on a directive with a huge number
            place = _place(loader.get_mark()) if loader else START
            raise self._error("not valid YAML: a number out of range", place) from None

    def _value(self, node: yaml.Node, location: Location) -> object:
        place = self._values[location] = _place(node.start_mark)
        if len(self._values) > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES} values, aliases expanded", place)
        if len(location) > MAX_DEPTH:
            raise self._error("nested too deeply", place)
        if node.tag not in PLAIN_TAGS:
            self.faults.append(Fault(location, "YAML tags are not supported", place=place))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*location, index)) for index, item in enumerate(node.value)]
        return None if node.tag == NULL_TAG else self._text(node, location)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(location, "a key is not a plain text", place=place))
                continue
            key = self._text(key_node, location)
            key_location = (*location, key)
            if key in mapping:
                first = self._keys[key_location].line
                self.faults.append(Fault(key_location, f"duplicate key; first on line {first}", on_key=True, place=place))
                continue
            self._keys[key_location] = place
            mapping[key] = self._value(value_node, key_location)
        return mapping

    def _text(self, node: yaml.Node, location: Location) -> str:
        text = str(node.value)
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate, written as "\ud800"
            self.faults.append(Fault(location, "the text is not valid Unicode", place=_place(node.start_mark)))
            return text.encode(errors="backslashreplace").decode()
        return text


def _place(mark: yaml.Mark) -> Place:
    return Place(mark.line + 1, mark.column + 1)
