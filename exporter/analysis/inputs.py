"""Saved logs as bytes: plain, compressed with gzip or Zstandard, or standard input."""

import gzip
import io
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from exporter.source_names import STDIN, name_of

CHUNK_BYTES = 32 * 1024
"""Answers are counted once a piece: they have the time of its last line."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZSTD_BYTES = 2048  # what these unpack to is held at once: of an evil file some megabytes
_SUFFIXES = {".gz", ".zst"}

Tick = Callable[[int], None]
"""Told how many more bytes were read from the disk."""


class Written(NamedTuple):
    """When the last line was, where the lines print no year; `guessed` from the file's last change."""

    year: int
    month: int
    guessed: bool


@dataclass(frozen=True)
class SavedLog:
    """A file that was named, and what it is called in a report."""

    path: str
    name: str
    size: int | None
    changed: float | None
    """When the file was changed last (epoch)."""
    written: Written


def saved_logs(paths: list[str], year: int | None = None) -> list[SavedLog]:
    """The files by name. Raises OSError for one that is not there."""
    taken: set[str] = set()
    return [_saved_log(path, taken, year) for path in paths]


def _saved_log(path: str, taken: set[str], year: int | None) -> SavedLog:
    plain = Path(path)
    name = name_of(str(plain.with_suffix("")) if plain.suffix in _SUFFIXES else path, taken)
    stat = None if path == STDIN else plain.stat()
    changed = time.gmtime(stat.st_mtime if stat else time.time())
    written = Written(changed.tm_year, changed.tm_mon, guessed=True) if year is None else Written(year, 12, guessed=False)
    return SavedLog(path, name, stat.st_size if stat else None, stat.st_mtime if stat else None, written)


class DamagedError(Exception):
    """A compressed file ends too early or is broken; what came before was read."""


def chunks(log: SavedLog, tick: Tick = lambda read: None) -> Iterator[bytes]:
    """The log's bytes without compression. Raises OSError and DamagedError."""
    with _opened(log.path) as raw:
        stream = io.BufferedReader(_Counted(raw, tick), CHUNK_BYTES)
        start = stream.peek(len(_ZSTD))
        if start.startswith(_ZSTD):
            yield from _from_zstd(stream)
        elif start.startswith(_GZIP):
            yield from _from_gzip(stream)
        else:
            while data := stream.read1(CHUNK_BYTES):  # what is there, not a full buffer
                yield data


def _from_gzip(stream: io.BufferedIOBase) -> Iterator[bytes]:
    unpacked = gzip.GzipFile(fileobj=stream)
    try:
        while data := unpacked.read1(CHUNK_BYTES):
            yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(str(error)) from error


def _from_zstd(stream: io.BufferedIOBase) -> Iterator[bytes]:
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
        raise DamagedError(str(error)) from error
    if frame:
        raise DamagedError("Zstandard frame ends too early")


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
    else:
        with Path(path).open("rb") as file:
            yield file


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
