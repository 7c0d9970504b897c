"""Wake when a log may have changed: by file system events where they can be had, else by the clock alone."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from watchdog.events import (
    DirDeletedEvent,
    FileAttribEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)

from exporter.tail._siblings import is_rotated
from exporter.tail._source import Identity, identity

if sys.platform == "linux":
    from exporter.tail._inotify import CalmObserver as Observer
else:
    from watchdog.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from watchdog.observers.api import BaseObserver, ObservedWatch

logger = logging.getLogger("inferlog.tail")

_EVENTS: Final[list[type[FileSystemEvent]]] = [
    # A filter, and so also the kernel's mask: opened, read and closed-without-write are what our own reads cause.
    FileModifiedEvent,
    FileCreatedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    FileAttribEvent,  # chmod after create makes a log readable
    DirDeletedEvent,
]
_RETRY_SECONDS: Final = 1.0
_MOST_LINKS: Final = 40


class Watcher:
    """Waits until a log may have changed; this base knows only wake() and the clock."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Watch the logs at `paths`, which need not exist."""
        self._paths = [os.path.abspath(path) for path in paths]
        self._changed = threading.Event()

    def start(self) -> None:
        """Begin to watch; OSError when that cannot be done here."""

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last wait."""
        changed = self._changed.wait(timeout)
        # Cleared before the caller reads: a change during its read makes the next wait return at once.
        self._changed.clear()
        return changed

    def wake(self) -> None:
        """Make the current wait, or the next one, return True; from any thread."""
        self._changed.set()

    def stop(self) -> None:
        """End watching and wake the waiter; may be called twice."""
        self.wake()


class PollingWatcher(Watcher):
    """Nothing but the interval: each wait that times out may have missed a change, and so returns True."""

    def wait(self, timeout: float) -> bool:
        """Wait `timeout` seconds, or until wake(); always True."""
        super().wait(timeout)
        return True


class EventWatcher(Watcher):
    """Watches the directories of the logs, and of what they link to, through one inotify instance."""

    def __init__(self, paths: Iterable[Path], *, observer: Callable[[], BaseObserver] = Observer) -> None:
        """Watch the logs at `paths`; `observer` makes the source of events."""
        super().__init__(paths)
        self._make_observer = observer
        self._observer: BaseObserver | None = None
        self._watches: dict[str, tuple[ObservedWatch, Identity]] = {}
        self._names: dict[str, set[str]] = {}
        self._handler = _Handler(self._on_event)
        self._stale = threading.Event()
        self._next_look = 0.0

    def start(self) -> None:
        """Begin to watch; OSError when there is no inotify instance or watch to be had."""
        observer = self._make_observer()
        observer.start()
        self._observer = observer
        try:
            self._look()
        except OSError:
            self.stop()
            raise

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; True when something may have changed since the last wait."""
        end = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            if self._observer and (self._stale.is_set() or now >= self._next_look):
                try:
                    if self._look():
                        self.wake()
                except OSError as exc:
                    logger.debug("cannot watch a directory, retrying: %s", exc)
            # In slices: a directory that is not there yet, or was moved away, makes no event that we could get.
            if super().wait(max(0.0, min(end - now, _RETRY_SECONDS))):
                return True
            if time.monotonic() >= end:
                return False

    def stop(self) -> None:
        """End watching and wake the waiter; may be called twice."""
        observer, self._observer = self._observer, None
        if observer:
            observer.stop()
            observer.join()
        super().stop()

    def _look(self) -> bool:
        """Watch the directories that matter now; True when one was added, in which a log may have changed unseen."""
        self._stale.clear()
        self._next_look = time.monotonic() + _RETRY_SECONDS
        observer = self._observer
        if observer is None:
            return False
        self._names = names = _names_by_directory(self._paths)
        added = False
        for directory in {*names, *self._watches}:
            found = _readable_directory(directory) if directory in names else None
            watch = self._watches.get(directory)
            if watch and watch[1] != found:
                del self._watches[directory]
                observer.unschedule(watch[0])
            if found and directory not in self._watches:
                self._watches[directory] = observer.schedule(self._handler, directory, event_filter=_EVENTS), found
                added = True
        return added

    def _on_event(self, event: FileSystemEvent) -> None:
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if isinstance(event, DirDeletedEvent):
            # Its watch is gone with it, and the inode number may come back for the directory made in its place.
            watch = self._watches.get(paths[0])
            if watch:
                self._watches[paths[0]] = watch[0], (0, 0)
                self._stale.set()
                self.wake()
        elif any(self._is_ours(path) for path in paths):
            if not isinstance(event, FileModifiedEvent):
                self._stale.set()  # a link may lead into another directory now
            self.wake()

    def _is_ours(self, path: str) -> bool:
        directory, name = os.path.split(path)
        return any(name == log or is_rotated(name, log) for log in self._names.get(directory, ()))


class _Handler(FileSystemEventHandler):
    def __init__(self, on_event: Callable[[FileSystemEvent], None]) -> None:
        self._on_event = on_event

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._on_event(event)


def auto(paths: Iterable[Path], *, observer: Callable[[], BaseObserver] = Observer) -> Watcher:
    """A started watcher: by events, or by polling, with one warning, where inotify is not to be had."""
    watched = list(paths)
    events = EventWatcher(watched, observer=observer)
    try:
        events.start()
    except OSError as exc:
        logger.warning("no file system events (%s): polling instead; see fs.inotify.max_user_instances", exc)
        polling = PollingWatcher(watched)
        polling.start()
        return polling
    return events


def _readable_directory(path: str) -> Identity | None:
    # watchdog takes EACCES for success, and no event would ever come.
    if not os.access(path, os.R_OK) or not os.path.isdir(path):
        return None
    try:
        return identity(os.stat(path))
    except OSError:
        return None


def _names_by_directory(paths: Iterable[str]) -> dict[str, set[str]]:
    """Real directory to the names in it that concern us: each log, and each link on the way to its file."""
    names: dict[str, set[str]] = {}
    for path in paths:
        link = path
        for _ in range(_MOST_LINKS):
            directory, name = os.path.split(link)
            # inotify is asked not to follow links, so a directory needs its real name.
            directory = os.path.realpath(directory)
            names.setdefault(directory, set()).add(name)
            try:
                link = os.path.join(directory, os.readlink(os.path.join(directory, name)))
            except OSError:
                break  # no link, or nothing there
    return names
