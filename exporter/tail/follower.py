"""Follow one log by path, exactly once and in order, through rotation and truncation."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final, Literal

from exporter.tail._copies import continues, unread_copies
from exporter.tail._siblings import Siblings
from exporter.tail._source import Identity, Source, TruncatedError, identity
from exporter.tail.chunk import Chunk, FollowerStats

if TYPE_CHECKING:
    from pathlib import Path

_MOST_OPEN: Final = 64
"""Generations held open at once; further ones are found again, by their names, when these have been read."""


class Follower:
    """Reads what is appended to the log at a path, across rename, copy-and-truncate and symbolic link rotation.

    The open files are a queue, oldest first, of which the first is read. It is left for the next one only when a
    later file has data *and then* the first is found at its end: a writer that has written to the new file has
    finished with the old one, so nothing is read out of order, and a writer that goes on writing to the renamed file
    (logrotate before the signal) is followed for as long as it does. Several writers may switch one after another, so
    the file left last is kept open and looked at once more by each read() until it is at its end again; a late line
    from it comes out between two lines of the new file.
    """

    def __init__(self, path: Path, *, start_at: Literal["beginning", "end"] = "beginning", chunk_bytes: int = 256 * 1024) -> None:
        """Follow `path`, which need not exist; `start_at` is about the file that is there at the first read() only."""
        self.stats = FollowerStats()
        self._path = os.path.abspath(path)
        self._at_end = start_at == "end"
        self._chunk_bytes = chunk_bytes
        self._siblings = Siblings()
        self._queue: list[Source] = []
        self._late: Source | None = None
        self._spoke: object = None
        self._between_lines = True
        self._started = False
        self._closed = False

    def read(self) -> Chunk:
        """The next bytes, at most `chunk_bytes`; none when caught up; never blocks; errors are in `stats`."""
        if self._closed:
            return Chunk(b"", begins_file=False)
        self.stats.error = ""
        self._look()
        chunk = self._take()
        self.stats.lag_bytes = sum(source.lag_bytes for source in self._queue if self._has_data(source))
        return chunk

    def close(self) -> None:
        """Give all descriptors back; read() then returns nothing."""
        self._closed = True
        self.stats.up = False
        for source in (*self._queue, *([self._late] if self._late else ())):
            source.close()
        self._queue, self._late = [], None

    def _look(self) -> None:
        """See which file is at the path, and queue it and the generations before it that we have missed."""
        first, self._started = not self._started, True
        real = os.path.realpath(self._path)
        if first:
            self._siblings.mark_history(real)
        try:
            status = os.stat(self._path)
        except OSError as exc:
            self._report(exc)
            # Between rename and create there is nothing at the path, which is no failure; a deleted log is.
            if exc.errno == errno.ENOENT:
                # Several rotations may have passed, of which the last has made no new file yet.
                self._switch(real, at_end=False)
            self.stats.up = exc.errno == errno.ENOENT and bool(self._queue) and self._queue[-1].exists()
            return
        if self._queue and self._queue[-1].identity == identity(status):
            self.stats.up = True
        elif stat.S_ISREG(status.st_mode):
            self._switch(real, at_end=first and self._at_end)
        else:
            self.stats.up, self.stats.error = False, "EISDIR" if stat.S_ISDIR(status.st_mode) else "EINVAL"

    def _switch(self, real: str, *, at_end: bool) -> None:
        """Queue the file now at the path, after the generations between it and the newest one that we have."""
        newest = self._queue[-1] if self._queue else None
        self._forget_empty()
        room = _MOST_OPEN - len(self._queue)
        if newest and room <= 0:
            return
        scan = self._siblings.scan(real, newest, self._held())
        self.stats.lost_bytes += scan.unreadable_bytes
        self.stats.up = scan.current is not None
        if scan.error:
            self._report(scan.error)
        added: list[Source] = []
        for source in scan.files:
            if len(added) == room:
                source.close()
            elif source is scan.current:
                # A link may have been turned back to a file that we know, or `mv log.1 log` have undone a rotation.
                source.seek(source.size if at_end else self._siblings.read_before(source))
                added.append(source)
            elif newest and self._is_copy(newest, source):
                continue
            elif scan.current and scan.current.same_content(source):
                source.close()  # a copy of the file that is now at the path, which still has all of it
            else:
                added.append(source)
        self.stats.rotations += len(added) if newest else max(0, len(added) - 1)
        self._queue += added

    def _is_copy(self, newest: Source, sibling: Source) -> bool:
        """Whether a sibling is no generation but a copy; queue what only the copy still has."""
        if newest.same_content(sibling):
            sibling.close()
            return True
        if not newest.was_truncated() or not continues(newest, sibling):
            return False
        self._queue.insert(self._queue.index(newest), sibling)
        return True

    def _take(self) -> Chunk:
        """Read from the late file, else from the first in the queue that has something to say."""
        if self._late and self._between_lines:
            data = self._pull(self._late)
            if data:
                return self._emit(self._late, data)
            self._let_go(self._late)
            self._late = None
        while self._queue:
            head = self._queue[0]
            incarnation = head.incarnation
            data = self._pull(head)
            if data:
                return self._emit(head, data)
            if not self._queue or self._queue[0] is not head or head.incarnation is not incarnation:
                continue
            if len(self._queue) == 1 or not (head.final or self._later_has_data()):
                break
            data = self._pull(head)  # what came between our finding its end and the writer's first line in the new file
            if data:
                return self._emit(head, data)
            if self._queue[0] is head and head.incarnation is incarnation:
                self._retire()
        return Chunk(b"", begins_file=False)

    def _emit(self, source: Source, data: bytes) -> Chunk:
        begins = self._spoke is not None and self._spoke is not source.incarnation
        self._spoke = source.incarnation
        self._between_lines = data.endswith(b"\n")
        self.stats.read_bytes += len(data)
        return Chunk(data, begins)

    def _pull(self, source: Source) -> bytes:
        """Read from one source; none after a truncation or a recovery, which change the incarnation or the queue."""
        known = source.size
        try:
            source.refresh()
            # Nothing was read from it yet, so only its times tell that it was written to, copied and truncated since.
            if source.touched and not source.offset and source is self._queue[-1] and self._recover(source):
                return b""
            source.touched = False
            return source.read(self._chunk_bytes)
        except TruncatedError:
            if source is not self._late:
                self._start_over(source, known)
        except OSError as exc:
            self._report(exc)
            self.stats.up = False
            if exc.errno == errno.ESTALE and source in self._queue:
                # The file is gone from its server for good; the path may lead to another.
                self._queue.remove(source)
                self._let_go(source)
        return b""

    def _start_over(self, source: Source, known: int) -> None:
        """Read a truncated file again, after what a copy of it still has; `known`: its size as last seen."""
        if not self._recover(source):
            self.stats.truncations += 1
        self.stats.lost_bytes += max(0, known - max(source.offset, source.copied_to))
        source.restart()

    def _recover(self, source: Source) -> list[Source]:
        """Queue the copies made of a file before it was truncated, in front of it, and return them.

        While the path still leads to the file, a rotated sibling that we do not know can only be a copy of it: of what
        we were reading, or of what was written after an earlier truncation that we did not see.
        """
        scan = self._siblings.scan(source.path, source, self._held())
        if scan.current or scan.error:
            # Rotated by rename meanwhile, so the siblings may be generations: the next read() sees to them.
            for sibling in scan.files:
                sibling.close()
            return []
        copies = unread_copies(source, scan.rotated)
        self.stats.truncations += len(copies)
        index = self._queue.index(source)
        self._queue[index:index] = copies
        return copies

    def _retire(self) -> None:
        head = self._queue.pop(0)
        if head.final:
            self._let_go(head)
            return
        if self._late:
            self._let_go(self._late)
        self._late = head

    def _let_go(self, source: Source) -> None:
        self.stats.lost_bytes += source.lag_bytes  # none, but after an I/O error
        self._siblings.mark(source)
        source.close()

    def _held(self) -> set[Identity]:
        return {source.identity for source in (*self._queue, *([self._late] if self._late else ()))}

    def _has_data(self, source: Source) -> bool:
        with contextlib.suppress(OSError):
            source.refresh()
        return source.lag_bytes > 0

    def _later_has_data(self) -> bool:
        newest = self._queue[-1]
        if any(self._has_data(source) for source in self._queue[1:]):
            return True
        if newest.touched and not newest.offset:
            # Empty now, but it may have been written to, copied and truncated.
            newest.touched = False
            return bool(self._recover(newest))
        return False

    def _forget_empty(self) -> None:
        """Make room when a writer stays with an old file while many new ones come and go unused."""
        if len(self._queue) >= _MOST_OPEN:
            for source in [source for source in self._queue[1:-1] if not self._has_data(source)]:
                self._queue.remove(source)
                source.close()

    def _report(self, exc: OSError) -> None:
        self.stats.error = errno.errorcode.get(exc.errno or 0, str(exc))
