"""The report for a terminal; where it is piped, plain lines that are not wrapped."""

from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from exporter.analysis.report import EngineFacts, Finding, LogFile, PlaceInLog, Report, TimelineEntry
from exporter.engine import UNKNOWN_RUNTIME
from exporter.pages import moment, number, span

TIMELINE_ENTRIES = 60
"""More of them are in the other formats."""

_SEVERITY = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_TONES = {"good": "green", "neutral": "", "note": "yellow", "bad": "red"}
_RESULTS = {"pass": "green", "fail": "red", "not known": "dim"}
_DEFAULTS = {"1", "auto"}
_MATTERS = ("kv_connector", "kv_role", "kv_load_failure_policy", "spec_method", "draft_length", "kv_cache_dtype", "tp", "pp", "dp")
"""Of the settings, those that most answers depend on."""


def write(report: Report, to: TextIO) -> None:
    """The whole report."""
    page = _Page(to)
    for file in report.files:
        page.line(Text(file_line(file), "dim"))
    for engine in report.engines:
        _engine(page, engine)
    _findings(page, report.findings)
    _timeline(page, report)
    _checklist(page, report)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end with 1, which is a finding."""
        raise BrokenPipeError


class _Page:
    """Lines with an indent; on a terminal they are wrapped within it."""

    def __init__(self, to: TextIO) -> None:
        self._console = _Console(file=to, highlight=False, markup=False, emoji=False)
        self._wraps = to.isatty()

    def line(self, text: Text, indent: int = 0) -> None:
        """One line."""
        if self._wraps:
            self._console.print(Padding(text, (0, 0, 0, indent)))
        else:
            self._console.print(Text.assemble(" " * indent, text), soft_wrap=True)

    def heading(self, text: str) -> None:
        """A line apart."""
        self._console.print()
        self.line(Text(text, "bold"))

    def fact(self, name: str, value: str) -> None:
        """A name and what belongs to it."""
        if not self._wraps:
            self.line(Text(f"{name:<10}{value}"), 2)
            return
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(min_width=10, no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f"  {name}", "dim"), Text(value))
        self._console.print(grid)


def when(place: PlaceInLog) -> str:
    """Time and line, as the log has them."""
    time = "" if place.time is None else moment(place.time).rstrip("Z")
    return " ".join(filter(None, (time, line_of(place)))) or "without a time"


def line_of(place: PlaceInLog) -> str:
    """Which line, of a rotated log with its file; empty where no single line tells."""
    return " ".join(filter(None, (Path(place.file).name, f"line {place.line}"))) if place.line else ""


def file_line(file: LogFile) -> str:
    """What was read, and what was assumed about it."""
    parts = [
        f"{file.path}: {file.lines:,} lines",
        *([f"read as one rotated log, {pieces_told(file)}"] if file.pieces else []),
        "times in UTC" if file.zone_known else "times as the log prints them, whatever their zone",
    ]
    if file.year_guessed:
        parts.append(f"the year, where lines have none, is taken from the file's last change ({file.year})")
    if file.damaged:
        parts.append(f"damaged: the rest could not be read ({file.damaged})")
    return "; ".join(parts)


def pieces_told(file: LogFile) -> str:
    """The files of a rotated log, oldest first."""
    pieces = ", ".join(f"{Path(piece.path).name} ({piece.lines:,} lines)" for piece in file.pieces)
    return f"oldest first by {file.order}: {pieces}"


def who(engine: EngineFacts) -> str:
    """Which engine or gateway it is, and how it stands."""
    if engine.runtime == UNKNOWN_RUNTIME:
        return "no engine or gateway that is known speaks here; inferlog check says why there may be nothing to see"
    return f"{engine.runtime}{f' {engine.version}' if engine.version else ''}, {engine.state}"


def engine_facts(engine: EngineFacts) -> list[tuple[str, str]]:
    """What matters of an engine, by name."""
    settings = ((key, engine.settings.get(key, "1")) for key in _MATTERS)
    rows = [
        ("model", engine.model or ""),
        ("settings", ", ".join(f"{key}={value}" for key, value in settings if value not in _DEFAULTS)),
        ("capacity", ", ".join(_amount(name, value) for name, value in engine.capacity.items() if "parallel" not in name)),
        ("start-up", ", ".join(f"{phase} {span(took)}" for phase, took in engine.startup_seconds.items())),
        (
            "P/D",
            ""
            if engine.role in (None, "none") or engine.runtime == UNKNOWN_RUNTIME
            else f"{engine.verdict or 'not judged'}, role {engine.role}",
        ),
        ("log", f"{when(engine.first)} to {when(engine.last)}" if engine.first and engine.last else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _amount(name: str, value: float) -> str:
    family, _, which = name.partition(" ")
    unit, amount = ("GiB", f"{value / 1024**3:.2f}") if family.endswith("_bytes") else ("", number(value))
    words = family.removesuffix("_bytes").removesuffix("_tokens").replace("_", " ")
    return " ".join(filter(None, (words.replace("kv", "KV"), which, amount, "tokens" if family.endswith("_tokens") else unit)))


def _engine(page: _Page, engine: EngineFacts) -> None:
    page.heading(f"{engine.source}: {who(engine)}")
    for name, value in engine_facts(engine):
        page.fact(name, value)


def _findings(page: _Page, findings: tuple[Finding, ...]) -> None:
    page.heading("Findings" if findings else "Findings: none")
    for number_, finding in enumerate(findings):
        if number_:
            page.line(Text())
        page.line(
            Text.assemble((finding.severity.upper(), _SEVERITY[finding.severity]), f"  {finding.title}  ", (f"({finding.source})", "dim"))
        )
        for each in finding.evidence:
            until = "" if each.first == each.last else f" to {when(each.last)}"
            page.line(Text(f"{number(each.count)} x {each.text}: {when(each.first)}{until}"), 2)
        page.line(Text(f"Why it matters: {finding.why}"), 2)
        page.line(Text("What to do:"), 2)
        for step in finding.steps:
            page.line(Text(f"- {step}"), 4)
        page.line(Text(f"How sure: {finding.sure}", "dim"), 2)
        page.line(Text(f"More: runbook {finding.alert}", "dim"), 2)


def _timeline(page: _Page, report: Report) -> None:
    if not report.timeline:
        return
    page.heading("Timeline")
    several = len(report.engines) > 1
    shown = report.timeline[-TIMELINE_ENTRIES:]
    if left_out := report.timeline_left_out + len(report.timeline) - len(shown):
        page.line(Text(f"{left_out:,} entries are left out here", "dim"), 2)
    for entry in shown:
        source = f"{entry.source}  " if several else ""
        times = f" ({number(entry.count)} x{_until(entry)})" if entry.count > 1 else ""
        page.line(Text.assemble(f"{when(entry.first)}  ", (source, "dim"), (entry.text, _TONES[entry.tone]), times), 2)


def _until(entry: TimelineEntry) -> str:
    return f", to {line_of(entry.last)}" if entry.last.line and entry.last != entry.first else ""


def _checklist(page: _Page, report: Report) -> None:
    if not report.checklist:
        return
    page.heading("Before going live")
    several = len(report.engines) > 1
    for check in report.checklist:
        source = f"{check.source}  " if several else ""
        page.line(Text.assemble((f"{check.result:<9}", _RESULTS[check.result]), f"  {source}{check.name}: {check.why}"), 2)
