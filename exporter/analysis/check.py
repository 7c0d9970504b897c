"""How much of a log is understood: for a new engine version, and for who sees nothing."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from exporter.analysis.inputs import DamagedError, SavedLog, Tick, chunks
from exporter.analysis.recognition import CheckedLog, Recognition, Seen
from exporter.engine import Engine
from exporter.gateway import GATEWAYS
from exporter.known_bad import version_of
from exporter.source import NamedEngine, Source
from parsers.header import UNKNOWN_LEVEL
from parsers.resume import ResumableLog
from parsers.rules import registry

_MOSTLY = 0.5
_FEW_LINES = 20
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class _CheckedSource(Source):
    """A source that notes what it recognised."""

    def file(self, name: str) -> ResumableLog:
        known = name in self._files
        log = super().file(name)
        if not known:
            log.log = CheckedLog(*self._written)
        return log

    @property
    def checked(self) -> CheckedLog:
        """Its only file."""
        log = self.file("").log
        assert isinstance(log, CheckedLog)
        return log


@dataclass(frozen=True)
class Expected:
    """A signal that an engine of this kind prints, and whether it was there."""

    engine: str
    signal: str
    seen: bool


@dataclass(frozen=True)
class Checked:
    """What is known of one log."""

    log: SavedLog
    lines: int
    levels: dict[str, int]
    engines: tuple[str, ...]
    recognition: Recognition
    expected: tuple[Expected, ...]
    beyond: tuple[str, ...]
    """Rules that matched though the version is outside of those they are known for."""
    hints: tuple[str, ...]
    damages: tuple[str, ...] = ()
    """What of it could not be read."""

    def public(self) -> dict[str, Any]:
        """Plain data."""
        recognised = {name: asdict(seen) for name, seen in sorted(self.recognition.rules.items())}
        unknown = [{**shape._asdict(), **asdict(seen)} for shape, seen in _most(self.recognition)]
        return {
            "path": self.log.path, "pieces": list(self.log.pieces), "lines": self.lines, "levels": self.levels, "engines": list(self.engines), "rules": recognised,
            "unrecognised": unknown, "unrecognised_left_out": self.recognition.shapes_left_out,
            "expected": [asdict(each) for each in self.expected], "rules_beyond_their_versions": list(self.beyond), "hints": list(self.hints),
        }  # fmt: skip


def check(log: SavedLog, tick: Tick = lambda read: None) -> Checked:
    """Read a file and look at what was recognised. Raises OSError."""
    source = _CheckedSource(log.name, year=log.written.year, month=log.written.month)
    start, end, damages = b"", b"", []
    for path in log.pieces:
        try:
            for data in chunks(path, tick):
                start, end = start or data[:64], data[-1:]
                source.feed(data)
        except DamagedError as error:
            damages.append(str(error))
        source.end_of_file()
    checked = source.checked
    levels = {level: count for level, count in checked.counts()["log_lines_total"].items() if count}
    engines = [each for each in source.named_engines() if each.runtime != "unknown"]
    named = tuple(f"{each.name}: {each.runtime} {each.engine.settings.values.get('version', '')}".rstrip() for each in engines)
    expected = tuple(each for engine in engines for each in _expected(engine))
    beyond = tuple(_beyond(checked.recognition, engines))
    hints = (*_hints(checked, levels, engines, start, end), *_drift_hints(source), *damages)
    return Checked(log, checked.lines, levels, named, checked.recognition, expected, beyond, hints, tuple(damages))


def _most(recognition: Recognition) -> list[tuple[Any, Seen]]:
    """Shapes with errors first, then those that came most."""
    order = {"CRITICAL": 0, "ERROR": 1, UNKNOWN_LEVEL: 2}
    return sorted(recognition.shapes.items(), key=lambda each: (order.get(each[0].level, 3), -each[1].count, each[0]))


def _expected(named: NamedEngine) -> Iterator[Expected]:
    engine = named.engine
    if named.runtime in GATEWAYS:
        decided = any(family.startswith("gateway_") and any(values.values()) for family, values in engine.counters.totals.items())
        yield Expected(named.name, "decisions about requests", decided)
        return
    for signal, seen in _signals(engine):
        yield Expected(named.name, signal, seen)


def _signals(engine: Engine) -> Iterator[tuple[str, bool]]:
    values, totals = engine.settings.values, engine.counters.totals
    yield "start line", engine.life.started is not None
    yield "version", bool(values.get("version"))
    yield "settings", len(values) > 1
    yield "start-up phases", bool(engine.life.phase_seconds().keys() - {"total"})
    yield "KV pool size", bool(engine.capacity.pools())
    yield "ready line", engine.life.ready_observed
    yield "answers (access lines)", any(totals.get("http_responses_total", {}).values())
    yield "periodic line", bool(engine.gauges.last)
    if engine.settings.connector or values.get("kv_connector"):
        moved = any(any(totals.get(family, {}).values()) for family in ("kv_transfers_total", "kv_transfer_failures_total"))
        yield "KV transfers", moved or any(totals.get("kv_transfer_empty_intervals_total", {}).values())
    if engine.settings.method:
        yield "acceptance of drafts", any(each.family == "spec_acceptance_ratio" for each in engine.gauges.samples(None))


def _beyond(recognition: Recognition, engines: list[NamedEngine]) -> Iterator[str]:
    versions = {each.runtime: version_of(each.engine.settings.values.get("version", "")) for each in engines}
    for rule in registry():
        version = versions.get(rule.runtime)
        if version and rule.name in recognition.rules:
            since, until = version_of(rule.since), version_of(rule.until)
            if (since and version < since) or (until and version > until):
                yield rule.name


def _hints(checked: CheckedLog, levels: dict[str, int], engines: list[NamedEngine], start: bytes, end: bytes) -> Iterator[str]:
    """Why there is less to see than there should be."""
    lines, recognition = checked.lines, checked.recognition
    if not lines:
        yield "The log is empty. Is it the right file, and does the engine write to it? Standard output to a file is buffered: set PYTHONUNBUFFERED=1."
        return
    if start.startswith(_UTF16):
        yield "The file is UTF-16, as Windows PowerShell writes it: convert it to UTF-8."
    if end not in (b"\n", b"\r", b""):
        yield "The last line is not complete: the file is still being written, was cut, or the output is buffered (PYTHONUNBUFFERED=1)."
    if recognition.buried > _MOSTLY * lines:
        yield "Most lines have an engine's header behind something that is not known: a shipper or a platform wraps them. Take the log where the container runtime writes it."
    if not engines:
        yield "No engine or gateway speaks here. Is it another container's log, or the other of stdout and stderr? vLLM logs to stdout, SGLang and JIT libraries to stderr."
    for each in engines:
        yield from _engine_hints(each, levels, lines)
    if recognition.shapes_left_out:
        yield f"Beyond {len(recognition.shapes):,} shapes, {recognition.shapes_left_out:,} more lines were not recognised: is this the log of one program?"


def _drift_hints(source: Source) -> Iterator[str]:
    """Signals whose wording is not known, as format_drift has them."""
    for snapshot in source.snapshots(None):
        drifted = [sample.labels[0] for sample in snapshot.samples if sample.family == "format_drift" and sample.value]
        if drifted:
            yield f"{snapshot.common['source']}: the engine words these signals in another way than those that are known: {', '.join(drifted)}. Compare its version with docs/compatibility.md."


def _engine_hints(named: NamedEngine, levels: dict[str, int], lines: int) -> Iterator[str]:
    engine = named.engine
    if named.runtime in GATEWAYS:
        return
    name, hazards = named.name, engine.life.hazards
    if "log_level_too_high" in hazards or (not levels.get("INFO") and named.runtime == "vllm" and lines >= _FEW_LINES):
        yield f"{name}: nothing is logged at INFO, where nearly all signals are: VLLM_LOGGING_LEVEL=INFO, SGLang --log-level info."
    if "stats_disabled" in hazards:
        yield f"{name}: the engine was told not to log statistics (--disable-log-stats): no load, no KV usage, no transfers."
    if engine.life.started is None:
        yield f"{name}: the log begins behind the engine's start, so that version, settings and capacity are not known."
    elif not engine.life.ready_observed and engine.life.state == "starting":
        yield f"{name}: it is still starting (phase {engine.life.startup.name})."
    if engine.life.ready and not engine.gauges.last:
        yield f"{name}: ready, and no periodic line: an idle engine prints none."


# -- in words ----------------------------------------------------------------------------------------------------------

_SHAPES_SHOWN = 40


def lines_of(checked: Checked) -> Iterator[str]:
    """The answer for people."""
    recognised = sum(seen.count for seen in checked.recognition.rules.values())
    levels = ", ".join(f"{level} {count:,}" for level, count in checked.levels.items())
    yield f"{checked.log.path}: {checked.lines:,} lines ({levels or 'none'})"
    if checked.log.told:
        yield f"{checked.log.told}; lines are counted through"
    yield f"engines: {', '.join(checked.engines) or 'none'}"
    yield ""
    yield f"recognised: {recognised:,} lines by {len(checked.recognition.rules)} of {len(registry())} rules"
    for name, seen in sorted(checked.recognition.rules.items(), key=lambda each: -each[1].count):
        yield f"  {seen.count:>8,}  {name}  ({_lines(seen)})"
    shapes = _most(checked.recognition)
    yield ""
    yield f"warnings and errors that no rule knows: {sum(seen.count for _, seen in shapes) + checked.recognition.shapes_left_out:,} in {len(shapes)} shapes"
    for shape, seen in shapes[:_SHAPES_SHOWN]:
        yield f"  {seen.count:>8,}  {shape.level:<8}  {shape.module or '-'}  {shape.words or '-'}  ({_lines(seen)})"
    if len(shapes) > _SHAPES_SHOWN:
        yield f"  and {len(shapes) - _SHAPES_SHOWN} more, see --json"
    if checked.expected:
        yield ""
        yield f"expected signals: {sum(each.seen for each in checked.expected)} of {len(checked.expected)} seen"
        for each in checked.expected:
            yield f"  {'seen' if each.seen else 'MISSING':<8}  {each.engine}: {each.signal}"
    if checked.beyond:
        yield ""
        yield f"known for other versions, and matched here: {', '.join(checked.beyond)}"
    if checked.hints:
        yield ""
        yield "why there may be little to see:"
        yield from (f"  - {hint}" for hint in checked.hints)


def _lines(seen: Seen) -> str:
    return f"line {seen.first:,}" if seen.first == seen.last else f"lines {seen.first:,} to {seen.last:,}"
