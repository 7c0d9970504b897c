"""The rotated files beside a log: which were read already, and in which order the others were written."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from exporter.tail._source import Identity, Source, identity

if TYPE_CHECKING:
    from collections.abc import Collection

ROTATED: Final = re.compile(r"[.-](\d[\dTZ:._+-]*)")
"""What a rotation appends: ".1", "-20260731", ".20260731-120000", ".2026-07-31T12:00:00Z"; so never .gz, .zst, .tmp."""

_NUMBER: Final = re.compile(r"(.*?)(\d{1,9})")
_LONGEST_GENERATION: Final = 6
_TRIES: Final = 5
_MOST_MARKS: Final = 4096


class Scan(NamedTuple):
    """What a look into the directory found: rotated files oldest first, the log, and the bytes of unreadable files."""

    rotated: list[Source]
    current: Source | None
    error: OSError | None
    unreadable_bytes: int

    @property
    def files(self) -> list[Source]:
        """All that were opened, oldest first."""
        return [*self.rotated, *([self.current] if self.current else [])]


class _Mark(NamedTuple):
    size: int
    mtime_ns: int
    ends: tuple[bytes, bytes] | None
    """Its first bytes and the last before `size`; None when they could not be read."""


def is_rotated(name: str, log_name: str) -> bool:
    """Whether a file name is that of a rotated, uncompressed generation of the log."""
    return name.startswith(log_name) and ROTATED.fullmatch(name, len(log_name)) is not None


def _generation(name: str) -> int | None:
    digits = name.rpartition(".")[2]
    return int(digits) if digits.isdecimal() and len(digits) <= _LONGEST_GENERATION else None


def _between(name: str, old: str, new: str) -> bool:
    """Whether a numbered name ("log.real.4") lies between those of the old and the new target of a symbolic link."""
    parts = [_NUMBER.fullmatch(text) for text in (old, name, new)]
    if None in parts:
        return False
    (old_stem, low), (stem, number), (new_stem, high) = (part.groups() for part in parts if part is not None)
    return old_stem == stem == new_stem and int(low) < int(number) < int(high)


def _list(log: str, old: str) -> dict[str, os.stat_result]:
    """The log, and the rotated files of it and of the link's old target, as full path to lstat."""
    listing: dict[str, os.stat_result] = {}
    new_name, old_name = os.path.basename(log), os.path.basename(old)
    for directory in dict.fromkeys((os.path.dirname(old), os.path.dirname(log))):
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    name = entry.name
                    if (
                        entry.path == log or is_rotated(name, new_name) or is_rotated(name, old_name) or _between(name, old_name, new_name)
                    ) and entry.is_file(follow_symlinks=False):
                        listing[entry.path] = entry.stat(follow_symlinks=False)
        except OSError:
            # Gone, or renamed under our hands: the caller looks twice, and again at the next read().
            continue
    return listing


class Siblings:
    """Remembers the files that need no more reading, so that each generation is read once."""

    def __init__(self) -> None:
        self._marks: dict[Identity, _Mark] = {}

    def mark(self, source: Source) -> None:
        """Remember that a file was read up to its offset."""
        # An empty file is not remembered: what is written to it later is new, and its inode may come back as another.
        if source.offset:
            self._put(source.identity, _Mark(source.offset, source.mtime_ns, (source.head, source.tail)))

    def mark_history(self, log: str) -> None:
        """Remember all rotated files that are there now as needing no reading."""
        for path, status in _list(log, log).items():
            if path != log and status.st_size:
                try:
                    source = Source(path)
                except OSError:
                    self._put(identity(status), _Mark(status.st_size, status.st_mtime_ns, None))
                    continue
                source.seek(source.size)
                self.mark(source)
                source.close()

    def read_before(self, source: Source) -> int:
        """How many bytes of a file were read before: 0 for a new one, also when it got the inode of a read one."""
        mark = self._marks.get(source.identity)
        if mark is None or source.size < mark.size:
            return 0
        if mark.ends is None:
            return mark.size if (source.size, source.mtime_ns) == (mark.size, mark.mtime_ns) else 0
        head, tail = mark.ends
        known = (source.before(len(head)), source.before(mark.size, len(tail))) == mark.ends
        return mark.size if known else 0

    def scan(self, log: str, newest: Source | None, held: Collection[Identity]) -> Scan:
        """Open the log and the unread rotated files, leaving out `held`; an error of the log itself is returned."""
        old = newest.path if newest else log
        not_before_ns = newest.first_mtime_ns if newest else 0
        listing = _list(log, old)
        for attempt in range(_TRIES):
            scan = self._open(listing, log, not_before_ns, held)
            again = _list(log, old)
            # A rotation may shift all names while we open them one by one. Only a listing that is the same before and
            # after proves that no generation slipped past under another name.
            if attempt == _TRIES - 1 or _same(listing, again):
                break
            for source in scan.files:
                source.close()
            listing = again
        return scan

    def _open(self, listing: dict[str, os.stat_result], log: str, not_before_ns: int, held: Collection[Identity]) -> Scan:
        found: list[Source] = []
        older: list[int] = []
        current, error, unreadable = None, None, 0
        seen = set(held)
        for path, status in listing.items():
            number = _generation(path)
            if path == log:
                continue
            # A generation after `newest` cannot have been written last before `newest` was.
            if identity(status) in seen or status.st_mtime_ns < not_before_ns:
                older += [] if number is None else [number]
                continue
            try:
                source = Source(path)
            except FileNotFoundError:
                continue
            except OSError:
                mark = _Mark(status.st_size, status.st_mtime_ns, None)
                if self._marks.get(identity(status)) != mark:
                    self._put(identity(status), mark)
                    unreadable += status.st_size
                continue
            if source.identity in seen or self.read_before(source):
                older += [] if number is None else [number]
                source.close()
            else:
                seen.add(source.identity)
                found.append(source)
        try:
            current = Source(log)
        except OSError as exc:
            error = exc
        if current and current.identity in seen:
            current.close()
            current = None
        return Scan(_in_order(found, older), current, error, unreadable)

    def _put(self, key: Identity, mark: _Mark) -> None:
        self._marks.pop(key, None)
        self._marks[key] = mark
        if len(self._marks) > _MOST_MARKS:
            del self._marks[next(iter(self._marks))]


def _same(one: dict[str, os.stat_result], other: dict[str, os.stat_result]) -> bool:
    return one.keys() == other.keys() and all(identity(one[path]) == identity(other[path]) for path in one)


def _in_order(found: list[Source], older: list[int]) -> list[Source]:
    """Oldest first: by the time of the last write, and within one tick of that clock by generation number.

    Numbers run down to the newest file where each rotation shifts them (logrotate), and up where it takes the next
    one. The numbers of the files known to be older tell which.
    """
    numbers = [number for source in found if (number := _generation(source.path)) is not None]
    up = bool(older and numbers) and max(older) < min(numbers)

    def key(source: Source) -> tuple[int, int, str]:
        number = _generation(source.path) or 0
        return source.mtime_ns, number if up else -number, source.path

    return sorted(found, key=key)
