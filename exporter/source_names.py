"""Names for sources that the user gave none: of the file, in characters that do well as a label."""

import glob
import re
from pathlib import Path

STDIN = "-"
LONGEST_NAME = 63


def name_of(path: str, taken: set[str]) -> str:
    """The stem of the file, numbered when another source has it already; the name is taken then."""
    stem = "stdin" if path == STDIN else _stem(path)
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem[: LONGEST_NAME - 1 - len(str(number))]}-{number}"
    taken.add(name)
    return name


def _stem(path: str) -> str:
    """What a path or a glob says by itself, whatever it matches: `vllm` for vllm-*.log, `logs` for /logs/*.log."""
    if not glob.has_magic(path):
        return _plain(Path(path).stem) or "source"
    parts = Path(path).parts
    stems = (_plain(part).rstrip("-") for part in (Path(path).stem, *reversed(parts[:-1])))
    return next(filter(None, stems), "source")


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).lstrip("_.-")[:LONGEST_NAME]
