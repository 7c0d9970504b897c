"""Saved logs as bytes: plain, compressed with gzip or Zstandard, or standard input."""

import gzip
import io
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from exporter.analysis.rotated import Pieces, pieces, unpacked
from exporter.source_names import STDIN, name_of
from parsers.log import Log

CHUNK_BYTES = 32 * 1024
"""Answers are counted once a piece: they have the time of its last line."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZSTD_BYTES = 2048  # what these unpack to is held at once: of an evil file some megabytes

Tick = Callable[[int], None]
"""Told how many more bytes were read from the disk."""


class Written(NamedTuple):
    """When the last line was, where the lines print no year; `guessed` from the file's last change."""

    year: int
    month: int
    guessed: bool


@dataclass(frozen=True)
class SavedLog:
    """A log that was named, in one file or in the pieces that its rotation made, and what it is called in a report."""

    pieces: tuple[str, ...]
    """Its files, oldest first."""
    order: str
    """What told their order, in words; empty where there is one."""
    name: str
    size: int | None
    changed: float | None
    """When the last file was changed last (epoch)."""
    written: Written

    @property
    def path(self) -> str:
        """The newest file."""
        return self.pieces[-1]

    @property
    def told(self) -> str:
        """That several files are read as one log, in words; empty where it is one file."""
        return f"read as one rotated log, oldest first by {self.order}: {', '.join(self.pieces)}" if len(self.pieces) > 1 else ""


def saved_logs(paths: Sequence[str], year: int | None = None) -> list[SavedLog]:
    """The logs by name; pieces of a rotated one are one. Raises OSError for a file that is not there."""
    taken: set[str] = set()
    for path in paths:
        if path != STDIN:
            Path(path).stat()

    def first_time(path: str) -> float | None:
        return _first_time(path, _written(Path(path).stat().st_mtime, year))

    return [_saved_log(each, taken, year) for each in pieces(paths, first_time)]


def _saved_log(found: Pieces, taken: set[str], year: int | None) -> SavedLog:
    name = name_of(unpacked(found.log), taken)
    if STDIN in found.paths:
        return SavedLog(found.paths, found.order, name, None, None, _written(time.time(), year))
    changed = Path(found.paths[-1]).stat().st_mtime
    size = sum(Path(path).stat().st_size for path in found.paths)
    return SavedLog(found.paths, found.order, name, size, changed, _written(changed, year))


def _written(changed: float, year: int | None) -> Written:
    if year is not None:
        return Written(year, 12, guessed=False)
    day = time.gmtime(changed)
    return Written(day.tm_year, day.tm_mon, guessed=True)


def _first_time(path: str, written: Written) -> float | None:
    """A time that a file prints near its beginning, None where it prints none."""
    log = Log(written.year, written.month)
    try:
        for data in chunks(path):
            log.feed(data)
            if log.last_time is not None:
                break
    except DamagedError:
        pass  # what came before may have told one
    return log.last_time


def shown(path: str) -> str:
    """A path as text, also where the bytes of its name are none."""
    return os.fsencode(path).decode(errors="replace")


class DamagedError(Exception):
    """A compressed file ends too early or is broken; what came before was read."""

    def __init__(self, path: str, why: object) -> None:
        super().__init__(f"{path}: damaged, the rest could not be read ({why})")
        self.why = str(why)


def chunks(path: str, tick: Tick = lambda read: None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """A file's bytes without compression, or those of standard input. Raises OSError and DamagedError."""
    with _opened(path) as raw:
        stream = io.BufferedReader(_Counted(raw, tick), size)
        start = stream.peek(len(_ZSTD))
        if start.startswith(_ZSTD):
            yield from _from_zstd(path, stream)
        elif start.startswith(_GZIP):
            yield from _from_gzip(path, stream, size)
        else:
            while data := stream.read1(size):  # what is there, not a full buffer
                yield data


def lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Line by line, so that what is counted is counted at its time; a line without end comes in pieces."""
    for block in blocks:
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            yield block[start : end + 1]
            start = end + 1
        if start < len(block):
            yield block[start:]


def _from_gzip(path: str, stream: io.BufferedIOBase, size: int) -> Iterator[bytes]:
    unpacked = gzip.GzipFile(fileobj=stream)
    try:
        while data := unpacked.read1(size):
            yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(path, error) from error


def _from_zstd(path: str, stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Frame after frame; of a stream reader nothing would tell whether the last one is whole."""
    from zstandard import ZstdDecompressor, ZstdError

    frame = None
    try:
        while packed := stream.read1(_ZSTD_BYTES):
            while packed:
                frame = frame or ZstdDecompressor().decompressobj()
                if data := frame.decompress(packed):
                    yield data
                packed = frame.unused_data
                frame = None if frame.eof else frame
    except ZstdError as error:
        raise DamagedError(path, error) from error
    if frame:
        raise DamagedError(path, "Zstandard frame ends too early")


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
        try:
            yield file
        except OSError as error:
            error.filename = "standard input" if path == STDIN else path  # a read tells no name
            raise


class _Counted(io.RawIOBase):
    """Tells how far the compressed bytes are read."""

    def __init__(self, raw: BinaryIO, tick: Tick) -> None:
        super().__init__()
        self._raw, self._tick = raw, tick

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        read_some = getattr(self._raw, "read1", self._raw.read)
        data = read_some(len(buffer))
        buffer[: len(data)] = data
        self._tick(len(data))
        return len(data)
