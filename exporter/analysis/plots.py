"""Values over time for a drawing: few points, however long the log is."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from exporter.counters import Sample

POINTS = 600
"""Points that a series has at the most; where there are more, neighbours are joined."""


class Point(NamedTuple):
    """Mean and maximum of a stretch of time that begins at `time`."""

    time: float
    mean: float
    peak: float


@dataclass(slots=True)
class _Stretch:
    total: float = 0.0
    count: int = 0
    peak: float = float("-inf")

    def add(self, total: float, count: int, peak: float) -> None:
        self.total, self.count, self.peak = self.total + total, self.count + count, max(self.peak, peak)


class Series:
    """One value, in stretches that double whenever there are too many of them."""

    def __init__(self) -> None:
        self._width = 1.0
        self._stretches: dict[int, _Stretch] = {}

    def add(self, time: float, value: float) -> None:
        """The value at a time."""
        self._stretch(time).add(value, 1, value)
        while len(self._stretches) > POINTS:
            self._width *= 2
            before, self._stretches = self._stretches, {}
            for number, each in before.items():
                self._stretches.setdefault(number // 2, _Stretch()).add(each.total, each.count, each.peak)

    def _stretch(self, time: float) -> _Stretch:
        return self._stretches.setdefault(int(time // self._width), _Stretch())

    def points(self) -> list[Point]:
        """In the order of time."""
        rows = sorted(self._stretches.items())
        return [Point(number * self._width, each.total / each.count, each.peak) for number, each in rows]


_PLOTTED: dict[str, Callable[[Iterable[float]], float]] = {
    "kv_cache_usage_ratio": max, "prompt_tokens_per_second": sum, "generation_tokens_per_second": sum, "spec_acceptance_ratio": max,
    "requests_running": sum, "requests_waiting": sum,
}  # fmt: skip
"""What is drawn, and what is made of the values of several engines and pools. SGLang's and vLLM's queues may overlap: the sum is an upper bound."""

_LEAST_SECONDS = 1.0


class Plots:
    """The series of one engine."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._last: float | None = None

    def due(self, time: float | None) -> bool:
        """Whether a second has passed since the last values."""
        return time is not None and (self._last is None or abs(time - self._last) >= _LEAST_SECONDS)

    def take(self, time: float, samples: Iterable[Sample]) -> None:
        """The gauges at a time."""
        self._last = time
        values: dict[str, list[float]] = {}
        for family, _, value in samples:
            if family in _PLOTTED and math.isfinite(value):
                values.setdefault(family, []).append(value)
        for family, found in values.items():
            self.add(family, time, _PLOTTED[family](found))

    def add(self, name: str, time: float, value: float) -> None:
        """One value."""
        self.series.setdefault(name, Series()).add(time, value)

    def points(self) -> dict[str, list[Point]]:
        """All series."""
        return {name: series.points() for name, series in self.series.items()}
