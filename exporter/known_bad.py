"""Known-bad combinations of engine, version, model and settings: the data file `known_bad.toml` beside this module."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Combination:
    """One entry. `effect`, `confidence` and `address` are for people."""

    id: str
    runtime: str
    effect: str
    confidence: str
    address: str
    version_before: str = ""
    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def holds(self, runtime: str, version: Version | None, settings: Mapping[str, str]) -> bool:
        """Whether a log that tells these settings shows the combination; never when it cannot be seen in a log."""
        if not self.settings or runtime != self.runtime:
            return False
        if self.version_before and (version is None or version >= (version_of(self.version_before) or version)):
            return False
        model = f"{settings.get('model', '')} {settings.get('model_path', '')}"
        if self.model and not re.search(self.model, model, re.IGNORECASE):
            return False
        return all(settings.get(key) == value for key, value in self.settings.items())


@cache
def combinations() -> tuple[Combination, ...]:
    """All entries of the data file."""
    text = (resources.files("exporter") / "known_bad.toml").read_text(encoding="utf-8")
    return tuple(Combination(**entry) for entry in tomllib.loads(text)["combination"])


@lru_cache(maxsize=64)
def version_of(text: str) -> Version | None:
    """Major and minor of a version, None when the text is none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def matches(runtime: str, settings: Mapping[str, str]) -> Iterator[str]:
    """The ids of the combinations that hold."""
    version = version_of(settings.get("version", ""))
    return (each.id for each in combinations() if each.holds(runtime, version, settings))
