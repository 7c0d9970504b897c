"""The pinned list and the list of licences name what is installed with inferlog."""

import re
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
_PERMISSIVE = re.compile(r"MIT|BSD|Apache|PSF|ISC|MPL")


def needed(name: str) -> set[str]:
    """All that a package brings with it."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in requires(waiting.pop()) or ():
            requirement = Requirement(text)
            dependency = canonicalize_name(requirement.name)
            if dependency not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(dependency)
                waiting.append(dependency)
    return found


def pinned() -> dict[str, str]:
    """The versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def reviewed() -> dict[str, tuple[str, str]]:
    """Version and licence by package."""
    rows = re.findall(r"^\| ([\w.-]+) +\| (\d\S*) +\| (.+?) +\|$", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    return {canonicalize_name(name): (version, licence) for name, version, licence in rows}


def test_each_dependency_is_pinned() -> None:
    """Also those of dependencies; `make dependencies` after a change."""
    assert needed("inferlog") <= pinned().keys()


def test_each_has_a_licence_that_lets_us_ship_it() -> None:
    """And is the version that is pinned."""
    assert pinned() == {name: version for name, (version, _) in reviewed().items()}
    assert all(_PERMISSIVE.search(licence) for _, licence in reviewed().values())
