"""Patterns that users bring: in how many lines each of them is found. One that takes too long costs no more than that."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

SECONDS_A_READ = 0.1
"""How much processor time a pattern may take for the lines of one read, some thousands at the most."""

TIMEOUTS = 3
"""After so many a pattern is given up until the configuration is read again."""


def compiled(text: str) -> "regex.Pattern[str]":
    """A pattern of the `regex` package, in its syntax. Raises ValueError, with what is wrong, when it is none."""
    import regex  # who brings no pattern need not pay for it

    try:
        return regex.compile(text, cache_pattern=False)
    except regex.error as error:
        raise ValueError(f"no valid pattern: {error}") from None


class Patterns:
    """What one source looks for, by name. Others may take their place while it runs."""

    def __init__(self) -> None:
        """None."""
        self._texts: dict[str, str] = {}
        self._compiled: dict[str, regex.Pattern[str]] = {}
        self._timeouts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self._texts)

    def replace(self, texts: Mapping[str, str]) -> None:
        """Look for these from now on. Raises ValueError for one that is no pattern."""
        self._compiled = {name: compiled(text) for name, text in texts.items()}
        self._texts, self._timeouts = dict(texts), dict.fromkeys(texts, 0)

    def count(self, lines: list[str], found: dict[str, int], timeouts: dict[str, int]) -> None:
        """Add in how many lines each is found, and to `timeouts` 1 where that took too long: then the rest is not looked at."""
        for name, pattern in list(self._compiled.items()):
            ends = time.thread_time() + SECONDS_A_READ
            try:
                for line in lines:
                    if pattern.search(line, timeout=max(0.0, ends - time.thread_time())):
                        found[name] = found.get(name, 0) + 1
            except TimeoutError:
                timeouts[name] = timeouts.get(name, 0) + 1
                self._timeouts[name] += 1
                if self._timeouts[name] >= TIMEOUTS:
                    del self._compiled[name]
