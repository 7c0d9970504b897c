"""Bytes to physical lines: decoded, without colour codes and NULs, and never without end."""

from parsers.header import strip_colour

LINE_LIMIT = 64 * 1024
"""Characters after which a line is cut."""

_BYTES_A_CHARACTER = 4
_MARK = "\ufeff"  # of the byte order, at the start of a file that an editor or a shell wrote, or of one behind another
_MARK_BYTES = _MARK.encode()
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
        self.returns = self.returns or b"\r" in block
        try:
            texts = [block.decode("ascii")]
        except UnicodeDecodeError:
            # Line by line: one character of another script makes all of its text twice as wide, and what is done with it twice as dear.
            texts = [line.decode("utf-8", "replace") for line in block.split(b"\n")]
            if _MARK_BYTES in block:
                texts = [text.replace(_MARK, "") for text in texts]
        if b"\x1b" in block:
            texts = list(map(strip_colour, texts))
        if b"\0" in block:
            texts = [text.replace("\0", "") for text in texts]  # the hole that truncation under a writer without O_APPEND leaves
        lines = texts[0].split("\n") if len(texts) == 1 else texts
        if _has_overlong(block):
            lines = [line if "\r" in line else self.cut(line) for line in lines]
        return lines

    def cut(self, line: str) -> str:
        """At the most LINE_LIMIT characters of a line."""
        if len(line) <= LINE_LIMIT:
            return line
        self.cut_lines += 1
        return line[:LINE_LIMIT]


def _has_overlong(block: bytes) -> bool:
    """Whether a line of the block has more bytes than LINE_LIMIT: looked for from limit to limit, not line by line."""
    start = 0
    while len(block) - start > LINE_LIMIT:
        end = block.rfind(b"\n", start, start + LINE_LIMIT + 1)
        if end < 0:
            return True
        start = end + 1
    return False
