"""Follow logs: read what is appended to them, through every kind of rotation, and wake when there is more."""

from exporter.tail._bookmark import Identity
from exporter.tail._files import files_below
from exporter.tail._log_file import identity
from exporter.tail._siblings import ROTATED
from exporter.tail.chunk import Chunk, FollowerStats
from exporter.tail.follower import Follower
from exporter.tail.stdin import StdinFollower
from exporter.tail.watch import EventWatcher, PollingWatcher, Watcher, appearances, auto

__all__ = (
    "ROTATED",
    "Chunk",
    "EventWatcher",
    "Follower",
    "FollowerStats",
    "Identity",
    "PollingWatcher",
    "StdinFollower",
    "Watcher",
    "appearances",
    "auto",
    "files_below",
    "identity",
)
