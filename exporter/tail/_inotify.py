"""An observer that lets the kernel merge what a busy writer causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import DEFAULT_EVENT_BUFFER_SIZE, InotifyFD

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent

_PAUSE_SECONDS: Final = 0.01


class _CalmInotify(InotifyFD):
    """Takes events at most every 10 ms.

    Each unbuffered line is an event, and each event costs watchdog some 0.05 ms of Python in three threads: 5000 lines
    a second are a quarter of a CPU. Equal events that nobody has taken yet are one event in the kernel, so a pause
    before each look makes it a hundred a second, while the first event after a quiet time is taken at once.
    """

    _pause = 0.0

    def read_events(self, *, event_buffer_size: int = DEFAULT_EVENT_BUFFER_SIZE) -> list[InotifyEvent]:
        # Before the read, so that what was taken is dealt with at once; it ends early when the observer stops.
        self.stopped_event.wait(self._pause)
        events = super().read_events(event_buffer_size=event_buffer_size)
        self._pause = _PAUSE_SECONDS if events else 0.0
        return events


class CalmObserver(BaseObserver):
    """watchdog's observer on one inotify instance of its own; OSError when there is none left."""

    def __init__(self) -> None:
        """Take an inotify instance."""
        self._inotify = _CalmInotify()
        self._inotify.start()
        super().__init__(InotifyEmitter, inotify_fd=self._inotify)

    def on_thread_stop(self) -> None:
        """Give the instance back."""
        super().on_thread_stop()
        self._inotify.stop()
        self._inotify.join()
