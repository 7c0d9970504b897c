"""The rotated files beside a log: which were read already, and in which order the others were written."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from exporter.tail._bookmark import (
    REMEMBERED_BYTES,
    Fingerprint,
    Identity,
    MalformedStateError,
    fields,
    integer,
    natural,
    restored_fingerprint,
    restored_identity,
)
from exporter.tail._files import REAL, Files
from exporter.tail._gzip import SUFFIX, GzipLogFile
from exporter.tail._log_file import LogFile, identity
from exporter.tail._rotated import generation, is_rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

CLOCK_SLACK_NS: Final = 1_000_000_000
"""Compressors and copies keep a file's time, some without the part below the second."""

_NUMBER: Final = re.compile(r"(.*?)(\d{1,9})")
_TRIES: Final = 5
_MOST_MARKS: Final = 4096
_TRAILER_MODULUS: Final = 1 << 32
_OLD_MARKS_SAVED: Final = 16
_MOST_PASSED_SAVED: Final = 256
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM)
NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

Listing: TypeAlias = dict[str, os.stat_result]
T = TypeVar("T")


class Scan(NamedTuple):
    """What a look into the directory found: rotated files oldest first, the log, and the bytes of unreadable files."""

    rotated: list[LogFile]
    current: LogFile | None
    error: OSError | None
    unreadable_bytes: int

    @property
    def files(self) -> list[LogFile]:
        """All that were opened, oldest first."""
        return [*self.rotated, *([self.current] if self.current else [])]

    def close(self, but: Iterable[LogFile] = ()) -> None:
        """Close what was opened, `but` for some."""
        _close(source for source in self.files if source not in but)


class _Mark(NamedTuple):
    size: int
    mtime_ns: int
    ends: tuple[Fingerprint, Fingerprint] | None
    """Its first bytes and the last before `size`; None when they could not be read, or are compressed."""


def trusted_bound(not_before_ns: int, listing: Listing, log: str) -> int:
    """Before when no unread file was written last; 0 when the log itself was: then the clock was set back."""
    return not_before_ns if log not in listing or listing[log].st_mtime_ns >= not_before_ns else 0


def _by_time(status: os.stat_result) -> _Mark:
    return _Mark(status.st_size, status.st_mtime_ns, None)


def _stem(path: str) -> str:
    return path.removesuffix(SUFFIX).rpartition(".")[0]


def _between(name: str, old: str, new: str) -> bool:
    """Whether a numbered name ("log.real.4") lies between those of the old and the new target of a symbolic link."""
    parts = [_NUMBER.fullmatch(text) for text in (old, name, new)]
    if None in parts:
        return False
    (old_stem, low), (stem, number), (new_stem, high) = (part.groups() for part in parts if part is not None)
    return old_stem == stem == new_stem and int(low) < int(number) < int(high)


