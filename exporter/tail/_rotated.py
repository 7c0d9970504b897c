"""The names that a rotation gives: of which log a file is a generation, and the how-manieth."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from exporter.tail._gzip import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

ROTATED: Final = re.compile(r"[.-](\d[\dTZ:._+-]*)")
"""What a rotation appends: ".1", "-20260731", ".20260731-120000", ".2026-07-31T12:00:00Z"; so never .zst, .tmp."""

_BEGINS: Final = re.compile(r"[.-]\d")
_LOG_ENDING: Final = re.compile(r"\.(?:log|out|err|txt|json|jsonl)")
_LONGEST_GENERATION: Final = 6


def is_rotated(name: str, log_name: str) -> bool:
    """Whether a file name is that of a rotated, uncompressed generation of the log."""
    return name.startswith(log_name) and ROTATED.fullmatch(name, len(log_name)) is not None


def rotated_from(name: str) -> Iterator[tuple[str, str]]:
    """The logs whose generation a file name may be, each with what the rotation then appended."""
    for found in _BEGINS.finditer(name):
        at = found.start()
        if at and ROTATED.fullmatch(name, at):
            yield name[:at], name[at:]


def ends_like_a_log(name: str) -> bool:
    """Whether a name has an ending that logs have: then a number behind it is a rotation's."""
    return _LOG_ENDING.fullmatch(os.path.splitext(name)[1]) is not None


def generation(path: str) -> int | None:
    """The number of a generation, None where it has a date or none."""
    digits = path.removesuffix(SUFFIX).rpartition(".")[2]
    return int(digits) if digits.isdecimal() and len(digits) <= _LONGEST_GENERATION else None
