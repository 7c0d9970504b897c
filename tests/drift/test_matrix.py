"""The compatibility page: filled by what releases print, without a hole that nobody explains."""

from pathlib import Path

import pytest

from exporter.drift.facts import Facts, ranges, relevant
from exporter.drift.matrix import TITLES, cells
from exporter.drift.release import Release
from exporter.drift.signals import SIGNALS
from exporter.drift.silences import SILENCES

DATA = Path(__file__).parents[2] / "docs" / "formats.json"
FACTS = Facts.load(DATA)

ASKED = {
    "vllm": "0.8.5 0.10.2 0.12.0 0.14.0 0.16.0 0.18.0 0.20.0 0.21.0 0.22.0 0.24.0 0.26.0 0.28.0 0.30.0 0.32.0 0.33.0",
    "sglang": "0.4.9 0.5.3 0.5.8 0.5.12 0.5.17 0.5.20 0.5.23",
    "nixl": "1.5.1",
    "tilelang": "0.1.14 0.1.15",
    "triton": "3.8.0 3.9.0",
    "flashinfer": "0.7.2.post1 0.7.4",
}


@pytest.fixture(scope="module")
def rows():
    return {(package, row[0].signal.name): row for package in TITLES for row in cells(FACTS, package)}


@pytest.mark.parametrize("package", ASKED)
def test_the_releases_are_there(package):
    """Those that the page promises."""
    assert set(ASKED[package].split()) <= FACTS.releases[package].keys()


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: f"{signal.package}-{signal.name}")
def test_no_cell_is_empty_without_a_reason(signal, rows):
    """Each is filled by all forms of its release, or named as the engine's own silence."""
    holes = {cell.version: [shape for _, shape in cell.unread] for cell in rows[signal.package, signal.name] if cell.is_hole}
    assert not holes


@pytest.mark.parametrize("silence", SILENCES, ids=lambda silence: f"{silence.package}-{silence.signal}")
def test_no_reason_is_given_for_a_filled_cell(silence, rows):
    """A silence ends where the release speaks: its bounds are those of the data."""
    silent = [cell for cell in rows[silence.package, silence.signal] if cell.silence == silence]
    assert silent
    assert not [cell.version for cell in silent if cell.forms]


def test_a_cell_needs_a_parsed_line(wheel, tmp_path):
    """A rule that only claims a version fills nothing: the release's own words do."""
    facts = Facts()
    source = (
        'logger.info("GPU KV cache size: %s tokens", tokens)\nlogger.info("Maximum concurrency for %s tokens a request is %.2f", n, c)\n'
    )
    facts.add(Release(wheel({"vllm/a.py": source}, version="0.40.0")))
    found = {row[0].signal.name: row[0] for row in cells(facts, "vllm")}
    assert str(found["kv_size"]) == "yes"
    assert (str(found["max_concurrency"]), found["max_concurrency"].is_hole) == ("0 of 1", True)
    assert (str(found["stats"]), found["stats"].is_hole) == ("–", True)


def test_the_data_file_is_read_as_it_was_written(wheel, tmp_path):
    """Format strings with runs of releases."""
    facts = Facts()
    for version, text in (
        ("0.9.0", "GPU KV cache size: %s tokens"),
        ("0.10.0", "GPU KV cache size: %s tokens"),
        ("0.11.0", "KV cache size: %s tokens"),
    ):
        facts.add(Release(wheel({"vllm/a.py": f'logger.info("{text}", n)\n'}, version=version)))
    facts.dump(tmp_path / "formats.json")
    again = Facts.load(tmp_path / "formats.json")
    assert again.releases == facts.releases
    assert list(again.releases["vllm"]) == ["0.9.0", "0.10.0", "0.11.0"]


def test_runs_are_short():
    """What all releases say takes one line."""
    assert ranges([3, 1, 2, 7]) == [[1, 3], [7, 7]]


def test_what_belongs_to_no_signal_is_left_out(wheel):
    """The data file holds facts about signals, and no source text."""
    release = Release(wheel({"vllm/a.py": 'logger.info("hello %s", name)\nlogger.error("lost")\n'}))
    assert not list(relevant(release))


def test_the_data_file_is_in_order(tmp_path):
    """Written by the command, so that differences are small."""
    copy = tmp_path / "formats.json"
    FACTS.dump(copy)
    assert copy.read_text("utf-8") == DATA.read_text("utf-8")
