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
        times = [_read(found[0], to.year) for line in self.lines for found in _TIME.finditer(line)]
        by = to - which(times) if times else timedelta()

        def later(found: re.Match[str]) -> str:
            return (_read(found[0], to.year) + by).strftime(_shape(found[0]))

        moved = [_TIME.sub(later, line) for line in self.lines]
        return Play(moved[: len(self.before)], moved[len(self.before) :], self.settings)


# vLLM's time (SGLang's behind its year), and klog's.
_TIME = re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b|(?<=^[IWEF])\d{4} \d\d:\d\d:\d\d")


def _shape(text: str) -> str:
    return "%m-%d %H:%M:%S" if text[2] == "-" else "%m%d %H:%M:%S"


def _read(text: str, year: int) -> datetime:
    return datetime.strptime(f"{year} {text}", f"%Y {_shape(text)}")  # noqa: DTZ007 - logs have no zone


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
