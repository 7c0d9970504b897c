"""Bytes to physical lines: decoded, without colour codes and NULs, and never without end."""

from parsers.header import strip_colour

LINE_LIMIT = 64 * 1024
"""Characters after which a line is cut."""

_BYTES_A_CHARACTER = 4
_MARK = "\ufeff"  # of the byte order
_KEPT_BYTES = LINE_LIMIT * _BYTES_A_CHARACTER


class LineBuffer:
    """Completes lines over the bytes of a log as they come, whatever pieces they come in."""

    STATE = ("cut_lines", "_skipping")

    def __init__(self) -> None:
        self.cut_lines = 0
        self.returns = False
        """Whether the lines given last may have carriage returns in them."""
        self._rest = b""
        self._skipping = False

    @property
    def unfinished(self) -> int:
        """Bytes of a line whose end has not come yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, without their line breaks; carriage returns stay."""
        self.returns = False
        if self._skipping:
            ends = [at for mark in (b"\n", b"\r") if (at := data.find(mark)) >= 0]
            if not ends:
                return []
            self._skipping = False
            data = data[min(ends) + (data[min(ends)] == ord("\n")) :]
        end = data.rfind(b"\n")
        lines = [] if end < 0 else self._lines(self._rest + memoryview(data)[:end])
        self._rest = data[end + 1 :] if end >= 0 else self._rest + data
        if len(self._rest) > _KEPT_BYTES:
            lines += self._overlong()
        return lines

    def close(self) -> list[str]:
        """A last line that has no line break."""
        rest, self._rest, self._skipping = self._rest, b"", False
        return self._lines(rest) if rest else []

    def _overlong(self) -> list[str]:
        """A line without end is read as far as it may go and then skipped; of a chain of bars the last one is kept."""
        bar = self._rest.rfind(b"\r", 0, -1)
        if bar > 0:
            chain, self._rest = self._rest[:bar], self._rest[bar:]
            if len(self._rest) <= _KEPT_BYTES:
                return self._lines(chain)
            chain += self._rest
        else:
            chain = self._rest
        self._rest, self._skipping = b"", True
        return self._lines(chain)

    def _lines(self, block: bytes) -> list[str]:
        text = strip_colour(block.decode("utf-8", "replace"))
        self.returns = self.returns or "\r" in text
        if "\0" in text:
            text = text.replace("\0", "")  # the hole that truncation under a writer without O_APPEND leaves
        if _MARK in text:
            text = text.replace(_MARK, "")  # at the start of a file that an editor or a shell wrote, or of one behind another
        lines = text.split("\n")
        if _has_overlong(text):
            lines = [line if "\r" in line else self.cut(line) for line in lines]
        return lines

    def cut(self, line: str) -> str:
        """At the most LINE_LIMIT characters of a line."""
        if len(line) <= LINE_LIMIT:
            return line
        self.cut_lines += 1
        return line[:LINE_LIMIT]


def _has_overlong(text: str) -> bool:
    """Whether a line of the text is longer than LINE_LIMIT: looked for from limit to limit, not line by line."""
    start = 0
    while len(text) - start > LINE_LIMIT:
        end = text.rfind("\n", start, start + LINE_LIMIT + 1)
        if end < 0:
            return True
        start = end + 1
    return False
