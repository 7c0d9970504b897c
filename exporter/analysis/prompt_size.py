"""How many tokens a folder is, for who wants to send it as one prompt."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CHARACTERS_PER_TOKEN = 4.0
"""Of text and code in Latin letters: an estimate, tokenizers differ by a third."""

EXTENSIONS = (
    ".c", ".cc", ".cpp", ".cs", ".css", ".cu", ".go", ".h", ".hpp", ".html", ".java", ".js", ".json", ".jsx", ".kt", ".md", ".php", ".proto", ".py",
    ".rb", ".rs", ".rst", ".scala", ".sh", ".sql", ".swift", ".toml", ".ts", ".tsx", ".txt", ".yaml", ".yml",
)  # fmt: skip
SKIPPED_FOLDERS = frozenset({
    "node_modules", "bower_components", "vendor", "third_party", "site-packages", "venv", "env", "__pycache__", "build", "dist", "out", "target",
})  # fmt: skip
"""Dependencies and what is built; so are hidden folders."""

_CJK = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class SizeError(ValueError):
    """Why a size cannot be told, in one line."""


class PromptSize(NamedTuple):
    """Tokens, and how they were counted."""

    tokens: int
    files: int
    basis: str


def scanned(
    folder: Path, extensions: Sequence[str] = EXTENSIONS, per_token: float = CHARACTERS_PER_TOKEN, tokenizer: Path | None = None
) -> PromptSize:
    """The files of a folder with these extensions. Raises SizeError and OSError."""
    counter = _Tokenizer(tokenizer) if tokenizer else None
    others = cjk = tokens = files = 0
    for path in _files(folder, tuple(each if each.startswith(".") else f".{each}" for each in extensions)):
        text = path.read_text(encoding="utf-8", errors="replace")
        files += 1
        if counter:
            tokens += counter.count(text)
        else:
            ideographs = len(_CJK.findall(text))
            cjk, others = cjk + ideographs, others + len(text) - ideographs
    if not files:
        raise SizeError(f"no file with these extensions in {folder}")
    if counter:
        return PromptSize(max(1, tokens), files, "counted with the tokenizer")
    return PromptSize(
        max(1, round(others / per_token) + cjk), files, f"estimated: {per_token:g} characters a token, CJK characters one each"
    )


def _files(folder: Path, extensions: tuple[str, ...]) -> Iterator[Path]:
    """Links are not followed: they lead out of the folder, or round in it."""

    def fail(error: OSError) -> None:
        raise error

    for where, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(each for each in folders if each not in SKIPPED_FOLDERS and not each.startswith("."))
        for name in sorted(names):
            path = Path(where) / name
            if name.endswith(extensions) and path.is_file() and not path.is_symlink():
                yield path


class _Tokenizer:
    """A tokenizer.json, by a library that is not installed with inferlog."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SizeError("a tokenizer file needs the library: pip install tokenizers") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise SizeError(f"{path}: not a tokenizer file") from error

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
