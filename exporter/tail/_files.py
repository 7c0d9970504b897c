"""The file system as following a log needs it: a boundary at which a test can put another."""

from __future__ import annotations

import errno
import functools
import os
import stat
import time
from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


_MANY_NAMES: Final = 500
_MOST_LISTED: Final = 16
_SETTLED_NS: Final = 2_000_000_000
_LISTING_NS: Final = 10_000_000_000


class _Listed(NamedTuple):
    state: tuple[int, int, int]
    at_ns: int
    names: list[str]


class Files:
    """The calls to the real file system; each raises OSError as the system does."""

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        """With `roots`, real directories, only files that lie below one of them are opened, wherever links lead."""
        self._roots = tuple(os.path.join(root, "") for root in roots)
        self._listed: dict[str, _Listed] = {}

    stat = staticmethod(os.stat)
    fstat = staticmethod(os.fstat)
    pread = staticmethod(os.pread)
    close = staticmethod(os.close)

    def realpath(self, path: str) -> str:
        """Where the links of a path lead."""
        return os.path.realpath(path)

    def open(self, path: str) -> int:
        """A descriptor to read from."""
        # O_NONBLOCK: opening a FIFO that took the log's place must not wait for its writer.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        if not self._roots:
            return os.open(path, flags)
        # O_PATH holds what is there and does nothing to it. The kernel tells where that really is, and it is this very file
        # that is opened: nobody can put another, or a link to it, in its place in between.
        held = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            itself = f"/proc/self/fd/{held}"
            if not os.readlink(itself).startswith(self._roots):
                raise OSError(errno.EPERM, "leads out of the log directories", path)
            if not stat.S_ISREG(os.fstat(held).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            return os.open(itself, flags)
        finally:
            os.close(held)

    def regular(self, directory: str, prefixes: Collection[str], wanted: Callable[[str], bool]) -> dict[str, os.stat_result]:
        """The regular files of a directory, links not among them, whose names begin so and are wanted: path to status."""
        found = {}
        for name in self._names(directory, prefixes):
            if wanted(name):
                path = os.path.join(directory, name)
                with suppress(FileNotFoundError):
                    status = os.lstat(path)
                    if stat.S_ISREG(status.st_mode):
                        found[path] = status
        return found

    def _names(self, directory: str, prefixes: Collection[str]) -> Iterator[str]:
        names = self._sorted_names(directory)
        for prefix in prefixes:
            for index in range(bisect_left(names, prefix), len(names)):
                if not names[index].startswith(prefix):
                    break
                yield names[index]

    def _sorted_names(self, directory: str) -> list[str]:
        """All names of a directory. Thousands of logs in one would each list it: its time tells whether it changed.

        A time that is young may stand for a later change as well, and some file systems keep none: neither is trusted long.
        """
        now, status = time.time_ns(), os.stat(directory)
        state = status.st_dev, status.st_ino, status.st_mtime_ns
        listed = self._listed.get(directory)
        if listed and listed.state == state and 0 <= now - listed.at_ns < _LISTING_NS:
            return listed.names
        names = sorted(os.listdir(directory))
        self._listed.pop(directory, None)
        if len(names) >= _MANY_NAMES and now - status.st_mtime_ns > _SETTLED_NS:
            self._listed[directory] = _Listed(state, now, names)
            if len(self._listed) > _MOST_LISTED:
                del self._listed[next(iter(self._listed))]
        return names


REAL = Files()


@functools.cache
def files_below(roots: tuple[str, ...]) -> Files:
    """One for each set of roots: what is remembered of a directory serves all logs in it."""
    return Files(roots) if roots else REAL
