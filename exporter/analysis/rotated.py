"""The pieces of a rotated log among files that were named, in the order in which they were written."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.source_names import STDIN
from exporter.tail import ends_like_a_log, generation, rotated_from

PACKED = frozenset({".gz", ".zst"})
_HALF_A_YEAR = 183 * 86_400.0
_DATE = re.compile(r"[.-](?:19|20)\d\d[.-]?[01]\d[.-]?[0-3]\d")
"""Eight other digits are the number of a job."""


class Pieces(NamedTuple):
    """Files of one log, oldest first; a log that was not rotated is one."""

    log: str
    """The path of the log itself, which need not be one of them."""
    paths: tuple[str, ...]
    order: str
    """What told the order, in words; empty for a single file."""


def pieces(paths: Sequence[str], first_time: Callable[[str], float | None]) -> list[Pieces]:
    """The logs that files are of. Those of one are put in order by `first_time`, which looks into a file, else by their names."""
    named = {_plain(path) for path in paths if path != STDIN}
    logs: dict[str, list[str]] = {}
    for path in paths:
        logs.setdefault(path if path == STDIN else str(_log_of(_plain(path), named)), []).append(path)
    found: list[Pieces] = []
    for log, each in logs.items():
        if len(set(map(_plain, each))) < len(each):
            found += (Pieces(path, (path,), "") for path in each)  # the same twice is no rotation
        elif len(each) == 1:
            found.append(Pieces(log, tuple(each), ""))
        else:
            found.append(_in_order(Path(log), each, first_time))
    return found


def unpacked(path: str) -> str:
    """A path without the ending of what it is packed in."""
    return str(Path(path).with_suffix("")) if Path(path).suffix in PACKED else path


def _plain(path: str) -> Path:
    return Path(unpacked(path)).absolute()


def _log_of(path: Path, named: Collection[Path]) -> Path:
    """The log that a path is of. Where it was not named, only a usual name or a date tells: engine-0 beside engine-1 are two engines.

    A date may stand before the ending, as in engine-20260731.log; a number there is an engine's.
    """
    for log, suffix in rotated_from(path.name):
        whole = path.with_name(log)
        if whole in named or ends_like_a_log(log) or _DATE.match(suffix):
            return whole
    if ends_like_a_log(path.name):
        for log, suffix in rotated_from(path.stem):
            if _DATE.match(suffix):
                return path.with_name(log + path.suffix)
    return path


def _in_order(log: Path, paths: list[str], first_time: Callable[[str], float | None]) -> Pieces:
    by_name = sorted(paths, key=lambda path: _place(log, _plain(path)))
    times = {path: time for path in by_name if (time := first_time(path)) is not None}
    # Most times have no year: what is farther apart than half a one may be so the other way round.
    if len(times) < len(paths) or max(times.values()) - min(times.values()) > _HALF_A_YEAR:
        return Pieces(str(log), tuple(by_name), "their names")
    return Pieces(str(log), tuple(sorted(by_name, key=times.__getitem__)), "the times of their lines")


def _place(log: Path, path: Path) -> tuple[bool, int, str]:
    """Where a name puts a piece: dates run up, numbers down to the log itself."""
    return path == log, -(generation(path.name) or 0), path.name
