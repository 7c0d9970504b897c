"""A saved log becomes input series: the pipeline reads it by the log's own clock, and is looked at as Prometheus would."""

from collections.abc import Iterator, Sequence
from typing import Any

from exporter.families import FAMILIES, PREFIX
from exporter.source import Source
from parsers.header import HEADER, LogClock
from tests.alerts.promtool import TARGET, Series

STEP = 15
"""Seconds between scrapes, and between evaluations."""
YEAR = 2026


def timed(lines: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Each line with the time of its header, or of the one before."""
    clock = LogClock(YEAR)
    now: float | None = None
    early: list[str] = []
    for line in lines:
        header = HEADER.match(line)
        at = clock.read(header[4]) if header and header[4] else None
        now = now if at is None else max(at, now or at)
        if now is None:
            early.append(line)
            continue
        yield from ((now, each) for each in early)
        early.clear()
        yield now, line


class Replay:
    """The series of a log, one value every `STEP` seconds from its first line on."""

    def __init__(self, lines: Sequence[str], *, quiet: float = 0.0, away: tuple[float, float] | None = None, **settings: Any) -> None:
        """`quiet` seconds follow the log. From the first to the second of `away` there is no exporter, and the next one has no state file."""
        self._settings = settings
        self._lines = list(timed(lines))
        self.start, end = self._lines[0][0], self._lines[-1][0] + quiet
        self.steps = int((end - self.start) // STEP) + 2
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], list[float | None]] = {}
        source, rest, begins = self._source(), list(self._lines), False
        for step in range(self.steps):
            passed = step * STEP
            if away and away[0] <= passed < away[1]:
                source, rest, begins = self._source(), list(self._lines), True
                continue
            self._read(source, rest, self.start + passed, history=begins)
            self._look(source, step)
            begins = False

    def _source(self) -> Source:
        return Source("decode", year=YEAR, **self._settings)

    @staticmethod
    def _read(source: Source, rest: list[tuple[float, str]], now: float, *, history: bool) -> None:
        while rest and rest[0][0] <= now:
            at, line = rest.pop(0)
            source.feed(f"{line}\n".encode(), None if history else at)

    def _look(self, source: Source, step: int) -> None:
        for snapshot in source.snapshots(self.start + step * STEP):
            for family, labels, value in snapshot.samples:
                self._values.setdefault(self._key(snapshot.common, family, labels), [None] * self.steps)[step] = (
                    float(value) - self.start if family.endswith("_timestamp_seconds") else float(value)
                )

    @staticmethod
    def _key(common: dict[str, str], family: str, labels: tuple[str, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
        names = {name: common[name] for name in FAMILIES[family].common} | dict(zip(FAMILIES[family].labels, labels, strict=True))
        return PREFIX + family, tuple((TARGET | names).items())

    def after(self, mark: str) -> int:
        """The first step that has seen the first line with this mark."""
        at = next(at for at, line in self._lines if mark in line)
        return int(-(-(at - self.start) // STEP))

    @property
    def series(self) -> list[Series]:
        """As promtool's input."""
        return [Series(name, dict(labels), values) for (name, labels), values in self._values.items()]
