"""Reads saved logs through the daemon's pipeline and puts together what they tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.analysis.checklist import checks
from exporter.analysis.findings import find, order
from exporter.analysis.inputs import DamagedError, SavedLog, Tick, chunks, shown
from exporter.analysis.located import located
from exporter.analysis.proofs import in_log
from exporter.analysis.report import Check, EngineFacts, Finding, LogFile, LogPiece, PlotPoint, Report, TimelineEntry
from exporter.analysis.watch import Watch, WatchedSource
from exporter.gateway import GATEWAYS
from exporter.source import NamedEngine
from exporter.status import GATEWAY
from exporter.version import VERSION


@dataclass
class _Parts:
    files: list[LogFile] = field(default_factory=list)
    engines: list[EngineFacts] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    timeline: list[TimelineEntry] = field(default_factory=list)
    checklist: list[Check] = field(default_factory=list)
    plots: dict[str, dict[str, tuple[PlotPoint, ...]]] = field(default_factory=dict)
    left_out: int = 0


def analyze(logs: Sequence[SavedLog], *, zone: float | None = None, tick: Tick = lambda read: None, **settings: Any) -> Report:
    """The report on logs. `zone` is seconds east of UTC, `settings` those of a source. Raises OSError."""
    parts = _Parts()
    for log in logs:
        _read(log, zone, tick, settings, parts)
    return Report(
        inferlog=VERSION,
        files=tuple(parts.files),
        engines=tuple(parts.engines),
        findings=tuple(sorted(parts.findings, key=order)),
        timeline=tuple(sorted(parts.timeline, key=_in_time)),
        timeline_left_out=parts.left_out,
        checklist=tuple(parts.checklist),
        plots=parts.plots,
    )


def _in_time(entry: TimelineEntry) -> tuple[float, str]:
    return entry.first.time or 0.0, entry.source


def _in_log(entry: TimelineEntry) -> tuple[float, int]:
    return entry.first.time or 0.0, entry.first.line


def _read(log: SavedLog, zone: float | None, tick: Tick, settings: dict[str, Any], parts: _Parts) -> None:
    source = WatchedSource(log.name, year=log.written.year, month=log.written.month, **settings)
    source.clock.given = zone
    pieces, damage = _read_pieces(log, source, tick)
    parts.files.append(_file(log, source, pieces, damage))
    for named in source.named_engines():
        watch = source.watch_of(named.engine)
        watch.finish()
        findings = find(named.name, watch)
        parts.engines.append(located(_facts(log, named, watch), pieces))
        parts.findings += located(findings, pieces)
        parts.timeline += located(sorted(_timeline(named.name, watch), key=_in_log), pieces)
        parts.left_out += watch.timeline.left_out
        parts.checklist += checks(named, watch, findings)
        parts.plots[named.name] = {
            name: tuple(PlotPoint(time=point.time, mean=point.mean, peak=point.peak) for point in points)
            for name, points in watch.plots.points().items()
        }


def _read_pieces(log: SavedLog, source: WatchedSource, tick: Tick) -> tuple[list[LogPiece], str]:
    """The files with their lines, and what is damaged."""
    pieces, damages = [], []
    for path in log.pieces:
        before = source.numbered.lines
        try:
            for data in chunks(path, tick):
                source.feed(data)
        except DamagedError as error:
            damages.append(f"{shown(path)}: {error.why}" if len(log.pieces) > 1 else error.why)
        source.end_of_file()
        pieces.append(LogPiece(path=shown(path), lines=source.numbered.lines - before))
    return pieces, "; ".join(damages)


def _file(log: SavedLog, source: WatchedSource, pieces: list[LogPiece], damage: str) -> LogFile:
    numbered = source.numbered
    unrecognised = {level: count for level, count in numbered.counts().get("unrecognised_lines_total", {}).items() if count}
    return LogFile(
        source=log.name, path=shown(log.path), pieces=tuple(pieces) if len(pieces) > 1 else (), order=log.order, lines=numbered.lines,
        unrecognised=unrecognised, year=log.written.year, year_guessed=log.written.guessed, zone_known=source.clock.given is not None,
        damaged=damage,
    )  # fmt: skip


def _facts(log: SavedLog, named: NamedEngine, watch: Watch) -> EngineFacts:
    engine = named.engine
    gateway = named.runtime in GATEWAYS
    values = engine.settings.values
    first = watch.first
    return EngineFacts(
        source=named.name,
        file=shown(log.path),
        runtime=named.runtime,
        version=values.get("version") or None,
        model=values.get("model") or values.get("model_path") or None,
        state=GATEWAY if gateway else engine.life.state,
        role=None if gateway else engine.pd_settings.role,
        verdict=None if gateway else engine.standing.verdict or None,
        settings=engine.portrait().settings,
        startup_seconds=engine.life.phase_seconds(),
        capacity=dict(_capacity(engine.capacity.samples(), engine.settings.samples())),
        first=in_log(first) if first else None,
        last=in_log(watch.ended) if watch.ended else None,
    )


def _capacity(*samples: Any) -> Iterator[tuple[str, float]]:
    for each in samples:
        for family, labels, value in each:
            if family.startswith(("kv_cache_", "state_cache_", "max_", "engine_parallel")) and "previous" not in family:
                yield " ".join((family, *(label for label in labels if label not in ("", "0")))), value


def _timeline(source: str, watch: Watch) -> Iterator[TimelineEntry]:
    for entry in watch.timeline.entries:
        yield TimelineEntry(
            source=source, kind=entry.kind, tone=entry.tone, text=entry.text, count=entry.count, first=in_log(entry.first), last=in_log(entry.last)
        )  # fmt: skip
