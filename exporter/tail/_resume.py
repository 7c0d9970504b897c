"""Find the files again that were being read, whatever happened to them meanwhile."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, Protocol

from exporter.tail._bookmark import REMEMBERED_BYTES, Bookmark, Identity
from exporter.tail._gzip import SUFFIX, GzipLogFile
from exporter.tail._log_file import LogFile, identity
from exporter.tail._siblings import CLOCK_SLACK_NS, Listing, Siblings, trusted_bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORBIDDEN: Final = (errno.EACCES, errno.EPERM)


class Parked(Protocol):
    """A file that is read on when it is found again: a closed one, or one from before a restart."""

    incarnation: object

    def bookmark(self, unfinished: int = 0) -> Bookmark:
        """Where it was left."""


class Search:
    """A search for all parked files in one listing; OSError when something cannot be looked at just now."""

    def __init__(self, parked: Sequence[Parked], log: str, siblings: Siblings, listing: Listing) -> None:
        self.found: list[LogFile] = []
        """The files that are still there, oldest first."""
        self.newest_found = False
        self.missing = False
        """Something was not found that cannot be read but there."""
        self.lost_bytes = 0
        self.empty: set[Identity] = set()
        """Files that were empty."""
        self.truncated: Identity | None = None
        """The file at the path is the one that was read, by its identity, but not by its content."""
        self._log = log
        self._siblings = siblings
        self._listing = listing
        self._paths = {identity(status): path for path, status in listing.items()}
        try:
            empty: list[tuple[int, Bookmark]] = []
            for each in parked:
                if not each.bookmark().size:
                    empty.append((len(self.found), each.bookmark()))
                self.newest_found = self._find(each)
            for place, mark in reversed(empty):
                self._find_empty(place, mark)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give the descriptors back."""
        for source in self.found:
            source.close()

    def _find(self, parked: Parked) -> bool:
        mark = parked.bookmark()
        if not mark.size:
            # An empty file has nothing to be known by, not even its inode, which may be another's by now. The scan for
            # generations puts in order what is there.
            self.empty.add(mark.identity)
            return False
        source = self._same_file(mark) or self._same_text(mark)
        if source is None:
            self.missing = True
            self.lost_bytes += mark.unread_bytes
            return False
        if source.identity != mark.identity and not isinstance(source, GzipLogFile):  # which has all that the file had
            self.lost_bytes += max(0, mark.unread_bytes - source.size + mark.offset)
        self.found.append(source)
        source.resume(mark)
        source.incarnation = parked.incarnation
        return True

    def _find_empty(self, place: int, mark: Bookmark) -> None:
        """Take a file that had been empty and was written to before the next found one, which a scan takes for history."""
        path = self._paths.get(mark.identity, self._log)
        held = any(source.identity == mark.identity for source in self.found)
        if held or path == self._log or path.endswith(SUFFIX) or place == len(self.found):
            return
        # Another one that got its inode is younger than the next.
        status = self._listing[path]
        if status.st_size and mark.first_mtime_ns <= status.st_mtime_ns < self.found[place].mtime_ns:
            source = self._open_candidate(path)
            if source:
                self.found.insert(place, source)
                source.first_mtime_ns = mark.first_mtime_ns
                source.remember_start()

    def _same_file(self, mark: Bookmark) -> LogFile | None:
        path = self._paths.get(mark.identity)
        if path is None:
            return None
        try:
            source = self._siblings.open(path, self._log)
        except FileNotFoundError:
            return None
        except OSError as exc:
            if path == self._log or exc.errno not in _FORBIDDEN:
                raise  # it may be granted
            self._siblings.mark_unread(self._listing[path])
            return None
        try:
            if source.identity == mark.identity and source.is_at(mark):
                return source
        except OSError:
            source.close()
            raise
        source.close()
        if path == self._log:
            self.truncated = mark.identity
        return None

    def _same_text(self, mark: Bookmark) -> LogFile | None:
        """The longest of the compressed files, copies made before a truncation, or the log on another host or mount."""
        best: LogFile | None = None
        opened: list[LogFile] = []
        bound_ns = trusted_bound(mark.since_ns, self._listing, self._log)
        timely = self._log in self._listing and self._listing[self._log].st_mtime_ns >= mark.mtime_ns
        try:
            for path in self._candidates(mark, bound_ns - CLOCK_SLACK_NS):
                source = self._open_candidate(path)
                if source is None:
                    continue
                opened += [source]
                if (best is None or source.size > best.size) and source.is_at(mark):
                    source, best = best, source
                elif path != self._log and _is_earlier_copy(source, mark, timely=timely):
                    source.seek(source.size)
                    self._siblings.mark(source)
                if source:
                    source.close()
        except OSError:
            for source in opened:
                source.close()
            raise
        if best:
            best.final = best.path != self._log
        return best

    def _candidates(self, mark: Bookmark, not_before_ns: int) -> Iterator[str]:
        for path, status in self._listing.items():
            # A few bytes may be those that each new file begins with.
            if not mark.head.length or (path == self._log and mark.offset < REMEMBERED_BYTES):
                continue
            held = any(source.identity == identity(status) for source in self.found)
            if not held and status.st_mtime_ns >= not_before_ns and not self._siblings.is_marked(status):
                yield path

    def _open_candidate(self, path: str) -> LogFile | None:
        try:
            return self._siblings.open(path, self._log)
        except OSError as exc:
            if exc.errno == errno.ENOENT or (exc.errno in _FORBIDDEN and path != self._log):
                return None  # the scan for generations sees to it
            raise


def _is_earlier_copy(source: LogFile, mark: Bookmark, *, timely: bool) -> bool:
    """Whether a file is a copy made before the last read, so that all of it was read."""
    if source.size >= mark.offset:
        return False
    if source.size >= mark.head.length:
        return mark.head.matches(source.before(mark.head.length))
    return timely and source.mtime_ns <= mark.mtime_ns  # too short to be known by its text
