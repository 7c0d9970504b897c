"""What a carriage return means: a redrawn progress bar, a record that goes on in the next line, or a terminal's line end."""

from typing import TypeAlias

Key: TypeAlias = tuple[str, int]
"""Time and place in a header: what all lines of one record repeat."""

_MANY_FRAMES = 4
_FINISHED = "100%"
_FIGURES = " .0123456789"
_TERMINAL_SIGNS = 3
_PROCESS_LIMIT = 256


class CarriageReturns:
    r"""Follows the records that are open because their last line ended in `\r`.

    vLLM ends each line of a record but the last in `\r\n` and repeats the header. A terminal ends every line so, and a line
    that goes on in `\r\r\n`.
    """

    STATE = ("open", "_signs")

    def __init__(self) -> None:
        self.open: dict[str, Key] = {}
        """By process, the record that its next line continues."""
        self._signs = 0

    def split(self, line: str) -> tuple[list[str], bool]:
        """The parts of a line between carriage returns, and whether its record goes on."""
        if not line.endswith("\r"):
            self._signs = 0
        elif self._signs >= _TERMINAL_SIGNS:
            line = line[:-1]
        return _told([part for part in line.split("\r") if part]), line.endswith("\r")

    def only_ends(self, line: str) -> bool:
        """Whether all that a carriage return does in this line is to end it, as a terminal does."""
        return self._signs >= _TERMINAL_SIGNS and not self.open and line.find("\r") == len(line) - 1 > 0

    def plain_line(self) -> None:
        """A line without any carriage return: this is no terminal."""
        self._signs = 0

    def continues(self, who: str, key: Key) -> bool:
        """Whether a line with this header belongs to the open record of its process."""
        opened = self.open.pop(who, None)
        if self.open:
            self.open = {process: each for process, each in self.open.items() if each[0] == key[0]}
        if opened is not None and opened != key:
            self._signs += 1  # the record before was complete
        return opened == key

    def goes_on(self, who: str, key: Key | None) -> None:
        """The line before ended in a carriage return; without a header it cannot be a record that goes on."""
        if key is None:
            self._signs += 1
        elif len(self.open) < _PROCESS_LIMIT:
            self.open[who] = key


def _told(parts: list[str]) -> list[str]:
    """Without the frames of a progress bar between others of the same bar: a bar may be drawn ten thousand times, and each has the price of a line.

    What it tells, it tells as it begins, at its end, and at 100 %.
    """
    if len(parts) < _MANY_FRAMES:
        return parts
    bars = [part.partition("%")[0].rstrip(_FIGURES) if part[-1] == "]" else "" for part in parts]
    around = zip(parts, bars, ["", *bars], [*bars[1:], ""], strict=False)
    return [part for part, bar, before, after in around if not bar or before != bar or after != bar or _FINISHED in part]
