"""Names for sources that the user gave none: of the file, in characters that do well as a label."""

import re
from pathlib import Path

STDIN = "-"
LONGEST_NAME = 63


def name_of(path: str, taken: set[str]) -> str:
    """The stem of the file, numbered when another source has it already; the name is taken then."""
    stem = "stdin" if path == STDIN else Path(path).stem
    stem = re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).lstrip("_.-")[:LONGEST_NAME] or "source"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem[: LONGEST_NAME - 1 - len(str(number))]}-{number}"
    taken.add(name)
    return name
