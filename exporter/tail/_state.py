"""What a follower saves and restores, as JSON types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from exporter.tail._bookmark import Bookmark, MalformedStateError, fields, integer, natural, restored_path

_COUNTERS: Final = ("read_bytes", "rotations", "truncations", "lost_bytes")


@dataclass
class Place:
    """Where a file was left that is not open."""

    mark: Bookmark
    incarnation: object = field(default_factory=object)

    def bookmark(self, unfinished: int = 0) -> Bookmark:
        """The bookmark as it was saved."""
        return self.mark


@dataclass
class Saved:
    """A follower between two lines."""

    started: bool
    files: list[Bookmark]
    """All that were held, oldest first."""
    spoke: int | None
    """Index of the file read last; -1: it is gone; None: nothing was read."""
    unfinished: int
    """Bytes of that file which were read and are to be read again."""
    after: tuple[str, int]
    """Path and first time of the newest file, also when it is gone: files written before are history."""
    marks: list[Any]
    counters: dict[str, int]

    def state(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "started": self.started,
            "files": [each.state() for each in self.files],
            "spoke": self.spoke,
            "unfinished": self.unfinished,
            "after": list(self.after),
            "marks": self.marks,
            **self.counters,
        }

    @classmethod
    def restore(cls, state: object) -> Saved:
        """What a state says, but for its marks; ValueError when it is malformed."""
        keys = {"started", "files", "spoke", "unfinished", "after", "marks", *_COUNTERS}
        if not isinstance(state, dict) or state.keys() != keys:
            raise MalformedStateError("not the state of a follower")
        files, spoke, marks = state["files"], state["spoke"], state["marks"]
        if not isinstance(files, list) or not isinstance(state["started"], bool) or not isinstance(marks, list):
            raise MalformedStateError("not the state of a follower")
        if spoke is not None and not -1 <= integer(spoke) < len(files):
            raise MalformedStateError("no such file")
        path, first_mtime_ns = fields(state["after"], 2)
        return cls(
            state["started"],
            [Bookmark.restore(each) for each in files],
            spoke,
            natural(state["unfinished"]),
            (restored_path(path), integer(first_mtime_ns)),
            marks,
            {name: natural(state[name]) for name in _COUNTERS},
        )
