"""What the copies made by copytruncate still have of a file that was truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.tail._log_file import LogFile


def continues(source: LogFile, sibling: LogFile) -> bool:
    """Whether a sibling is a copy of what a file held; if so, put it where reading that ended."""
    begin = source.unread_in_copy(sibling)
    if begin is None:
        return False
    sibling.final = True
    source.continue_in(sibling, begin)
    return True


def unread_copies(source: LogFile, siblings: Iterable[LogFile]) -> list[LogFile]:
    """The copies, oldest first, that have something for the reader of a truncated file; the rest is closed."""
    copies: list[LogFile] = []
    longest: LogFile | None = None
    for copy in siblings:
        if not copy.size or source.still_has(copy):
            copy.close()  # or copied and not truncated yet: the file still has all of it
            continue
        # What was read may be no more than each content begins with: then only the first copy is one of it.
        if (longest is None or copy.still_has(longest)) and continues(source, copy):
            longest = copy
            if source.offset:
                for earlier in copies:
                    earlier.close()
                copies.clear()
        copy.final = True
        copies.append(copy)
    return copies
