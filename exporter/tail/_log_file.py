"""One open log file: where we are in it, and whether it is still the file that we were reading."""

from __future__ import annotations

import contextlib
import errno
import stat
from typing import TYPE_CHECKING, Final

from exporter.tail._bookmark import EMPTY, REMEMBERED_BYTES, Bookmark, Fingerprint, Identity
from exporter.tail._files import REAL, Files

if TYPE_CHECKING:
    import os

__all__ = ("REMEMBERED_BYTES", "Identity", "LogFile", "TruncatedError", "identity")

_LONGEST_LOOK_BACK: Final = 1 << 20
_LEAST_ROOM: Final = 32 * 1024


class TruncatedError(Exception):
    """The file no longer holds, before the offset, what was read there."""


def identity(status: os.stat_result) -> Identity:
    """Device and inode: unique among existing files, but an inode number is used again after a deletion."""
    return status.st_dev, status.st_ino


class LogFile:
    """A log file held by a descriptor, which renames and deletions cannot take away; OSError when it cannot be had."""

    def __init__(self, path: str, files: Files = REAL) -> None:
        self.files = files
        self.fd = files.open(path)
        try:
            status = files.fstat(self.fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
        except OSError:
            files.close(self.fd)
            raise
        self.path = path
        self.identity = identity(status)
        self.first_mtime_ns = status.st_mtime_ns
        self.size, self.mtime_ns, self.renamed_ns = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        self.seen, self.seen_mtime_ns = self.size, self.mtime_ns
        """The last ones known to be those of the content that is being read; after a truncation the above are another's."""
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
        self.failures = 0
        """How many reads in a row have failed."""
        self._unread_head = EMPTY

    @property
    def lag_bytes(self) -> int:
        """Bytes not read yet, as of the last refresh()."""
        return max(0, self.size - self.offset)

    @property
    def unread_bytes(self) -> int:
        """What was seen of the content and is neither read nor in a copy."""
        return max(0, self.seen - max(self.offset, self.copied_to))

    @property
    def since_ns(self) -> int:
        """Before when it was not written last, even when the clock was set back meanwhile."""
        return min(self.first_mtime_ns, self.seen_mtime_ns)

    def refresh(self) -> None:
        """Take size and times anew; OSError as fstat."""
        status = self.files.fstat(self.fd)
        self.touched |= (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns)
        self.size, self.mtime_ns, self.renamed_ns = status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def look(self) -> None:
        """Take size and times anew, and see whether they are those of the content that we read; OSError as fstat and pread."""
        self.refresh()
        # The content is looked at after the size: so a size that is too late for it is never taken for its own.
        if self.size > self.seen and not self.was_truncated():
            self._confirm()

    def _confirm(self) -> None:
        self.seen, self.seen_mtime_ns = max(self.size, self.offset), self.mtime_ns

    def peek(self, start: int, length: int) -> bytes:
        """Some bytes, fewer at the end; OSError as pread."""
        return self.files.pread(self.fd, length, start)

    def before(self, offset: int, length: int = REMEMBERED_BYTES) -> bytes:
        """The last bytes before an offset, at most `length`; fewer in a shorter file; OSError as pread."""
        start = max(0, offset - length)
        return self.peek(start, offset - start)

    def exists(self) -> bool:
        """Whether the file still has a name anywhere."""
        try:
            return self.files.fstat(self.fd).st_nlink > 0
        except OSError:
            return False

    def seek(self, offset: int) -> None:
        """Go on at an offset and remember what is before it."""
        self.head, self.tail = self.before(min(offset, REMEMBERED_BYTES)), self.before(offset)
        self.offset = offset

    def was_truncated(self) -> bool:
        """Whether the remembered bytes are no longer there; if they are, remember more of an unread file."""
        if self.offset:
            return self.before(self.offset, len(self.tail)) != self.tail
        first = self.peek(0, REMEMBERED_BYTES)
        if not self._unread_head.matches(first[: self._unread_head.length]):
            return True
        self._unread_head = Fingerprint.of(first)
        return False

    def continue_in(self, copy: LogFile, begin: int) -> None:
        """Make a copy the continuation of what was read from this file."""
        copy.seek(begin)
        if begin == self.offset:  # else it has nothing new, and its bytes before `begin` are not those read last
            copy.incarnation = self.incarnation
        self.copied_to = copy.size

    def restart(self) -> None:
        """Forget what was read: the file begins again."""
        self.offset = self.copied_to = 0
        self.seen = 0
        self.head = self.tail = b""
        self._unread_head = EMPTY
        self.incarnation = object()

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes from the offset on, none at the end; TruncatedError, or OSError as fstat and pread.

        The remembered bytes are read again by the same call that reads the new ones. So the check costs no system
        call, needs no trust in times (a file system's clock ticks every few ms), and no truncation fits between the
        check and the read. An unread file is known by its first bytes, if it had any when it was looked at.
        """
        behind = len(self.tail)
        # Not much more than there is: room for a whole chunk is mapped anew for each look, which finds nothing most times.
        limit = min(limit, max(self.size - self.offset, _LEAST_ROOM))
        first = self._unread_head if not self.offset else EMPTY
        data = self.files.pread(self.fd, max(behind + limit, first.length), self.offset - behind)
        if data[:behind] != self.tail or self.size < self.offset or not first.matches(data[: first.length]):
            raise TruncatedError
        data = data[: behind + limit]
        fresh = data[behind:]
        if fresh:
            self._advance(fresh, data[-REMEMBERED_BYTES:])
        self._confirm()
        return fresh

    def _advance(self, fresh: bytes, tail: bytes) -> None:
        if len(self.head) < REMEMBERED_BYTES:
            self.head += fresh[: REMEMBERED_BYTES - len(self.head)]
        self.tail = tail
        self.offset += len(fresh)

    def unread_in_copy(self, copy: LogFile) -> int | None:
        """Where a copy made before a truncation begins to hold unread bytes; None: not a copy of what we were reading."""
        if not self.offset:
            length = self._unread_head.length
            return 0 if length and self._unread_head.matches(copy.before(length)) else None
        if copy.size >= self.offset:
            return self.offset if copy.before(self.offset, len(self.tail)) == self.tail else None
        # Made before our last read: all of it was read. Its end is not remembered, so its start has to do.
        length = min(len(self.head), copy.size)
        return copy.size if copy.before(length) == self.head[:length] else None

    def still_has(self, copy: LogFile) -> bool:
        """Whether another file is, by its first and last bytes, a copy of this one's beginning."""
        start = min(copy.size, REMEMBERED_BYTES)
        # A shorter file has it not, even if it is what each new file begins with.
        if not 0 < copy.size <= self.grown():
            return False
        return self.before(start) == copy.before(start) and self.before(copy.size) == copy.before(copy.size)

    def grown(self) -> int:
        """Its size by now, which is not taken note of."""
        return self.files.fstat(self.fd).st_size

    def bookmark(self, unfinished: int = 0) -> Bookmark:
        """Where reading ended, not counting the last `unfinished` bytes, which are to be read again."""
        offset = max(0, self.offset - unfinished)
        return Bookmark(
            self.path,
            self.identity,
            offset,
            self.seen,
            self.seen_mtime_ns,
            self.first_mtime_ns,
            Fingerprint.of(self.head[:offset]) if offset else self.remember_start(),
            Fingerprint.of(self._tail_before(offset)),
            self.copied_to,
            self.final,
        )

    def _tail_before(self, offset: int) -> bytes:
        unfinished = self.offset - offset
        if not unfinished:
            return self.tail
        if offset > 0 and unfinished <= _LONGEST_LOOK_BACK and not self.final:
            start = max(0, offset - REMEMBERED_BYTES)
            with contextlib.suppress(OSError):
                data = self.before(self.offset, self.offset - start)
                if data.endswith(self.tail) and len(data) == self.offset - start:
                    return data[: offset - start]
        return self.tail[:-unfinished]  # shorter, perhaps empty: the start of the file has to do

    def remember_start(self) -> Fingerprint:
        """The fingerprint of a file of which nothing was read, by which it is known again when it was compressed."""
        length = min(self.seen, REMEMBERED_BYTES)
        if self._unread_head.length != length:
            with contextlib.suppress(OSError):
                self._unread_head = Fingerprint.of(self.head[:length] or self.before(length))
        return self._unread_head

    def is_at(self, mark: Bookmark) -> bool:
        """Whether this file holds what was read up to a bookmark; OSError as pread."""
        return (
            (mark.tail.length > 0 or self.size >= mark.offset)
            and mark.head.matches(self.peek(0, mark.head.length))
            and mark.tail.matches(self.peek(mark.offset - mark.tail.length, mark.tail.length))
        )

    def resume(self, mark: Bookmark) -> None:
        """Go on at a bookmark of this file, or of one that has the same bytes up to there."""
        self.seek(mark.offset)
        self.path, self.first_mtime_ns, self.copied_to = mark.path, mark.first_mtime_ns, mark.copied_to
        self.final |= mark.final
        if not mark.offset:
            self._unread_head = mark.head
        self.touched = mark.offset == 0  # what happened to it before may not have been looked into

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self.fd = self.fd, -1  # a later look fails instead of reading from what has the number then
        if fd >= 0:
            self.files.close(fd)
