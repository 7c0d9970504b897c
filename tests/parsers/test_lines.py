"""Bytes become the same lines whatever else is in the block with them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.header import strip_colour
from parsers.lines import LINE_LIMIT, LineBuffer

PIECES = (b"\n", b"\r", b"\0", b"a", b"[", b"31m", b"\x1b", b"\x1b[0m", b"\xef", b"\xbb", b"\xbf", b"\xf0", b"\x9f", b"\x80", b"\xe4")
WHOLE = tuple(text.encode() for text in ("\ufeff", "▄█", "\u2028", "\x85", "\x0b\x0c\x1c", "😀", "漢字"))


def as_one_text(data: bytes) -> list[str]:
    """The lines of bytes that are decoded at once."""
    return strip_colour(data.decode("utf-8", "replace")).replace("\0", "").replace("\ufeff", "").split("\n")


@settings(max_examples=500, deadline=None, database=None)
@given(data=st.lists(st.sampled_from(PIECES + WHOLE), max_size=40).map(b"".join))
def test_lines_are_those_of_the_text(data):
    """No damaged character swallows a line break, and nothing but `\\n` ends a line."""
    assert LineBuffer().feed(data + b"\n") == as_one_text(data)


def test_a_line_is_cut_after_so_many_characters():
    """Of whatever script, and colour codes are none."""
    for character in ("a", "▄", "😀", "\x1b[0ma"):
        buffer = LineBuffer()
        kept, cut = buffer.feed(f"{character * LINE_LIMIT}\n{character * LINE_LIMIT}b\n".encode())
        assert len(kept) == len(cut) == LINE_LIMIT
        assert buffer.cut_lines == 1
