"""Wake when a log may have changed: by file system events where they can be had, else by the clock alone."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from exporter.tail._log_file import Identity, identity
from exporter.tail._rotated import rotated_from

if sys.platform == "linux":
    from exporter.tail._inotify import AppearanceInotify, CalmInotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from watchdog.observers.inotify_c import InotifyEvent, WatchDescriptor

logger = logging.getLogger("inferlog.tail")

_RETRY_SECONDS: Final = 1.0
_OUT_OF_WATCHES_SECONDS: Final = 10.0
_LOOKS_A_SECOND: Final = 100
"""A look costs a system call (2 us) for each directory: this many each second cost 0.02 CPU s a minute."""
_MOST_LINKS: Final = 40


class Watcher:
    """Waits until a log may have changed; this base knows only wake() and the clock."""

    polling = True
    """Whether changes may go unseen, so that the logs should be looked at often."""

    def __init__(self, paths: Iterable[str | Path], directories: Iterable[str] = ()) -> None:
        """Watch as by watch()."""
        self._changed = threading.Event()
        self._entries = threading.Event()
        self._given = tuple(paths), tuple(directories)
        self._wanted = _wanted(*self._given)

    def start(self) -> None:
        """Begin to watch; OSError when that cannot be done here."""

    def watch(self, paths: Iterable[str | Path], directories: Iterable[str] = ()) -> None:
        """From now on watch these logs, and these directories for new entries; none need exist; from any thread."""
        given = tuple(paths), tuple(directories)
        if given == self._given:
            return
        wanted = _wanted(*given)
        changed, self._given, self._wanted = wanted != self._wanted, given, wanted
        if changed:
            self._on_watch()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last wait."""
        changed = self._changed.wait(timeout)
        # Cleared before the caller reads: a change during its read makes the next wait return at once.
        self._changed.clear()
        return changed

    def new_entries(self) -> bool:
        """Whether the directories of watch() are known to have got or lost an entry since the last call."""
        entries = self._entries.is_set()
        self._entries.clear()
        return entries

    def wake(self) -> None:
        """Make the current wait, or the next one, return True; from any thread."""
        self._changed.set()

    def stop(self) -> None:
        """End watching and wake the waiter; may be called twice."""
        self.wake()

    def _on_watch(self) -> None:
        """Other logs are wanted."""


class PollingWatcher(Watcher):
    """Nothing but the interval: each wait that times out may have missed a change, and so returns True."""

    def wait(self, timeout: float) -> bool:
        """Wait `timeout` seconds, or until wake(); always True."""
        super().wait(timeout)
        return True


class _Directory(NamedTuple):
    """What a directory is watched for."""

    path: str
    identity: Identity
    names: frozenset[str]
    is_root: bool

    def concerns(self, name: str) -> bool:
        """Whether a name in it is a log, a link on the way to one, or a rotated generation."""
        return name in self.names or any(log in self.names for log, _ in rotated_from(name))


