"""Where things go in a drawing: times to places across, values to places up."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from exporter.analysis.report import PlotPoint, Report, TimelineEntry
from exporter.analysis.text import line_of
from exporter.pages.lanes import Band, Dot, Lane, Scale, Tick, worst_on_top

WIDTH, GUTTER, RIGHT = 960, 110, 12
LANE_HEIGHT, PANEL_HEIGHT = 26, 110
_CHARACTER = 7.0
"""How wide a letter of a label is at the most."""

_TICKS = 6
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86_400
_GAPS, _LEAST_GAP_SECONDS = 5, 60.0

_LANES = ("start", "verdict", "failure", "jit", "transfer", "load", "configuration", "gateway")
_LANE_OF = {"ready": "start", "phase": "start", "stop": "start"}
_LANE_NAMES = {
    "start": "life",
    "verdict": "P/D verdict",
    "failure": "failures",
    "jit": "compiles",
    "transfer": "KV transfer",
    "configuration": "hazards",
}


@dataclass(frozen=True)
class Line:
    """One value; `paths` are its pieces between gaps."""

    name: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Panel:
    """One plot with its values, from 0 to `top`."""

    name: str
    lines: tuple[Line, ...]
    middle: str
    top: str


@dataclass(frozen=True)
class Drawing:
    """The timeline and the plots of one source, over the same time."""

    source: str
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]
    panels: tuple[Panel, ...]
    jit: tuple[Dot, ...]


def drawings(report: Report) -> list[Drawing]:
    """One for each engine, all over the same time."""
    times = [entry.first.time for entry in report.timeline if entry.first.time is not None]
    times += [entry.last.time for entry in report.timeline if entry.last.time is not None]
    times += [point.time for series in report.plots.values() for points in series.values() for point in points]
    times += [place.time for engine in report.engines for place in (engine.first, engine.last) if place and place.time is not None]
    if not times:
        return []
    scale = Scale(GUTTER, WIDTH - RIGHT, min(times), max([*times, min(times) + 1]))
    found = []
    for engine in report.engines:
        entries = [entry for entry in report.timeline if entry.source == engine.source and entry.first.time is not None]
        end = engine.last.time if engine.last and engine.last.time is not None else scale.last
        lanes = tuple(_lanes(entries, scale, end))
        panels = tuple(_panels(report.plots.get(engine.source, {}), scale))
        jit = tuple(_dot(entry, scale) for entry in entries if entry.kind == "jit")
        if lanes or panels:
            found.append(Drawing(engine.source, _ticks(scale), lanes, panels, jit))
    return found


def _ticks(scale: Scale) -> tuple[Tick, ...]:
    """Round times, few enough that their texts have room."""
    spread = scale.last - scale.first
    step = next((each for each in _STEPS if spread / each <= _TICKS), math.ceil(spread / _TICKS / _DAY) * _DAY)
    form = "%m-%d %H:%M" if spread > _DAY / 2 else "%H:%M:%S" if step % 60 else "%H:%M"
    at = math.ceil(scale.first / step) * step
    found = []
    while at <= scale.last:
        found.append(Tick(scale.x(at), time.strftime(form, time.gmtime(at))))
        at += step
    half = max((len(tick.text) for tick in found), default=0) * _CHARACTER / 2
    return tuple(tick for tick in found if tick.x + half <= WIDTH)


def _dot(entry: TimelineEntry, scale: Scale) -> Dot:
    assert entry.first.time is not None
    times = f" ({entry.count:,.0f} times)" if entry.count > 1 else ""
    line = f", {line_of(entry.first)}" if entry.first.line else ""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.first.time))
    return Dot(scale.x(entry.first.time), entry.tone, f"{entry.text}{times}: {clock}{line}")


def _lanes(entries: list[TimelineEntry], scale: Scale, end: float) -> Iterator[Lane]:
    for kind in _LANES:
        mine = [entry for entry in entries if _LANE_OF.get(entry.kind, entry.kind) == kind]
        if not mine:
            continue
        holds = kind in ("start", "verdict")
        bands = tuple(_bands(mine, scale, end)) if holds else ()
        dots = () if holds else worst_on_top(_dot(entry, scale) for entry in mine)
        yield Lane(_LANE_NAMES.get(kind, kind), dots, bands)


def _bands(entries: list[TimelineEntry], scale: Scale, end: float) -> Iterator[Band]:
    """Each holds until the next."""
    ends = [entry.first.time or end for entry in entries[1:]] + [end]
    for entry, until in zip(entries, ends, strict=True):
        dot = _dot(entry, scale)
        width = round(max(2.0, scale.x(max(until, entry.first.time or until)) - dot.x), 1)
        text = entry.text.removeprefix("P/D verdict: ").removeprefix("an engine process ")
        yield Band(dot.x, width, entry.tone, text if len(text) * _CHARACTER + 8 <= width else "", dot.title)


_PANELS: tuple[tuple[str, tuple[tuple[str, str], ...], bool], ...] = (
    ("KV pool in use", (("kv_cache_usage_ratio", "used"),), True),
    ("tokens a second", (("prompt_tokens_per_second", "prompt"), ("generation_tokens_per_second", "generation")), False),
    ("requests", (("requests_running", "running"), ("requests_waiting", "waiting")), False),
    ("draft acceptance", (("spec_acceptance_ratio", "accepted"),), True),
    ("KV transfers in an interval", (("kv_transfers", "transfers"),), False),
)
"""Title, families with the names of their lines, and whether it is a share."""


def _panels(plots: dict[str, tuple[PlotPoint, ...]], scale: Scale) -> Iterator[Panel]:
    for name, families, share in _PANELS:
        found = [(label, plots[family]) for family, label in families if plots.get(family)]
        if not found:
            continue
        top = 1.0 if share else _round_up(max(point.mean for _, points in found for point in points))
        lines = tuple(Line(label, tuple(_paths(points, scale, top))) for label, points in found)
        text: Callable[[float], str] = (lambda value: f"{value:.0%}") if share else (lambda value: f"{value:,.4g}")
        yield Panel(name, lines, text(top / 2), text(top))


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power)


def _paths(points: Sequence[PlotPoint], scale: Scale, top: float) -> Iterator[str]:
    """Pieces of a line: where values are missing for long, so is the line."""
    gaps = [after.time - before.time for before, after in pairwise(points)]
    longest = max(_LEAST_GAP_SECONDS, _GAPS * median(gaps)) if gaps else 0.0
    piece: list[PlotPoint] = []
    for point in points:
        if piece and point.time - piece[-1].time > longest:
            yield _path(piece, scale, top)
            piece = []
        piece.append(point)
    yield _path(piece, scale, top)


def _path(points: Iterable[PlotPoint], scale: Scale, top: float) -> str:
    places = [f"{scale.x(point.time)},{round(PANEL_HEIGHT * (1 - min(1.0, point.mean / top)), 1)}" for point in points]
    if len(places) == 1:
        places += places  # a dot, by the line's round ends
    return "M" + " L".join(places)