class Siblings:
    """Remembers the files that need no more reading, so that each generation is read once."""

    def __init__(self, files: Files = REAL) -> None:
        self._files = files
        self._marks: dict[Identity, _Mark] = {}
        self._passed: dict[Identity, _Mark] = {}
        """What the last scan knew to need no reading, so that times need not be trusted for it."""
        self._state: tuple[int, list[Any]] | None = None

    def mark(self, source: LogFile) -> None:
        """Remember that a file was read up to its offset."""
        # An empty file is not remembered: what is written to it later is new, and its inode may come back as another.
        if source.offset:
            ends = (Fingerprint.of(source.head), Fingerprint.of(source.tail))
            self._put(source.identity, _Mark(source.offset, source.mtime_ns, ends))

    def mark_unread(self, status: os.stat_result) -> None:
        """Remember a file by its size and time alone as needing no reading."""
        self._put(identity(status), _by_time(status))

    def mark_history(self, log: str) -> None:
        """Remember all rotated files that are there now as needing no reading."""
        for path, status in self.listing(log, ()).items():
            if path != log and status.st_size:
                try:
                    source = LogFile(path, self._files)
                except OSError:
                    self.mark_unread(status)
                    continue
                try:
                    if path.endswith(SUFFIX):
                        self.mark_unread(status)
                    else:
                        source.seek(source.size)
                        self.mark(source)
                except OSError:
                    self.mark_unread(status)
                source.close()

    def remembers(self, key: Identity) -> bool:
        """Whether a file of this identity needed no more reading; it may have been another file."""
        return key in self._marks

    def read_before(self, source: LogFile) -> int:
        """How many bytes of a file were read before: 0 for a new one, also when it got the inode of a read one."""
        mark = self._marks.get(source.identity)
        if mark is None or source.size < mark.size:
            return 0
        if mark.ends is None:
            return mark.size if (source.size, source.mtime_ns) == (mark.size, mark.mtime_ns) else 0
        head, tail = mark.ends
        known = head.matches(source.before(head.length)) and tail.matches(source.before(mark.size, tail.length))
        return mark.size if known else 0

    def is_marked(self, status: os.stat_result) -> bool:
        """Whether a file is remembered, unchanged, by its size and time alone."""
        return self._marks.get(identity(status)) == _by_time(status)

    def listing(self, log: str, olds: Collection[str]) -> Listing:
        """The log, the link's old targets, and the rotated files of all, as full path to status."""
        paths = dict.fromkeys((*olds, log))
        new_name, *old_names = names = list(dict.fromkeys(os.path.basename(path) for path in (log, *olds)))

        def wanted(name: str) -> bool:
            plain = name.removesuffix(SUFFIX)
            return (
                name in names or any(is_rotated(plain, each) for each in names) or any(_between(name, each, new_name) for each in old_names)
            )

        stems = (found[1] for each in names if (found := _NUMBER.fullmatch(each)))
        prefixes = {*names, *(stems if old_names else ())}
        listing: Listing = {}
        for directory in dict.fromkeys(map(os.path.dirname, paths)):
            try:
                listing |= self._files.regular(directory, prefixes, wanted)
            except OSError as exc:
                # A directory that is gone, or that we may pass but not list, has no siblings for us. Any other error
                # may end, and without the listing we would pass over a generation.
                if exc.errno not in (*NOT_THERE, *_FORBIDDEN):
                    raise
        # Files of these names in another of the directories are other logs.
        listing = {path: status for path, status in listing.items() if path in paths or os.path.basename(path) not in names}
        if log not in listing:
            listing |= self._only(log)
        # Compressors take the original away when they are done: until then the compressed file is not whole.
        return {path: status for path, status in listing.items() if not (path.endswith(SUFFIX) and path.removesuffix(SUFFIX) in listing)}

    def _only(self, log: str) -> Listing:
        """The log alone, whose directory may be one that we cannot list."""
        try:
            status = self._files.stat(log)
        except OSError as exc:
            if exc.errno not in (*NOT_THERE, *_FORBIDDEN):
                raise
            return {}
        return {log: status} if stat.S_ISREG(status.st_mode) else {}

    def steadily(self, log: str, olds: Collection[str], look: Callable[[Listing], T], drop: Callable[[T], None]) -> T:
        """What a look at the files gives, taken while no rotation passed; OSError when they come too fast just now."""
        listing = self.listing(log, olds)
        for _ in range(_TRIES):
            found = look(listing)
            # A rotation may shift all names while we open them one by one. Only a listing that is the same before and
            # after proves that no generation slipped past under another name.
            try:
                again = self.listing(log, olds)
            except OSError:
                drop(found)
                raise
            if _same(listing, again):
                return found
            drop(found)
            listing = again
        raise BlockingIOError(errno.EAGAIN, "rotating faster than it can be looked at", log)

    def scan(self, log: str, olds: Collection[str], not_before_ns: int, held: Collection[LogFile]) -> Scan:
        """Open the log and the unread rotated files, leaving out `held`; an error of the log itself is returned.

        OSError when something may be unread that cannot be looked at just now.
        """
        return self.steadily(log, olds, lambda listing: self._open(listing, log, not_before_ns, held), Scan.close)

    def open(self, path: str, log: str) -> LogFile:
        """Open one of the files listed for a log."""
        return GzipLogFile(path, self._files) if path != log and path.endswith(SUFFIX) else LogFile(path, self._files)

    def _open(self, listing: Listing, log: str, not_before_ns: int, held: Collection[LogFile]) -> Scan:
        found: list[LogFile] = []
        older: list[int] = []
        bound_ns = trusted_bound(not_before_ns, listing, log)
        unreadable = 0
        seen = {source.identity for source in held}
        held_since_ns = min((source.since_ns for source in held), default=bound_ns)
        for path, status in listing.items():
            number = generation(path)
            if path == log:
                continue
            # A generation after the newest that we know cannot have been written last before that was.
            slack = CLOCK_SLACK_NS if path.endswith(SUFFIX) else 0
            known = identity(status) in seen or self._is_passed(status)
            if known or status.st_mtime_ns < bound_ns - slack:
                older += [] if number is None else [number]
                # Unless the clock was set back, which only the log tells: so it is judged when that is there again. And one
                # may be a held file, compressed, which after a kill is read on from there.
                if not known and (log not in listing or (slack and status.st_mtime_ns >= held_since_ns - slack)):
                    seen.add(identity(status))
                continue
            try:
                source = self.open(path, log)
            except FileNotFoundError:
                seen.add(identity(status))  # under another name by now
                continue
            except OSError as exc:
                if exc.errno not in _FORBIDDEN:
                    _close(found)
                    raise
                self.mark_unread(status)
                unreadable += status.st_size
                continue
            try:
                known = source.identity in seen or self._was_read(source, status)
                is_held = not known and self._is_compressed(source, held)
            except OSError:
                _close([source, *found])
                raise
            if not known:
                seen.add(source.identity)  # also a held one: after a kill it may be read again from there
            if known or is_held:
                older += [] if number is None or not source.size else [number]  # an empty one tells of no order
                source.close()
            else:
                found.append(source)
        current, error = self._open_log(log, seen)
        self._pass({identity(status): _by_time(status) for path, status in listing.items() if path != log and identity(status) not in seen})
        scan = Scan(_in_order(found, older, log, timely=bound_ns == not_before_ns), current, error, unreadable)
        for source in scan.files:
            source.remember_start()
        return scan

    def _open_log(self, log: str, seen: Collection[Identity]) -> tuple[LogFile | None, OSError | None]:
        try:
            current = LogFile(log, self._files)
        except OSError as exc:
            return None, exc
        if current.identity in seen:
            current.close()
            return None, None
        return current, None

    def _is_passed(self, status: os.stat_result) -> bool:
        return self.is_marked(status) or self._passed.get(identity(status)) == _by_time(status)

    def _pass(self, passed: dict[Identity, _Mark]) -> None:
        if passed != self._passed:
            self._passed, self._state = passed, None

    def _was_read(self, source: LogFile, status: os.stat_result) -> bool:
        if not isinstance(source, GzipLogFile):
            return self.read_before(source) > 0
        # Compressing makes another file of it, so only what is in it tells which it was.
        first = source.peek(0, REMEMBERED_BYTES)
        known = not first or any(mark.ends and self._has_text(source, first, mark.size, *mark.ends) for mark in self._marks.values())
        if known:
            self.mark_unread(status)
        return known

    @staticmethod
    def _is_compressed(source: LogFile, held: Iterable[LogFile]) -> bool:
        """Whether a file is what a compressor made of one that is held."""
        if not isinstance(source, GzipLogFile):
            return False
        first = source.peek(0, REMEMBERED_BYTES)
        return any(each.grown() % _TRAILER_MODULUS == source.size and each.before(len(first)) == first for each in held)

    @staticmethod
    def _has_text(source: LogFile, first: bytes, size: int, head: Fingerprint, tail: Fingerprint) -> bool:
        if not head.matches(first[: head.length]):
            return False
        return source.size == size or tail.matches(source.before(size, tail.length))

    def _put(self, key: Identity, mark: _Mark) -> None:
        self._state = None
        device, inode = key
        former = self._marks.pop(key, None)
        if former and former.ends and former.ends != mark.ends:
            # The inode is that of another file now, and what it was before may be compressed somewhere.
            self._marks[device, -inode] = former
        self._marks[key] = mark
        if len(self._marks) > _MOST_MARKS:
            del self._marks[next(iter(self._marks))]

    def state(self, not_before_ns: int) -> list[Any]:
        """The marks that can still matter, as JSON types.

        A scan leaves out what was written last before the newest file, by its time alone. So only later marks are
        needed, and a few of the others for a compressor that gives its file the time of the compression; and, for a clock
        that is set back, what is there and was passed over.
        """
        if self._state is None or self._state[0] != not_before_ns:
            recent = len(self._marks) - _OLD_MARKS_SAVED
            marks = [
                [*key, mark.size, mark.mtime_ns, [list(end) for end in mark.ends] if mark.ends else None]
                for age, (key, mark) in enumerate(self._marks.items())
                if age >= recent or mark.mtime_ns >= not_before_ns - CLOCK_SLACK_NS
            ]
            saved = {(device, inode) for device, inode, *_ in marks}
            passed = sorted(self._passed.items(), key=lambda item: item[1].mtime_ns)[-_MOST_PASSED_SAVED:]
            # First, and so forgotten first.
            marks[:0] = [[*key, mark.size, mark.mtime_ns, None] for key, mark in passed if key not in saved]
            self._state = not_before_ns, marks
        return self._state[1]

    def restore(self, state: object) -> None:
        """Take marks from a state; ValueError when it is malformed."""
        if not isinstance(state, list):
            raise MalformedStateError("marks are not a list")
        for each in state:
            device, inode, size, mtime_ns, ends = fields(each, 5)
            pair = None
            if ends is not None:
                head, tail = fields(ends, 2)
                pair = restored_fingerprint(head), restored_fingerprint(tail)
            self._put(restored_identity([device, inode]), _Mark(natural(size), integer(mtime_ns), pair))


