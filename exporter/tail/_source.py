"""One open log file: where we are in it, and whether it is still the file that we were reading."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, TypeAlias

Identity: TypeAlias = tuple[int, int]

REMEMBERED_BYTES: Final = 256
"""How much of a file is remembered, at its start and before the offset, to know it again."""


class TruncatedError(Exception):
    """The file no longer holds, before the offset, what was read there."""


def identity(status: os.stat_result) -> Identity:
    """Device and inode: unique among existing files, but an inode number is used again after a deletion."""
    return status.st_dev, status.st_ino


class Source:
    """A log file held by a descriptor, which renames and deletions cannot take away; OSError when it cannot be had."""

    def __init__(self, path: str) -> None:
        # O_NONBLOCK: opening a FIFO that took the log's place must not wait for its writer.
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(self.fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
        except OSError:
            os.close(self.fd)
            raise
        self.path = path
        self.identity = identity(status)
        self.first_mtime_ns = status.st_mtime_ns
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns
        self.offset = 0
        self.head = b""
        self.tail = b""
        self.incarnation = object()
        """Changes with each truncation; a copy of the file shares it."""
        self.final = False
        """Nobody writes to it any more (a copy)."""
        self.copied_to = 0
        """Up to where copies hold what was in it before it was truncated."""
        self.touched = False
        """Its size or times changed since this was last set to False."""

    @property
    def lag_bytes(self) -> int:
        """Bytes not read yet, as of the last refresh()."""
        return max(0, self.size - self.offset)

    def refresh(self) -> None:
        """Take size and times anew; OSError as fstat."""
        status = os.fstat(self.fd)
        self.touched |= (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns)
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns

    def before(self, offset: int, length: int = REMEMBERED_BYTES) -> bytes:
        """The last bytes before an offset, at most `length`; fewer in a shorter file, none when it cannot be read."""
        start = max(0, offset - length)
        try:
            return os.pread(self.fd, offset - start, start)
        except OSError:
            return b""

    def exists(self) -> bool:
        """Whether the file still has a name anywhere."""
        try:
            return os.fstat(self.fd).st_nlink > 0
        except OSError:
            return False

    def seek(self, offset: int) -> None:
        """Go on at an offset and remember what is before it."""
        self.head = self.before(min(offset, REMEMBERED_BYTES))
        self.tail = self.before(offset)
        self.offset = offset

    def was_truncated(self) -> bool:
        """Whether the remembered bytes are no longer there."""
        return self.before(self.offset, len(self.tail)) != self.tail

    def continue_in(self, copy: Source, begin: int) -> None:
        """Make a copy the continuation of what was read from this file."""
        copy.seek(begin)
        copy.incarnation = self.incarnation
        self.copied_to = copy.size

    def restart(self) -> None:
        """Forget what was read: the file begins again."""
        self.offset = self.copied_to = 0
        self.head = self.tail = b""
        self.incarnation = object()

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes from the offset on, none at the end; TruncatedError, or OSError as fstat and pread.

        The remembered bytes are read again by the same call that reads the new ones. So the check costs no system
        call, needs no trust in times (a file system's clock ticks every few ms), and no truncation fits between the
        check and the read.
        """
        behind = len(self.tail)
        data = os.pread(self.fd, behind + limit, self.offset - behind)
        if data[:behind] != self.tail or self.size < self.offset:
            raise TruncatedError
        fresh = data[behind:]
        if fresh:
            if len(self.head) < REMEMBERED_BYTES:
                self.head += fresh[: REMEMBERED_BYTES - len(self.head)]
            self.tail = data[-REMEMBERED_BYTES:]
            self.offset += len(fresh)
        return fresh

    def unread_in_copy(self, copy: Source) -> int | None:
        """Where a copy made before a truncation begins to hold unread bytes; None: not a copy of what we read."""
        if copy.size >= self.offset:
            return self.offset if copy.before(self.offset, len(self.tail)) == self.tail else None
        # Made before our last read: all of it was read. Its end is not remembered, so its start has to do.
        length = min(len(self.head), copy.size)
        return copy.size if copy.before(length) == self.head[:length] else None

    def same_content(self, other: Source) -> bool:
        """Whether one file is, by its first and last bytes, a copy of the other's beginning."""
        length = min(self.size, other.size)
        start = min(length, REMEMBERED_BYTES)
        return length > 0 and self.before(start) == other.before(start) and self.before(length) == other.before(length)

    def close(self) -> None:
        """Give the descriptor back; once only."""
        os.close(self.fd)
