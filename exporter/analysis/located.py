"""Places in a rotated log, told as those of its files: who looks a line up has no file in which all of them stand."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from exporter.analysis.report import LogPiece, PlaceInLog

T = TypeVar("T")


def located(part: T, pieces: Sequence[LogPiece]) -> T:
    """A part of a report whose lines count through all pieces, with each place as that of its piece; as it is where there is one."""
    return _located(part, pieces) if len(pieces) > 1 else part


def _located(part: Any, pieces: Sequence[LogPiece]) -> Any:
    if isinstance(part, PlaceInLog):
        return _place(part, pieces)
    if isinstance(part, BaseModel):
        return part.model_copy(update={name: _located(value, pieces) for name, value in part})
    if isinstance(part, (tuple, list)):
        return type(part)(_located(each, pieces) for each in part)
    return part


def _place(place: PlaceInLog, pieces: Sequence[LogPiece]) -> PlaceInLog:
    line = place.line
    for piece in pieces:
        if 0 < line <= piece.lines:
            return PlaceInLog(time=place.time, line=line, file=piece.path)
        line -= piece.lines
    return place
