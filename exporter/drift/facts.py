"""What releases print of our signals: a compact data file, one format string with the releases that have it."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from exporter.drift.cells import Printed
from exporter.drift.native_source import strings as native_strings
from exporter.drift.python_source import KEYS, calls_of
from exporter.drift.release import BINARY, Release
from exporter.drift.said import SAID, WATCHED, said
from exporter.drift.shapes import readable, written
from exporter.drift.signals import BUILT, of_package, package_of

_KEYS_OF_INTEREST = re.compile("num.successful.transfers=", re.IGNORECASE)
_TALK_ABOUT_MODELS = re.compile(r"/(?:models|kernels|tool_parsers|function_call|reasoning|transformers_utils|parser|multimodal_gen|ops)/")
"""Half of an engine's sources, which print none of our signals."""


@dataclass
class Facts:
    """Format strings by package and version."""

    releases: dict[str, dict[str, set[Printed]]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, release: Release) -> None:
        """Take a release in; what was known of it is replaced."""
        package = package_of(release.name)
        found = set(relevant(release))
        if package in WATCHED:
            found.update(said(release, self.watched(package)))
        self.releases[package][release.version] = found

    def watched(self, package: str) -> set[str]:
        """The source files in which any release so far prints one of our lines at INFO."""
        return {level.removeprefix(SAID) for printed in self.releases[package].values() for level, _ in printed if level.startswith(SAID)}

    def dump(self, path: Path) -> None:
        """Write the data file, in an order that keeps differences small."""
        packages = []
        for package, versions in sorted(self.releases.items()):
            order = sorted(versions, key=version_key)
            held: dict[Printed, list[int]] = defaultdict(list)
            for at, version in enumerate(order):
                for printed in versions[version]:
                    held[printed].append(at)
            rows = ",\n".join(
                f"   {json.dumps([level, shape, ranges(held[level, shape])], ensure_ascii=False)}" for level, shape in sorted(held)
            )
            packages.append(f' "{package}": {{\n  "versions": {json.dumps(order)},\n  "shapes": [\n{rows}\n  ]\n }}')
        path.write_text("{\n" + ",\n".join(packages) + "\n}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Facts":
        """Read the data file."""
        facts = cls()
        for package, content in json.loads(path.read_text("utf-8")).items():
            versions = content["versions"]
            facts.releases[package] = {version: set() for version in versions}
            for level, shape, held in content["shapes"]:
                for first, last in held:
                    for version in versions[first : last + 1]:
                        facts.releases[package][version].add((level, shape))
        return facts


def relevant(release: Release) -> Iterator[Printed]:
    """The format strings of a release that belong to a signal."""
    signals = of_package(package_of(release.name))
    if any(BUILT in signal.levels for signal in signals):
        for member in release.members(BINARY):
            for text in native_strings(member.data):
                if any(signal.prints(BUILT, text) for signal in signals):
                    yield BUILT, readable(text)
    for path, found in calls_of(release).items():
        if _TALK_ABOUT_MODELS.search(path):
            continue
        for call in found:
            shape = written(call.shape)
            if call.level == KEYS:
                if _KEYS_OF_INTEREST.match(shape):
                    yield KEYS, shape
            elif any(signal.prints(call.level, shape) for signal in signals):
                yield call.level, shape


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Runs of neighbouring numbers, as pairs of the first and the last."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Orders versions as their numbers."""
    parts = version.replace("+", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1 if part.startswith(("rc", "dev", "a", "b")) else 0, part) for part in parts)