def _close(sources: Iterable[LogFile]) -> None:
    for source in sources:
        source.close()


def _same(one: Listing, other: Listing) -> bool:
    return one.keys() == other.keys() and all(identity(one[path]) == identity(other[path]) for path in one)


def _in_order(found: list[LogFile], older: list[int], log: str, *, timely: bool) -> list[LogFile]:
    """Oldest first: by the time of the last write, and within one tick of that clock by generation number.

    Numbers run down to the newest file where each rotation shifts them (logrotate), and up where it takes the next
    one. The numbers of the files known to be older tell which, or that of the log itself, where it is the target of a
    link that is turned to the next number. Where times tell nothing, numbers have to do. Between numbers and dates, the
    one that was renamed last, or made and never renamed, is the newer one.
    """
    numbers = [number for source in found if (number := generation(source.path)) is not None]
    by_time = timely or len(numbers) < len(found)
    turned = generation(log) is not None and all(_stem(source.path) == _stem(log) for source in found)
    up = turned or (bool(older and numbers) and max(older) < min(numbers))

    mixed = 0 < len(numbers) < len(found)

    def key(source: LogFile) -> tuple[int, int, int, str]:
        number = generation(source.path) or 0
        return source.mtime_ns if by_time else 0, source.renamed_ns if mixed else 0, number if up else -number, source.path

    return sorted(found, key=key)
