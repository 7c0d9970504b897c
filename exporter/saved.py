"""Saved logs through the live pipeline, from the first byte to the last."""

import io
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from exporter.exposition import SourceSnapshot
from exporter.source import Source
from exporter.source_names import STDIN
from parsers.matching import Found

CHUNK_BYTES = 256 * 1024


def open_source(path: str, name: str, **settings: Any) -> Source:
    """A source for a file, with settings of `Source`. Most headers print no year: the file's last change tells. Raises OSError."""
    written = time.gmtime(time.time() if path == STDIN else Path(path).stat().st_mtime)
    return Source(name, year=written.tm_year, month=written.tm_mon, **settings)


def read(path: str, source: Source) -> Iterator[list[Found]]:
    """Feed a file, or standard input for `-`, to the source. Raises OSError when it cannot be read."""
    with nullcontext(sys.stdin.buffer) if path == STDIN else io.FileIO(path) as log:
        read_some = getattr(log, "read1", log.read)  # what is there, not a full buffer
        while data := read_some(CHUNK_BYTES):
            yield source.feed(data)
    yield source.end_of_file()


def snapshots(source: Source) -> list[SourceSnapshot]:
    """The samples of a log that was read to its end; nothing expires."""
    return source.snapshots(None)
