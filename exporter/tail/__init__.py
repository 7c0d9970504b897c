"""Follow logs: read what is appended to them, through every kind of rotation, and wake when there is more."""

from exporter.tail._bookmark import Identity
from exporter.tail._files import files_below
from exporter.tail._log_file import identity
from exporter.tail._rotated import ends_like_a_log, generation, rotated_from
from exporter.tail.chunk import Chunk, FollowerStats
from exporter.tail.follower import Follower
from exporter.tail.stdin import StdinFollower
from exporter.tail.watch import EventWatcher, PollingWatcher, Watcher, appearances, auto

__all__ = (
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
    "ends_like_a_log",
    "files_below",
    "generation",
    "identity",
    "rotated_from",
)
