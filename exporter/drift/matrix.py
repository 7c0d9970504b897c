"""The compatibility page: signal by version, each cell filled by parsing what that release prints."""

from collections.abc import Iterator
from typing import NamedTuple

from exporter.drift.cells import Printed, parses
from exporter.drift.facts import Facts, version_key
from exporter.drift.signals import BUILT, SIGNALS, Signal, of_package
from exporter.drift.silences import Silence, silence

TITLES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "nixl": "NIXL",
    "uvicorn": "uvicorn",
    "tilelang": "TileLang",
    "triton": "Triton",
    "flashinfer": "FlashInfer",
}


class Cell(NamedTuple):
    """One signal in one release."""

    signal: Signal
    version: str
    forms: tuple[Printed, ...]
    """Every way in which the release prints it."""
    unread: tuple[Printed, ...]
    """Those that our parser makes nothing of."""
    silence: Silence | None

    @property
    def is_hole(self) -> bool:
        """Whether it is neither filled nor explained."""
        return bool(self.unread or not self.forms) and self.silence is None

    def __str__(self) -> str:
        if not self.forms:
            return "–"
        if self.unread:
            return f"{len(self.forms) - len(self.unread)} of {len(self.forms)}"
        return "in the library" if BUILT in self.signal.levels else "yes"


def cells(facts: Facts, package: str) -> Iterator[list[Cell]]:
    """The rows of an engine or a library, with its versions in their order."""
    versions = facts.releases[package]
    for signal in of_package(package):
        row = []
        for version in sorted(versions, key=version_key):
            printed = sorted(versions[version])
            forms = tuple(each for each in printed if signal.prints(*each))
            unread = tuple(each for each in forms if not parses(signal, each, printed))
            row.append(Cell(signal, version, forms, unread, silence(package, signal.name, version)))
        yield row


def page(facts: Facts) -> Iterator[str]:
    """The tables, and the reasons for what is empty."""
    reasons: list[str] = []
    for package in dict.fromkeys(signal.package for signal in SIGNALS):
        rows = list(cells(facts, package))
        versions = [cell.version for cell in rows[0]]
        yield f"## {TITLES[package]}"
        yield ""
        yield f"| signal | {' | '.join(versions)} |"
        yield f"|---|{'---|' * len(versions)}"
        for row in rows:
            yield f"| {row[0].signal.title} | {' | '.join(_shown(cell, reasons) for cell in row)} |"
        yield ""
    yield "## Why cells are empty"
    yield ""
    for number, reason in enumerate(reasons, 1):
        yield f"{number}. {reason}"
    yield ""


def _shown(cell: Cell, reasons: list[str]) -> str:
    if cell.silence is None or (cell.forms and not cell.unread):
        return str(cell)
    if cell.silence.reason not in reasons:
        reasons.append(cell.silence.reason)
    return f"{cell} ({reasons.index(cell.silence.reason) + 1})"
