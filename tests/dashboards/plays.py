"""Logs of incidents in two parts, a healthy one and what then happened, with their times moved to today."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.conftest import DATA
from tests.scenarios.scenario import YEAR, scenarios


@dataclass(frozen=True)
class Play:
    """The log of one source."""

    before: list[str]
    after: list[str]
    settings: Mapping[str, Any]
    """What the configuration says of it."""

    def reworded(self, old: str, new: str) -> "Play":
        """The same log of a version that words something in another way."""
        before, after = ([line.replace(old, new) for line in lines] for lines in (self.before, self.after))
        assert (before, after) != (self.before, self.after)
        return Play(before, after, self.settings)

    @property
    def lines(self) -> list[str]:
        """The whole log."""
        return self.before + self.after

    def ending(self, end: datetime) -> "Play":
        """The same log as of a run whose last line is of `end`: an exporter that follows a log looks how old a line is."""
        return self._moved(end, max)

    def beginning(self, begin: datetime) -> "Play":
        """The same as of a run whose first line is of `begin`."""
        return self._moved(begin, min)

    def _moved(self, to: datetime, which: Callable[[list[datetime]], datetime]) -> "Play":
        times = [at for line in self.lines for at in moments(line, to.year)]
        by = to - which(times) if times else timedelta()
        moved = [retimed(line, to.year, lambda at: at + by) for line in self.lines]
        return Play(moved[: len(self.before)], moved[len(self.before) :], self.settings)


# vLLM's time, SGLang's with its year, klog's and torch's.
_TIME = re.compile(r"\b(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\b|(?:(?<=^[IWEF])|(?<=^\[[IWEF]))\d{4} \d\d:\d\d:\d\d")
_SHAPES = {13: "%m%d %H:%M:%S", 14: "%m-%d %H:%M:%S", 19: "%Y-%m-%d %H:%M:%S"}
_WITHOUT_YEAR = 14


def _read(text: str, year: int) -> datetime:
    """A time as of this year, which most headers do not print."""
    text = text[-_WITHOUT_YEAR:]
    return datetime.strptime(f"{year} {text}", f"%Y {_SHAPES[len(text)]}")  # noqa: DTZ007 - logs have no zone


def moments(line: str, year: int) -> list[datetime]:
    """The times that a line prints."""
    return [_read(found[0], year) for found in _TIME.finditer(line)]


def retimed(line: str, year: int, other: Callable[[datetime], datetime]) -> str:
    """A line with other times."""
    return _TIME.sub(lambda found: other(_read(found[0], year)).strftime(_SHAPES[len(found[0])]), line)


def saved(*logs: str, mark: str | None = None, add: Iterable[str] = (), **settings: Any) -> Play:
    """Saved logs, healthy through the first line with the mark (to the middle without one); `add` follows the rest."""
    lines = [line for log in logs for line in (DATA / f"{log}.log").read_text(encoding="utf-8", errors="replace").splitlines()]
    return _split(lines, mark, add, settings)


def scenario(name: str, mark: str | None = None, add: Iterable[str] = (), **settings: Any) -> Play:
    """The log of a scenario, split likewise."""
    (found,) = [each for each in scenarios() if each.name == name]
    return _split(found.lines, mark, add, {**found.table.get("args", {}), **settings})


def restart(first: str, second: str, **settings: Any) -> Play:
    """A healthy engine, and an hour after its last line another process of it."""
    before, after = ((DATA / f"{log}.log").read_text(encoding="utf-8").splitlines() for log in (first, second))
    hour = timedelta(hours=1)
    last = max(_read(found[0], YEAR) for line in before for found in _TIME.finditer(line))
    return Play(before, Play([], after, {}).ending(last + hour).after, settings)


def _split(lines: list[str], mark: str | None, add: Iterable[str], settings: Mapping[str, Any]) -> Play:
    at = len(lines) // 2 if mark is None else 1 + next(i for i, line in enumerate(lines) if re.search(mark, line))
    return Play(lines[:at], [*lines[at:], *add], settings)
