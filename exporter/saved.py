"""Saved logs through the live pipeline, from the first byte to the last."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from exporter.analysis.inputs import DamagedError, SavedLog, chunks
from exporter.exposition import SourceSnapshot
from exporter.source import Source
from exporter.source_names import STDIN
from parsers.matching import Found

CHUNK_BYTES = 256 * 1024


def open_source(path: str, name: str, **settings: Any) -> Source:
    """A source for a file, with settings of `Source`. Most headers print no year: the file's last change tells. Raises OSError."""
    written = time.gmtime(time.time() if path == STDIN else Path(path).stat().st_mtime)
    return Source(name, year=written.tm_year, month=written.tm_mon, **settings)


def source_of(log: SavedLog, **settings: Any) -> Source:
    """A source for a log, or for the pieces of a rotated one."""
    return Source(log.name, year=log.written.year, month=log.written.month, **settings)


def read(path: str, source: Source) -> Iterator[list[Found]]:
    """Feed a file, packed or not, or standard input for `-`, to the source. Raises OSError when it cannot be read, and DamagedError."""
    damage = None
    try:
        for data in chunks(path, size=CHUNK_BYTES):
            yield source.feed(data)
    except DamagedError as error:
        damage = error
    yield source.end_of_file()
    if damage:
        raise damage


def read_all(log: SavedLog, source: Source, damaged: Callable[[str], None]) -> Iterator[list[Found]]:
    """The same with all pieces of a log; `damaged` is told of those that end too early."""
    for path in log.pieces:
        try:
            yield from read(path, source)
        except DamagedError as error:
            damaged(str(error))


def snapshots(source: Source) -> list[SourceSnapshot]:
    """The samples of a log that was read to its end; nothing expires."""
    return source.snapshots(None)
