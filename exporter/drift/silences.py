"""Why a cell of the compatibility page is empty: what a release does not print, or prints in a way that tells nothing."""

from typing import NamedTuple

from exporter.drift.compare import numbers


class Silence(NamedTuple):
    """The engine's own silence in the versions from `first` to `last`; `""` is no bound."""

    package: str
    signal: str
    first: str
    last: str
    reason: str


SILENCES: tuple[Silence, ...] = ()


def silence(package: str, signal: str, version: str) -> Silence | None:
    """The reason that holds for a cell."""
    at = numbers(version)
    for each in SILENCES:
        if each.package == package and each.signal == signal:
            last = numbers(each.last)
            if numbers(each.first) <= at and (not last or at[: len(last)] <= last):
                return each
    return None
