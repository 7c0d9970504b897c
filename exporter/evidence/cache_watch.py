"""Watches JIT caches for new kernels: by file system events, and by looking anew where these are lost or not to be had."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from exporter.evidence.cache_layout import artefact, is_leaf, is_of_interest
from exporter.evidence.cache_tree import MOST_ENTRIES, CacheTree
from exporter.tail import appearances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from watchdog.observers.inotify_c import InotifyEvent, WatchDescriptor

    from exporter.evidence.sightings import CacheSighting
    from exporter.tail._inotify import AppearanceInotify

LOOK_SECONDS = 10.0
"""How often a cache directory that was not there is looked for, and how often at most all are gone through."""

LEAST_SECONDS = 0.5
"""However many files come, they are looked at this often."""

MOST_WATCHES = 4096
MOST_PENDING = 10_000
_LEAF_SECONDS = 300.0
"""How long a kernel's own directory may stay empty."""

_OVERLAP_SECONDS = 1.0
"""Clocks of file systems tick; what is found twice counts once."""


class CacheWatch:
    """The caches of one source. What is there at first is no compile."""

    def __init__(self, roots: Iterable[str], publish: Callable[[CacheSighting], None], wake: Callable[[], None]) -> None:
        """`publish` takes what was seen, `wake` is called when there is something to look at, from another thread."""
        self._trees = {root: CacheTree(root) for root in roots}
        self._publish, self._wake = publish, wake
        self._lock = threading.Lock()
        self._pending: dict[str, str] = {}
        self._gone: list[WatchDescriptor] = []
        self._missed = False
        """Events were lost, or there is something that cannot be watched."""
        self._watched: dict[WatchDescriptor, tuple[str, str]] = {}
        self._paths: dict[str, WatchDescriptor] = {}
        self._leaves: dict[str, float] = {}
        self._budget = MOST_ENTRIES
        self._seen_until = 0.0
        self._inotify: AppearanceInotify | None = None

    def close(self) -> None:
        """End watching."""
        if self._inotify:
            self._inotify.stop()
            self._inotify.join()

    # -- by the thread that looks --------------------------------------------------------------------------------------

    def look(self) -> None:
        """Publish what is new; the first time nothing is."""
        now = time.time()
        if not self._seen_until:
            self._seen_until = now
            self._inotify = _started()
            for root in self._trees:
                self._watch_below(root)
            return
        with self._lock:
            pending, self._pending = self._pending, {}
            gone, self._gone = self._gone, []
            missed, self._missed = self._missed, False
        self._forget(gone)
        self._budget = MOST_ENTRIES
        for path, root in pending.items():
            self._take(path, root)
        for root in self._trees:
            if root not in self._paths and os.path.isdir(root):
                self._watch_below(root)
                missed = True  # it was not there before, and what is in it came since
        self._leave_leaves()
        if not missed and self._inotify:
            self._seen_until = now
        elif now - self._seen_until >= LOOK_SECONDS:
            self._go_through()
            self._seen_until = now
        else:
            self._missed = True  # until it is time

    def _go_through(self) -> None:
        for tree in self._trees.values():
            for sighting in tree.new_since(self._seen_until - _OVERLAP_SECONDS):
                self._publish(sighting)

    def _take(self, path: str, root: str) -> None:
        """Something appeared: a kernel, or a directory in which more appeared before it was watched."""
        self._budget -= 1
        tree = self._trees[root]
        if sighting := tree.sighting(path):
            self._publish(sighting)
            if is_leaf(os.path.dirname(path)):
                self._remove(os.path.dirname(path))
        elif self._budget < 0:
            self._missed = True
        elif artefact(path) is None and tree.may_hold(path) and os.path.isdir(path) and not os.path.islink(path):
            self._watch(path, root)
            for name in filter(is_of_interest, _names(path)):
                self._take(os.path.join(path, name), root)

    # -- what is watched -----------------------------------------------------------------------------------------------

    def _watch_below(self, root: str) -> None:
        for directory in self._trees[root].directories():
            self._watch(directory, root)

    def _watch(self, directory: str, root: str) -> None:
        if self._inotify is None or directory in self._paths:
            return
        if len(self._paths) >= MOST_WATCHES:
            self._missed = True
            return
        try:
            watch = self._inotify.add(directory, self)
        except OSError as error:
            self._missed = self._missed or error.errno == errno.ENOSPC
            return
        self._watched[watch], self._paths[directory] = (directory, root), watch
        if is_leaf(directory):
            self._leaves[directory] = time.monotonic()

    def _remove(self, directory: str) -> None:
        watch = self._paths.pop(directory, None)
        self._leaves.pop(directory, None)
        if watch is not None and self._inotify:
            self._watched.pop(watch, None)
            with suppress(OSError):  # stopped meanwhile
                self._inotify.remove(watch)

    def _leave_leaves(self) -> None:
        """A kernel's own directory in which none appeared: a build that failed, or a hash of something else."""
        now = time.monotonic()
        for path in [path for path, since in self._leaves.items() if now - since > _LEAF_SECONDS]:
            self._remove(path)

    def _forget(self, gone: list[WatchDescriptor]) -> None:
        for watch in gone:
            directory, _ = self._watched.pop(watch, ("", ""))
            self._paths.pop(directory, None)
            self._leaves.pop(directory, None)

    # -- by inotify's thread -------------------------------------------------------------------------------------------

    def on_event(self, event: InotifyEvent) -> None:
        """Take an event."""
        directory, root = self._watched.get(event.wd, ("", ""))
        name = os.fsdecode(event.name) if event.name else ""
        if not directory or not name or not (event.is_create or event.is_moved_to) or not is_of_interest(name):
            return
        with self._lock:
            if len(self._pending) < MOST_PENDING:
                self._pending[os.path.join(directory, name)] = root
            else:
                self._missed = True
        self._wake()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Take the end of a watch with its directory."""
        with self._lock:
            self._gone.append(wd)

    def on_queue_overflow(self) -> None:
        """Take it that events were lost."""
        with self._lock:
            self._missed = True


def _started() -> AppearanceInotify | None:
    try:
        inotify = appearances()
    except OSError:
        return None
    inotify.start()
    return inotify


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
