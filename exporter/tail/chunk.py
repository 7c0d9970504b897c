"""What a follower gives: bytes, and figures about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Chunk(NamedTuple):
    """Some bytes of a log."""

    data: bytes
    begins_file: bool
    """A half line before them will never be completed."""
    written: float = 0.0
    """When their file was last written (epoch): none of them is younger."""


@dataclass
class FollowerStats:
    """What happened to one log so far, and how it is now."""

    read_bytes: int = 0
    rotations: int = 0
    truncations: int = 0
    lost_bytes: int = 0
    """Bytes known to be lost: seen in a file before it was truncated, or in a generation that could not be read."""
    lag_bytes: int = 0
    """Bytes written but not read, in all open files, as of the end of the last read()."""
    up: bool = False
    """The log can be read: a file is open, and it is the one at the path, or nothing new is there after a rename."""
    error: str = ""
    """Why the last read() could not do all it wanted ("ENOENT"), empty when it could."""
