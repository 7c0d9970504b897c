"""A log that is read on after a restart, though no byte of its text was kept."""

from parsers.log import LinePatterns, Log
from parsers.matching import Found

_REPLAY_LIMIT = 1024 * 1024
"""Bytes after which a line whose last part never came is given up."""


class ResumableLog:
    """A Log, and how far a reader must go back in the file to continue from this state.

    What a line's beginning said is only in the file: those bytes are fed again. Where the beginning is a part that a
    container runtime delivered, whole lines of its other output may follow it; of these only the wrapping is read again.
    """

    STATE = ("log", "replay")

    def __init__(self, year: int, month: int = 12, patterns: LinePatterns | None = None) -> None:
        """As Log."""
        self.log = Log(year, month, patterns)
        self._written = year, month
        self._replayed: Log | None = None
        self._left_to_replay = 0
        self._since_whole = 0

    @property
    def unfinished(self) -> int:
        """Bytes, counted back from the last one fed, that must be fed again."""
        return self._since_whole if self._in_parts else self.log.unfinished

    @property
    def replay(self) -> int:
        """How many of the bytes to be fed again were counted before."""
        if self._replayed:
            return self._since_whole + self._left_to_replay
        return self._since_whole - self.log.unfinished if self._in_parts else 0

    @replay.setter
    def replay(self, count: int) -> None:
        self._left_to_replay = count
        self._replayed = Log(*self._written) if count else None
        self._since_whole = 0

    @property
    def _in_parts(self) -> bool:
        return self._replayed is not None or (self.log.in_parts and self._since_whole <= _REPLAY_LIMIT)

    def feed(self, data: bytes) -> list[Found]:
        """The events of all lines that `data` completes."""
        if not self._in_parts:
            self._since_whole = self.log.unfinished
        self._since_whole += len(data)
        if self._replayed:
            known, data = data[: self._left_to_replay], data[self._left_to_replay :]
            self._left_to_replay -= len(known)
            self._replayed.feed(known)
            if self._left_to_replay:
                return []
            self.log.continue_parts(self._replayed)
            self._replayed = None
        return self.log.feed(data)

    def close(self) -> list[Found]:
        """The events of a last line that has no line break. Parts of a line may go on in the file that comes next."""
        self._replayed, self._left_to_replay, self._since_whole = None, 0, 0
        return self.log.close()