class EventWatcher(Watcher):
    """Watches the directories of the logs, and of what they link to, through one inotify instance.

    Directories are told apart by device and inode, for one may be reached by several paths, and one path may lead to
    another directory later. All watching is done by the thread that waits; the others leave word.
    """

    polling = False

    def __init__(
        self,
        paths: Iterable[str | Path],
        directories: Iterable[str] = (),
        *,
        inotify: Callable[[], CalmInotify] | None = None,
    ) -> None:
        """Watch as by watch(); `inotify` makes the source of events."""
        super().__init__(paths, directories)
        self._make_inotify = inotify or _inotify
        self._inotify: CalmInotify | None = None
        self._names: dict[str, set[str]] = {}
        self._seen: dict[str, Identity | None] = {}
        self._watched: Mapping[WatchDescriptor, _Directory] = {}
        self._gone: deque[WatchDescriptor] = deque()
        self._stale = threading.Event()
        self._next_look = 0.0
        self._told = False

    def start(self) -> None:
        """Begin to watch; OSError when there is no inotify instance to be had."""
        inotify = self._make_inotify()
        inotify.start()
        self._inotify = inotify
        self._stale.set()
        self._look()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last wait."""
        end = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            if (self._stale.is_set() or now >= self._next_look) and self._look():
                self.wake()
            # In slices: a directory that is not there yet makes no event that we could get.
            if super().wait(max(0.0, min(end - now, _RETRY_SECONDS))):
                return True
            if time.monotonic() >= end:
                return self.polling

    def stop(self) -> None:
        """End watching and wake the waiter; may be called twice."""
        inotify, self._inotify = self._inotify, None
        if inotify:
            inotify.stop()
            inotify.join()
        super().stop()

    def _on_watch(self) -> None:
        self._stale.set()
        self.wake()

    def _look(self) -> bool:
        """Watch the directories that matter now; True when one was added, in which a log may have changed unseen."""
        inotify = self._inotify
        if inotify is None:
            return False
        stale = self._stale.is_set()
        self._stale.clear()
        seen = {} if stale else {path: self._identity(path) for path in self._names}
        added = False
        if stale or seen != self._seen or self.polling:
            paths, roots = self._wanted
            # A link that another directory has in the place of the old one may lead elsewhere.
            self._names = _names_by_directory(paths)
            for root in roots:
                self._names.setdefault(root, set())
            self._seen = {path: self._identity(path) for path in self._names}
            added = self._watch_seen(inotify, frozenset(roots))
        retry = _RETRY_SECONDS if not self.polling else _OUT_OF_WATCHES_SECONDS
        self._next_look = time.monotonic() + max(retry, len(self._names) / _LOOKS_A_SECOND)
        return added

    def _identity(self, path: str) -> Identity | None:
        try:
            found = identity(os.stat(path))
        except OSError:
            return None
        # watchdog takes EACCES for success, and no event would ever come.
        return found if self._seen.get(path) == found or (os.path.isdir(path) and os.access(path, os.R_OK)) else None

    def _watch_seen(self, inotify: CalmInotify, roots: frozenset[str]) -> bool:
        """Watch what was seen and nothing else; True when a watch was added."""
        gone = {self._gone.popleft() for _ in range(len(self._gone))}
        wanted: dict[Identity, _Directory] = {}
        for path, found in self._seen.items():
            if found:
                known = wanted.get(found, _Directory(path, found, frozenset(), is_root=False))
                wanted[found] = _Directory(known.path, found, known.names | self._names[path], known.is_root or path in roots)
        watches = {each.identity: watch for watch, each in self._watched.items() if watch not in gone}
        for found in watches.keys() - wanted.keys():
            # Before the others are added: a directory that was replaced in between has the watch of another already.
            with contextlib.suppress(OSError):  # stopped meanwhile
                inotify.remove(watches.pop(found))
        new = [each for each in wanted.values() if each.identity not in watches]
        self._watch_new(inotify, new, watches)
        roots_before = {each.identity for watch, each in self._watched.items() if each.is_root and watch not in gone}
        self._watched = {watch: wanted[found] for found, watch in watches.items()}
        if any(each.is_root and each.identity not in roots_before for each in self._watched.values()):
            self._entries.set()  # what came before the watch
        return bool(new)

    def _watch_new(self, inotify: CalmInotify, new: list[_Directory], watches: dict[Identity, WatchDescriptor]) -> None:
        self.polling = False
        for each in new:
            try:
                watches[each.identity] = inotify.add(each.path, self)
            except OSError as error:
                self._seen[each.path] = None  # so that the next look finds a change
                if error.errno in {errno.ENOSPC, errno.ENOMEM}:
                    self._poll(error)
                    break
                logger.debug("cannot watch a directory, retrying: %s", error)

    def _poll(self, error: OSError) -> None:
        self.polling = True
        if not self._told:
            self._told = True
            logger.warning("not all directories can be watched (%s): polling too; see fs.inotify.max_user_watches", error)

    def on_event(self, event: InotifyEvent) -> None:
        """Take an event; called by the thread of inotify."""
        directory = self._watched.get(event.wd)
        if directory is None:
            return
        if not event.name:
            # Of the directory itself, which may have been moved, or closed to us.
            self._on_watch()
            return
        name = os.fsdecode(event.name)
        if directory.concerns(name):
            if (event.is_create or event.is_moved_to) and os.path.islink(os.path.join(directory.path, name)):
                self._stale.set()  # it may lead into another directory now
            self.wake()
        elif directory.is_root and not event.is_modify:
            self._entries.set()
            self.wake()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Take the end of a watch with its directory, whose inode number may come back for another."""
        self._gone.append(wd)
        self._on_watch()

    def on_queue_overflow(self) -> None:
        """Take it that events were lost."""
        self._entries.set()
        self._on_watch()


def auto(
    paths: Iterable[str | Path], directories: Iterable[str] = (), *, inotify: Callable[[], CalmInotify] | None = None
) -> EventWatcher | PollingWatcher:
    """A started watcher: by events, or by polling, with one warning, where inotify is not to be had."""
    paths, directories = list(paths), list(directories)
    events = EventWatcher(paths, directories, inotify=inotify)
    try:
        events.start()
    except OSError as error:
        logger.warning("no file system events (%s): polling instead; see fs.inotify.max_user_instances", error)
        polling = PollingWatcher(paths, directories)
        polling.start()
        return polling
    return events


def _inotify() -> CalmInotify:
    if sys.platform == "linux":
        return CalmInotify()
    raise OSError(errno.ENOSYS, "inotify is Linux's")


def appearances() -> AppearanceInotify:
    """What tells of new entries of directories alone, not started; OSError where there is none to be had."""
    if sys.platform == "linux":
        return AppearanceInotify()
    raise OSError(errno.ENOSYS, "inotify is Linux's")


def _wanted(paths: Iterable[str | Path], directories: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(map(os.path.abspath, paths)), tuple(sorted(map(os.path.abspath, directories)))


def _names_by_directory(paths: Iterable[str]) -> dict[str, set[str]]:
    """Directory to the names in it that concern us: each log, and each link on the way to its file."""
    names: dict[str, set[str]] = {}
    for path in paths:
        link = path
        for _ in range(_MOST_LINKS):
            directory, name = os.path.split(link)
            names.setdefault(directory, set()).add(name)
            try:
                link = os.path.join(directory, os.readlink(link))
            except OSError:
                break  # no link, or nothing there
    return names
