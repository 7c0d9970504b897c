"""Follow one log by path, exactly once and in order, through rotation and truncation."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from exporter.tail._bookmark import EMPTY, Bookmark
from exporter.tail._copies import continues, unread_copies
from exporter.tail._files import REAL, Files
from exporter.tail._log_file import LogFile, TruncatedError, identity
from exporter.tail._resume import Parked, Search
from exporter.tail._siblings import NOT_THERE, Scan, Siblings
from exporter.tail._state import Place, Saved
from exporter.tail.chunk import Chunk, FollowerStats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from exporter.tail._bookmark import Identity

_MOST_GENERATIONS: Final = 64
"""Generations held open at once; further ones are found again, by their names, when these have been read."""

_PATIENCE: Final = 100
"""Reads in a row that fail before a rotated file is given up, and what is known unread of it counted as lost."""


class Follower:
    """Reads what is appended to the log at a path, across rename, copy-and-truncate and symbolic link rotation.

    The open files are a queue, oldest first, of which the first is read. It is left for the next one only when a
    later file has data *and then* the first is found at its end: a writer that has written to the new file has
    finished with the old one, so nothing is read out of order, and a writer that goes on writing to the renamed file
    (logrotate before the signal) is followed for as long as it does. Several writers may switch one after another, so
    the file left last is kept open and looked at once more by each read() until it is at its end again; a late line
    from it comes out between two lines of the new file.

    A restart, like any time without descriptors, is a sleep during which anything may have happened to the files:
    those of the queue are found again, by identity or by content, and then all is as if they had been held.
    """

    def __init__(
        self,
        path: Path,
        *,
        start_at: Literal["beginning", "end"] = "beginning",
        state: object = None,
        chunk_bytes: int = 256 * 1024,
        files: Files = REAL,
    ) -> None:
        """Follow `path`, which need not exist.

        `state` is what state() gave, ValueError when it is malformed; without one, `start_at` is about the file that is
        there at the first read() only.
        """
        self.stats = FollowerStats()
        self._files = files
        self._path = os.path.abspath(path)
        self._at_end = start_at == "end"
        self._chunk_bytes = chunk_bytes
        self._siblings = Siblings(files)
        self._queue: list[LogFile] = []
        self._late: list[LogFile] = []
        self._spoke: object = None
        self._between_lines = True
        self._started = False
        self._closed = False
        self._released = False
        self._parked: Sequence[Parked] = ()
        self._unfinished = 0
        self._newest_path = self._path
        self._not_before_ns = 0
        self._counted: set[Identity] = set()
        """Files that are new to the queue, but were in it before a sleep."""
        self._left_empty: list[str] = []
        """Paths of files that were in the queue before a sleep, and are not, for there was nothing to know them by."""
        if state is not None:
            self._restore(Saved.restore(state))

    def read(self) -> Chunk:
        """The next bytes, at most `chunk_bytes`; none when caught up; never blocks; errors are in `stats`."""
        if self._closed:
            return Chunk(b"", begins_file=False)
        self.stats.error = ""
        try:
            if self._parked:
                if self._released and self._is_unchanged():
                    return Chunk(b"", begins_file=False)
                self._resume()
            self._look()
            chunk = self._take()
        except OSError as exc:
            # What may be unread cannot be looked at just now: better late than never.
            self._report(exc)
            self.stats.up = False
            return Chunk(b"", begins_file=False)
        self.stats.lag_bytes = sum(source.lag_bytes for source in self._queue if self._has_data(source))
        return chunk

    def close(self) -> None:
        """Give all descriptors back; read() then returns nothing."""
        self._closed = True
        self.stats.up = False
        self._park()

    def release(self) -> bool:
        """Give the descriptors back if nothing is unread; False if something is.

        read() then costs one stat until the file has changed, and opens it again. What is written to a file that was
        released, and deleted before the next read(), nobody can know.
        """
        if not self._parked:
            if self._late or len(self._queue) > 1 or any(source.lag_bytes or source.touched for source in self._queue):
                return False
            self._park()
            self._released = bool(self._parked)
        return self._released

    def _is_unchanged(self) -> bool:
        mark = self._parked[-1].bookmark()
        try:
            status = self._files.stat(self._path)
        except OSError:
            return False
        return (identity(status), status.st_size, status.st_mtime_ns) == (mark.identity, mark.size, mark.mtime_ns)

    def knows(self, path: str) -> bool:
        """Whether the file that is now at a path is held here or was read to its end; False when that cannot be seen."""
        try:
            found = identity(self._files.stat(path))
            if any(source.identity == found for source in self._held()):
                return True
            marks = [mark for mark in (each.bookmark() for each in self._parked) if mark.identity == found]
            if not marks and not self._siblings.remembers(found):
                return False
            # The inode of a file that is not open may be another's by now.
            with contextlib.closing(LogFile(path, self._files)) as source:
                return any(source.is_at(mark) for mark in marks) or self._siblings.read_before(source) > 0
        except OSError:
            return False

    def state(self, unfinished: int) -> dict[str, Any]:
        """What a new follower needs to go on from here, in JSON types and without any text of the log.

        The last `unfinished` bytes that read() gave are no complete line yet, so the new follower reads them again.
        """
        places = self._parked or self._held()
        spoke = None if self._spoke is None else -1
        for index, place in enumerate(places):
            if place.incarnation is self._spoke and spoke == -1:
                spoke = index
        files = [place.bookmark(unfinished if index == spoke else 0) for index, place in enumerate(places)]
        not_before_ns = files[0].first_mtime_ns if files else self._not_before_ns
        # A half line of a file that is gone is lost, unless this process lives to see its end.
        lost = unfinished if spoke == -1 else 0
        again = unfinished - lost
        return Saved(
            started=self._started,
            files=files,
            spoke=spoke,
            unfinished=again or self._unfinished,
            after=(self._newest_path, not_before_ns),
            marks=self._siblings.state(not_before_ns),
            counters={
                "read_bytes": self.stats.read_bytes - again,
                "rotations": self.stats.rotations,
                "truncations": self.stats.truncations,
                "lost_bytes": self.stats.lost_bytes + lost,
            },
        ).state()

    def _restore(self, saved: Saved) -> None:
        self._siblings.restore(saved.marks)
        places = [Place(mark) for mark in saved.files]
        self._parked = places
        self._started = saved.started
        if saved.spoke is not None:
            self._spoke = places[saved.spoke].incarnation if saved.spoke >= 0 else object()
        self._unfinished = saved.unfinished
        self._newest_path, self._not_before_ns = saved.after
        for name, count in saved.counters.items():
            setattr(self.stats, name, count)
        self.stats.lag_bytes = sum(mark.unread_bytes for mark in saved.files)

    def _park(self) -> None:
        held = self._held()
        for source in held:
            source.remember_start()
            source.close()
        self._parked = held or self._parked
        self._queue, self._late = [], []

    def _resume(self) -> None:
        """Find the files again that were held; OSError while that may still come."""
        real = self._files.realpath(self._path)
        marks = [each.bookmark() for each in self._parked]

        def look(listing: dict[str, os.stat_result]) -> Search:
            return Search(self._parked, real, self._siblings, listing)

        search = self._siblings.steadily(real, [self._newest_path, *(mark.path for mark in marks)], look, Search.close)
        if search.missing and not search.newest_found:
            # It is gone when another file is in its place; else its directory may not be there yet.
            try:
                self._files.stat(self._path)
            except OSError:
                search.close()
                raise
        self._not_before_ns = marks[0].first_mtime_ns
        self._queue, self._parked, self._released = search.found, (), False
        self._left_empty = [mark.path for mark in marks if not mark.size]
        self._counted = search.empty | ({search.truncated} if search.truncated else set())
        self.stats.truncations += search.truncated is not None
        self.stats.lost_bytes += search.lost_bytes
        if self._unfinished and not any(source.incarnation is self._spoke for source in self._queue):
            self.stats.read_bytes += self._unfinished  # read, and nobody will read it again
        self._unfinished = 0

    def _look(self) -> None:
        """See which file is at the path, and queue it and the generations before it that we have missed."""
        first = not self._started
        if first:
            self._siblings.mark_history(self._real_path())
        try:
            status = self._files.stat(self._path)
        except OSError as exc:
            self._report(exc)
            self._started |= exc.errno in NOT_THERE  # else what cannot be seen yet may be history
            # Between rename and create there is nothing at the path, which is no failure; a deleted log is.
            if exc.errno == errno.ENOENT:
                # Several rotations may have passed, of which the last has made no new file yet.
                self._switch(self._real_path())
            self.stats.up = exc.errno == errno.ENOENT and bool(self._queue) and self._queue[-1].exists()
            return
        self._started = True
        if first and self._at_end and stat.S_ISREG(status.st_mode):
            self._begin_at_end(self._real_path(), status)
        if self._queue and self._queue[-1].identity == identity(status):
            self.stats.up = True
        elif stat.S_ISREG(status.st_mode):
            self._switch(self._real_path())
        else:
            self.stats.up, self.stats.error = False, "EISDIR" if stat.S_ISDIR(status.st_mode) else "EINVAL"

    def _real_path(self) -> str:
        """Asked for only when something is new: it costs more than all else about a look at a file that has not changed."""
        return self._files.realpath(self._path)

    def _begin_at_end(self, real: str, status: os.stat_result) -> None:
        """As if all that is there had been read before, for the file may not be readable yet; OSError until it is."""
        mark = Bookmark(real, identity(status), status.st_size, status.st_size, status.st_mtime_ns, status.st_mtime_ns, EMPTY, EMPTY)
        self._newest_path = real
        self._parked = [Place(mark)]
        self._resume()

    def _switch(self, real: str) -> None:
        """Queue what is new; when that cannot be seen just now, what is queued can still be read."""
        try:
            self._queue_new(real)
        except OSError as exc:
            self._report(exc)
            self.stats.up = False

    def _queue_new(self, real: str) -> None:
        """Queue the file now at the path, after the generations between it and the newest one that we have."""
        newest = self._queue[-1] if self._queue else None
        self._forget_empty()
        room = _MOST_GENERATIONS - len(self._queue)
        if newest and room <= 0:
            return
        if newest:
            newest.refresh()
        # A time before its first one tells that the clock was set back.
        not_before_ns = min(newest.first_mtime_ns, newest.mtime_ns) if newest else self._not_before_ns
        olds = (self._newest_path, *self._left_empty, *([newest.path] if newest else ()))
        scan = self._siblings.scan(real, olds, not_before_ns, self._held())
        try:
            added = self._sort_out(scan, newest, room)
        except OSError:
            scan.close(but=self._queue)
            raise
        self.stats.lost_bytes += scan.unreadable_bytes
        self.stats.up = scan.current is not None
        if scan.error:
            self._report(scan.error)
        follows = newest or not_before_ns
        rotated = len(added) if follows else max(0, len(added) - 1)
        self.stats.rotations += max(0, rotated - sum(source.identity in self._counted for source in added))
        self._counted, self._left_empty = set(), []
        self._queue += added
        if added:
            self._newest_path = added[-1].path

    def _sort_out(self, scan: Scan, newest: LogFile | None, room: int) -> list[LogFile]:
        """The files of a scan that come next, without those that are copies."""
        added: list[LogFile] = []
        for source in scan.files:
            if len(added) == room:
                source.close()
            elif source is scan.current:
                # A link may have been turned back to a file that we know, or `mv log.1 log` have undone a rotation.
                source.seek(self._siblings.read_before(source))
                added.append(source)
            elif newest and self._is_copy(newest, source):
                continue
            elif scan.current and scan.current.still_has(source):
                source.close()  # a copy of the file that is now at the path, which still has all of it
            else:
                added.append(source)
        return added

    def _is_copy(self, newest: LogFile, sibling: LogFile) -> bool:
        """Whether a sibling is no later generation but a copy; queue what only the copy still has."""
        if newest.still_has(sibling):
            sibling.close()
            return True
        truncated = newest.was_truncated()
        if newest.seen and not truncated:
            return False
        if newest.copied_to or not continues(newest, sibling):
            # Made after a truncation that we did not see, if it is older than what the file holds now: no generation is older
            # than the one before it, and within one tick of the clock none was renamed earlier.
            made, written = sibling.mtime_ns, newest.mtime_ns
            older = newest.first_mtime_ns <= made < written or (made == written and (truncated or sibling.renamed_ns < newest.renamed_ns))
            if not sibling.size or not older:
                return False
            self.stats.truncations += 1
        self._queue.insert(self._queue.index(newest), sibling)
        return True

    def _take(self) -> Chunk:
        """Read from a late file, else from the first in the queue that has something to say."""
        while self._late and self._between_lines:
            data = self._pull(self._late[0])
            if data:
                return self._emit(self._late[0], data)
            self._let_go(self._late.pop(0))
        while self._queue:
            head = self._queue[0]
            incarnation = head.incarnation
            data = self._pull(head)
            if data:
                return self._emit(head, data)
            if not self._queue or self._queue[0] is not head or head.incarnation is not incarnation:
                continue
            # A copy has nothing more to say; but a half line at its end is completed by the next chunk only.
            finished = head.final and self._between_lines
            if len(self._queue) == 1 or not (finished or self._later_has_data()):
                break
            data = self._pull(head)  # what came between our finding its end and the writer's first line in the new file
            if data:
                return self._emit(head, data)
            if self._queue[0] is head and head.incarnation is incarnation:
                self._retire()
        return Chunk(b"", begins_file=False)

    def _emit(self, source: LogFile, data: bytes) -> Chunk:
        begins = self._spoke is not None and self._spoke is not source.incarnation
        self._spoke = source.incarnation
        self._between_lines = data.endswith(b"\n")
        self.stats.read_bytes += len(data)
        # What came between the look at its times and the read was written just now.
        written = time.time() if source.offset > source.size else source.mtime_ns / 1e9
        return Chunk(data, begins, written)

    def _pull(self, source: LogFile) -> bytes:
        """Read from one source; none after a truncation or a recovery, which change the incarnation or the queue."""
        try:
            source.refresh()
            # Nothing was read from it yet, so only its times tell that it was written to, copied and truncated since.
            if source.touched and not source.offset and source is self._queue[-1] and self._recover_unread(source):
                return b""
            data = source.read(self._chunk_bytes)
        except TruncatedError:
            if source not in self._late:
                self._start_over(source)
        except OSError as exc:
            source.failures += 1
            if exc.errno == errno.ESTALE:
                # The descriptor is of no use any more; the file itself may be there.
                self._park()
                raise
            if source.failures < _PATIENCE or source is self._queue[-1]:
                raise
            self._report(exc)
        else:
            source.failures = 0
            source.touched = False
            return data
        return b""

    def _start_over(self, source: LogFile) -> None:
        """Read a truncated file again, after what a copy of it still has."""
        if not self._recover(source):
            self.stats.truncations += 1
        self.stats.lost_bytes += source.unread_bytes
        source.restart()

    def _recover_unread(self, source: LogFile) -> bool:
        """Whether there are copies of what was in a file of which nothing was read."""
        begins_anew = source.was_truncated()
        copies = self._recover(source)
        if copies and begins_anew:
            self.stats.lost_bytes += source.unread_bytes
            source.restart()
        return bool(copies)

    def _recover(self, source: LogFile) -> list[LogFile]:
        """Queue the copies made of a file before it was truncated, in front of it, and return them.

        While the path still leads to the file, a rotated sibling that we do not know can only be a copy of it: of what
        we were reading, or of what was written after an earlier truncation that we did not see.
        """
        scan = self._siblings.scan(source.path, (), source.first_mtime_ns, self._held())
        if scan.current or scan.error:
            # Rotated by rename meanwhile, so the siblings may be generations: the next read() sees to them.
            scan.close()
            return []
        try:
            copies = unread_copies(source, scan.rotated)
        except OSError:
            scan.close()
            raise
        self.stats.truncations += len(copies)
        index = self._queue.index(source)
        self._queue[index:index] = copies
        return copies

    def _retire(self) -> None:
        """Leave the first of the queue, but keep it open if there may be more in it, or a half line to be read again after a kill."""
        head = self._queue.pop(0)
        if head.final and self._between_lines:
            self._let_go(head)
            return
        while self._late and not (head.final and not self._late[-1].final):
            self._let_go(self._late.pop())
        self._late.append(head)

    def _let_go(self, source: LogFile) -> None:
        self.stats.lost_bytes += source.unread_bytes  # none, but after an I/O error
        self._siblings.mark(source)
        source.close()

    def _held(self) -> list[LogFile]:
        return [*self._late, *self._queue]

    def _has_data(self, source: LogFile) -> bool:
        with contextlib.suppress(OSError):
            source.look()
        return source.lag_bytes > 0

    def _later_has_data(self) -> bool:
        newest = self._queue[-1]
        if any(self._has_data(source) for source in self._queue[1:]):
            return True
        if newest.touched and not newest.offset:
            # Empty now, but it may have been written to, copied and truncated.
            found = self._recover_unread(newest)
            newest.touched = False
            return found
        return False

    def _forget_empty(self) -> None:
        """Make room when a writer stays with an old file while many new ones come and go unused."""
        if len(self._queue) >= _MOST_GENERATIONS:
            for source in [source for source in self._queue[1:-1] if not self._has_data(source)]:
                self._queue.remove(source)
                source.close()

    def _report(self, exc: OSError) -> None:
        self.stats.error = errno.errorcode.get(exc.errno or 0, str(exc))
