"""inotify, in a way that lets the kernel merge what a busy writer causes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from watchdog.observers.inotify_c import DEFAULT_EVENT_BUFFER_SIZE, CallbackId, InotifyConstants, InotifyFD, Mask

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent, WatchCallback, WatchDescriptor

_PAUSE_SECONDS: Final = 0.01

_MASK: Final = Mask(
    # Not opened, read and closed-without-write, which our own reads cause.
    InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_ATTRIB  # chmod after create makes a log readable
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
_ID: Final = CallbackId(0)


class CalmInotify(InotifyFD):
    """One inotify instance, with a thread that takes events at most every 10 ms; OSError when there is none left.

    Each unbuffered line is an event: 5000 lines a second would be a quarter of a CPU. Equal events that nobody has
    taken yet are one event in the kernel, so a pause before each look makes it a hundred a second, while the first
    event after a quiet time is taken at once. watchdog's observer on top of this would add a thread for each directory.
    """

    _pause = 0.0
    _mask = _MASK

    def add(self, directory: str, callback: WatchCallback) -> WatchDescriptor:
        """Watch a directory that we may read; OSError when it is gone, ENOSPC when there are no watches left."""
        return self.add_callback(os.fsencode(directory), self._mask, callback, _ID)

    def remove(self, watch: WatchDescriptor) -> None:
        """End a watch, which the kernel may have ended before."""
        self.remove_callbacks([(watch, _ID)])

    def read_events(self, *, event_buffer_size: int = DEFAULT_EVENT_BUFFER_SIZE) -> list[InotifyEvent]:
        # Before the read, so that what was taken is dealt with at once; it ends early when we stop.
        self.stopped_event.wait(self._pause)
        events = super().read_events(event_buffer_size=event_buffer_size)
        self._pause = _PAUSE_SECONDS if events else 0.0
        return events


class AppearanceInotify(CalmInotify):
    """Tells only of what appears in a directory: a compiler's writes are a thousand events for each file that matters."""

    _mask = Mask(
        InotifyConstants.IN_CREATE
        | InotifyConstants.IN_MOVED_TO
        | InotifyConstants.IN_DELETE_SELF
        | InotifyConstants.IN_MOVE_SELF
        | InotifyConstants.IN_ONLYDIR
        | InotifyConstants.IN_DONT_FOLLOW
    )
