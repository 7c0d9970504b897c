"""To be watched changes nothing: an analysis counts what the daemon counts, at the line that brings it about."""

import io
import re
from pathlib import Path

import pytest

from exporter import saved
from exporter.analysis.analyze import analyze
from exporter.analysis.html import page
from exporter.analysis.inputs import saved_logs
from exporter.analysis.marks import KINDS, WORDS, Place
from exporter.analysis.plots import POINTS, Series
from exporter.analysis.report import Report
from exporter.analysis.text import write
from exporter.analysis.timeline import KEPT, Timeline
from exporter.analysis.watch import WatchedSource
from exporter.exposition import exposition
from exporter.families import FAMILIES
from exporter.source import Source
from tests.conftest import DATA

LOGS = sorted(DATA.glob("*/*.log"))


def read(path: Path, kind: type[Source], size: int) -> Source:
    source = kind("log", year=2026)
    data = path.read_bytes()
    for at in range(0, len(data), size):
        source.feed(data[at : at + size])
    source.end_of_file()
    return source


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_to_be_watched_changes_nothing(path: Path) -> None:
    """The same series, no fault of ours, and marks that add up to the counters."""
    plain, watched = read(path, Source, 1 << 18), read(path, WatchedSource, 1 << 12)
    assert isinstance(watched, WatchedSource)
    assert exposition(saved.snapshots(plain)) == exposition(saved.snapshots(watched))
    for named in watched.named_engines():
        watch = watched.watch_of(named.engine)
        watch.finish()
        for family in WORDS:
            counted = {labels: value for labels, value in named.engine.counters.family(family).items() if value}
            assert counted == {labels: mark.count for (name, labels), mark in watch.marks.items() if name == family}
        for mark in watch.marks.values():
            assert mark.first.line <= mark.last.line or not mark.last.line
        assert {entry.kind for entry in watch.timeline.entries} <= set(KINDS)
        assert watch.engine is named.engine
    assert watched.faults.count == 0


def test_each_family_that_makes_marks_is_a_counter() -> None:
    """With words for its labels."""
    for family, words in WORDS.items():
        assert FAMILIES[family].kind == "counter"
        words.text.format_map(dict.fromkeys(FAMILIES[family].labels, "x"))


def test_a_timeline_is_bounded() -> None:
    """The beginning and the end stay; what repeats within a minute counts."""
    timeline = Timeline()
    for number in range(5 * KEPT):
        timeline.add("jit", "bad", f"kernel {number}", Place(float(number), number))
    assert len(timeline.entries) == 2 * KEPT
    assert timeline.left_out == 3 * KEPT
    assert (timeline.entries[0].text, timeline.entries[-1].text) == ("kernel 0", f"kernel {5 * KEPT - 1}")
    again = Timeline()
    for second in (0, 59, 118, 179):
        again.add("jit", "bad", "kernel", Place(float(second), second), count=2)
    assert [(entry.count, entry.first.line, entry.last.line) for entry in again.entries] == [(6, 0, 118), (2, 179, 179)]


def test_a_series_is_bounded_and_keeps_its_peak() -> None:
    """However long the log is."""
    series = Series()
    for second in range(100_000):
        series.add(float(second), 7.0 if second == 77_777 else 1.0)
    points = series.points()
    assert len(points) <= POINTS
    assert max(point.peak for point in points) == 7
    assert [point.time for point in points] == sorted(point.time for point in points)
    assert sum(point.mean for point in points) / len(points) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_log_has_a_report_in_each_form(path: Path) -> None:
    """Which JSON brings back as it was; a number that is none is in no form."""
    told = analyze(saved_logs([str(path)], 2026))
    written = told.model_dump_json()
    assert Report.model_validate_json(written) == told
    text = io.StringIO()
    write(told, text)
    for form in (written, text.getvalue(), page(told)):
        assert not re.search(r"\bnan\b|\bNaN\b|\binf\b", form)
    assert all(entry.first.line <= told.files[0].lines for entry in told.timeline)
