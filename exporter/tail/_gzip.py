"""A rotated log that was compressed: read as a stream, never inflated whole."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING, Final

from exporter.tail._bookmark import REMEMBERED_BYTES
from exporter.tail._files import REAL, Files
from exporter.tail._log_file import LogFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIX: Final = ".gz"
_MAGIC: Final = b"\x1f\x8b"
_BROKEN: Final = (EOFError, zlib.error, gzip.BadGzipFile)


class _Raw(io.RawIOBase):
    """The compressed bytes, through the boundary."""

    def __init__(self, source: LogFile) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset
        return offset

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._source.files.pread(self._source.fd, len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


class GzipLogFile(LogFile):
    """What a compressed file holds; sizes and offsets are those of the text. A broken one ends where it breaks."""

    def __init__(self, path: str, files: Files = REAL) -> None:
        super().__init__(path, files)
        self.final = True
        try:
            self._packed_bytes = self.size
            magic = files.pread(self.fd, len(_MAGIC), 0)
            # The trailer's size is modulo 4 GiB and of the last member only, so it serves for figures and no more.
            trailer = files.pread(self.fd, 4, max(0, self._packed_bytes - 4))
            self.size = self.seen = int.from_bytes(trailer, "little") if magic == _MAGIC else 0
        except OSError:
            self.close()
            raise
        self._stream = gzip.GzipFile(fileobj=io.BufferedReader(_Raw(self)), mode="rb")

    def refresh(self) -> None:
        """Nothing: nobody appends to it."""

    def grown(self) -> int:
        """The size of the text, as far as that is known."""
        return self.size

    def peek(self, start: int, length: int) -> bytes:
        """Some bytes of the text; a jump backwards inflates from the start again."""
        try:
            if length == 0 or self._stream.seek(start) != start:
                return b""
            return self._stream.read(length)
        except _BROKEN:
            # What would be the trailer is anything. Something is lost, but no more than this is known of it.
            self.size = self.seen = min(self.size, self.offset + self._packed_bytes)
            return b""

    def read(self, limit: int) -> bytes:
        """The next bytes of the text, none at its end."""
        fresh = self.peek(self.offset, limit)
        if fresh:
            self._advance(fresh, (self.tail + fresh)[-REMEMBERED_BYTES:])
            self.size = self.seen = max(self.size, self.offset)
        return fresh
