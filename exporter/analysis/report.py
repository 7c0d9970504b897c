"""The report on saved logs as data: the schema of `inferlog analyze --format json`. Times are seconds since the epoch, null where unknown."""

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from exporter.engine import UNKNOWN_RUNTIME
from exporter.pages.lanes import Tone

SCHEMA_VERSION = 1

Severity: TypeAlias = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
Result: TypeAlias = Literal["pass", "fail", "not known"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlaceInLog(_Part):
    """A moment and the line that tells of it."""

    time: float | None
    line: int = Field(description="Number of the physical line in the file, from 1; 0 where no single line tells.")
    file: str = Field(default="", description="The piece of a rotated log that has the line; empty where the log is one file.")


class LogPiece(_Part):
    """One of the files that the rotation of a log made."""

    path: str
    lines: int


class LogFile(_Part):
    """One log that was read: a file, or the pieces of one that was rotated."""

    source: str
    path: str
    pieces: tuple[LogPiece, ...] = Field(description="The files of a rotated log, oldest first; empty where the log is one file.")
    order: str = Field(description="What told the order of the pieces.")
    lines: int
    unrecognised: dict[str, int] = Field(
        description="Warnings and errors that no rule knew, and new texts at INFO of files that print signals, by level."
    )
    year: int
    year_guessed: bool = Field(description="Whether the year is a guess from the file's last change: most headers print none.")
    zone_known: bool = Field(description="Whether times are real ones; else they are as printed, taken for UTC.")
    damaged: str = Field(description="Why the rest could not be read, empty when all was.")


class EngineFacts(_Part):
    """One engine or gateway."""

    source: str
    file: str
    runtime: str
    version: str | None
    model: str | None
    state: str
    role: str | None
    verdict: str | None
    settings: dict[str, str] = Field(description="Settings that the engine told, in words from a small set.")
    startup_seconds: dict[str, float]
    capacity: dict[str, Any]
    first: PlaceInLog | None
    last: PlaceInLog | None


class TimelineEntry(_Part):
    """Something that happened; what repeats within a minute is one entry."""

    source: str
    kind: str
    tone: Tone
    text: str
    count: float
    first: PlaceInLog
    last: PlaceInLog


class Evidence(_Part):
    """What a finding rests on."""

    text: str
    count: float
    first: PlaceInLog
    last: PlaceInLog


class Finding(_Part):
    """Something that is wrong, in the words of the alert that would have told of it."""

    source: str
    alert: str = Field(description="The alert whose runbook says more.")
    severity: Severity
    title: str
    why: str = Field(description="Why it matters.")
    sure: str = Field(description="How sure it is.")
    steps: tuple[str, ...] = Field(description="What to do first.")
    evidence: tuple[Evidence, ...]
    first: PlaceInLog
    last: PlaceInLog


class Check(_Part):
    """One item of the list before going live."""

    source: str
    name: str
    result: Result
    why: str


class PlotPoint(_Part):
    """Mean and maximum of a stretch of time that begins at `time`."""

    time: float
    mean: float
    peak: float


class Report(_Part):
    """All of it."""

    schema_version: int = SCHEMA_VERSION
    inferlog: str = Field(description="The version that made the report.")
    files: tuple[LogFile, ...]
    engines: tuple[EngineFacts, ...]
    findings: tuple[Finding, ...] = Field(description="In order of severity, causes before what follows from them.")
    timeline: tuple[TimelineEntry, ...] = Field(description="Of all files by time.")
    timeline_left_out: int = Field(description="Entries in the middle that were not kept.")
    checklist: tuple[Check, ...]
    plots: dict[str, dict[str, tuple[PlotPoint, ...]]] = Field(description="By source and metric family.")

    @property
    def tells_nothing(self) -> bool:
        """Whether nobody speaks in these logs whom inferlog knows: then that nothing was found says nothing."""
        return not self.findings and not self.timeline and all(engine.runtime == UNKNOWN_RUNTIME for engine in self.engines)

    @property
    def worst(self) -> Severity | None:
        """The severity of the first finding."""
        return self.findings[0].severity if self.findings else None
