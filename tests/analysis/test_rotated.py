"""Pieces of a rotated log are one log, in the order in which they were written."""

import gzip
import os
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from exporter.analysis.inputs import saved_logs
from exporter.analysis.report import Report
from exporter.analysis.rotated import pieces
from exporter.cli import main
from tests.conftest import DATA
from tests.exporter.conftest import selected

ROTATED = "read as one rotated log, oldest first by the times of their lines: "
INCIDENT = DATA / "vllm-0.32/captured-pd-decode.log"
NAMES = ("engine.log.2.gz", "engine.log.1", "engine.log")
"""Oldest first."""


def run(command: str, *arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [command, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def report(*arguments: object) -> Report:
    return Report.model_validate_json(run("analyze", "--year", 2026, "--format", "json", *arguments, code=1).stdout)


def events(*paths: Path) -> list[str]:
    """All but answers, which are told together as far as they are read together."""
    return [line for line in run("events", *paths).stdout.splitlines() if '"http_responses"' not in line]


def write(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """The incident in pieces of these names, oldest first."""
    lines = INCIDENT.read_bytes().splitlines(keepends=True)
    cuts = [len(lines) * at // len(names) for at in range(len(names) + 1)]
    paths = [folder / name for name in names]
    for path, first, last in zip(paths, cuts, cuts[1:], strict=False):
        data = b"".join(lines[first:last])
        pack = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
        path.write_bytes(pack(data))
    return paths


@pytest.mark.parametrize(
    ("paths", "logs"),
    [
        (["a/engine.log", "a/engine.log.1", "a/engine.log.2.gz"], [["a/engine.log.2.gz", "a/engine.log.1", "a/engine.log"]]),
        (["engine.log.10", "engine.log.9"], [["engine.log.10", "engine.log.9"]]),
        (["0.log", "0.log.20260731-120000", "0.log.20260730-120000.gz"], [["0.log.20260730-120000.gz", "0.log.20260731-120000", "0.log"]]),
        (["vllm-20260801", "vllm-20260731.zst"], [["vllm-20260731.zst", "vllm-20260801"]]),
        (["./engine.log", "engine.log.1"], [["engine.log.1", "./engine.log"]]),
        (["decode", "decode.1"], [["decode.1", "decode"]]),
        (["engine.log", "engine-20260731.log"], [["engine-20260731.log", "engine.log"]]),
        (["engine.2026-08-01.log", "engine.2026-07-31.log.gz"], [["engine.2026-07-31.log.gz", "engine.2026-08-01.log"]]),
        # other logs
        (["engine.log", "engine-1.log"], [["engine.log"], ["engine-1.log"]]),
        (["slurm-48123456.out", "slurm-48123457.out"], [["slurm-48123456.out"], ["slurm-48123457.out"]]),
        (["job-48123456", "job-48123457"], [["job-48123456"], ["job-48123457"]]),
        (["a/engine.log", "b/engine.log.1"], [["a/engine.log"], ["b/engine.log.1"]]),
        (["engine-0", "engine-1"], [["engine-0"], ["engine-1"]]),
        (["run.1", "run.2"], [["run.1"], ["run.2"]]),
        (["0.log", "1.log"], [["0.log"], ["1.log"]]),
        (["engine.log", "engine.log.bak"], [["engine.log"], ["engine.log.bak"]]),
        (["engine.log", "engine.log"], [["engine.log"], ["engine.log"]]),
        (["-", "engine.log"], [["-"], ["engine.log"]]),
        (["decode.log", "prefill.log.1", "decode.log.1"], [["decode.log.1", "decode.log"], ["prefill.log.1"]]),
    ],
    ids=str,
)
def test_which_files_are_of_one_log(paths: list[str], logs: list[list[str]]) -> None:
    """The same name but for what a rotation appends; without any time in them numbers run down and dates run up."""
    assert [list(each.paths) for each in pieces(paths, lambda path: None)] == logs


def test_a_year_that_nobody_printed(tmp_path: Path) -> None:
    """Times of December and January do not tell which came first where the year is that of a copy."""
    old, new = tmp_path / "engine.log.1", tmp_path / "engine.log"
    for path, day in ((old, "12-31"), (new, "01-01")):
        path.write_text(f"INFO {day} 03:00:00 [api_server.py:1] a\n")
    [log] = saved_logs([str(new), str(old)], year=2026)
    assert (log.pieces, log.order) == ((str(old), str(new)), "their names")


@pytest.mark.parametrize("name", ["engine.log.1", "engine.log.1.gz", "engine.log-20260731", "engine-20260731.log"])
def test_a_piece_alone_has_the_name_of_its_log(tmp_path: Path, name: str) -> None:
    """As the others would have with it."""
    write(tmp_path, (name,))
    assert [each.name for each in saved_logs([str(tmp_path / name)])] == ["engine"]


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        ("engine.log.1", "engine.log.2.zst", "engine.log.3"),
        ("e.log-20260101", "e.log-20260102.gz", "e.log"),
        ("e-20260101.log", "e-20260102.log.gz", "e.log"),
    ],
)
def test_pieces_are_one_log(tmp_path: Path, names: tuple[str, ...]) -> None:
    """However they are named, given and copied: the times of their lines tell their order."""
    paths = write(tmp_path, names)
    for at, path in enumerate(paths):
        os.utime(path, (0, 1_800_000_000 - at))  # as a copy of the alphabetical kind leaves them
    given = list(paths)
    random.Random(len(names[1])).shuffle(given)
    told, whole = report(*given), report(INCIDENT)
    assert [each.source for each in told.engines] == [names[-1].partition(".log")[0]]
    assert [piece.path for piece in told.files[0].pieces] == list(map(str, paths))
    assert told.files[0].lines == whole.files[0].lines == sum(piece.lines for piece in told.files[0].pieces)

    def evidence(report: Report) -> list[Any]:
        return [(each.alert, one.text, one.count, one.first.time, one.last.time) for each in report.findings for one in each.evidence]

    assert evidence(told) == evidence(whole)
    assert [(each.text, each.count, each.first.time) for each in told.timeline] == [
        (each.text, each.count, each.first.time) for each in whole.timeline
    ]


def test_a_line_is_told_as_that_of_its_piece(tmp_path: Path) -> None:
    """For who opens it in an editor."""
    paths = write(tmp_path, NAMES)
    told, whole = report(*paths), report(INCIDENT)
    before = {str(path): sum(each.lines for each in told.files[0].pieces[:at]) for at, path in enumerate(paths)}
    places = [one.first for each in told.findings for one in each.evidence]
    assert {place.file for place in places} <= set(before)
    assert [place.line + before[place.file] for place in places] == [one.first.line for each in whole.findings for one in each.evidence]
    text = run("analyze", *paths, code=1).stdout
    parts = ", ".join(f"{path.name} ({piece.lines} lines)" for path, piece in zip(paths, told.files[0].pieces, strict=True))
    assert f"; read as one rotated log, oldest first by the times of their lines: {parts}; " in text
    assert "engine.log line " in text


def test_a_damaged_piece_hides_no_other(tmp_path: Path) -> None:
    """What is left of it and all of the rest is read."""
    paths = write(tmp_path, NAMES)
    paths[0].write_bytes(paths[0].read_bytes()[:-500])
    told = report(*paths)
    assert told.files[0].damaged.startswith(f"{paths[0]}: ")
    assert told.findings[0].alert == report(INCIDENT).findings[0].alert
    assert "damaged, the rest could not be read" in run("metrics", *paths, code=2).stderr
    assert "damaged, the rest could not be read" in run("check", *paths, code=2).stdout
    assert "damaged, the rest could not be read" in run("backfill", *paths, "-o", tmp_path / "x.om", code=2).stderr


def test_a_piece_that_ends_within_a_line(tmp_path: Path) -> None:
    """Ends the line, as where a log is followed."""
    first, second = tmp_path / "engine.log.1", tmp_path / "engine.log"
    first.write_bytes(b"INFO:     Started server process [1]\nINFO 07-14 03:00:00 [api_server.py:1] half")
    second.write_bytes(b"INFO 07-14 03:00:01 [api_server.py:1] whole\n")
    assert selected(run("metrics", second, first).stdout, "inferlog_log_lines_total", level="INFO") == [3]


def test_each_command_reads_them_as_one(tmp_path: Path) -> None:
    """And tells the same as of the whole log."""
    paths, whole = write(tmp_path, NAMES), tmp_path / "whole/engine.log"
    whole.parent.mkdir()
    whole.write_bytes(INCIDENT.read_bytes())
    for path in (*paths, whole):
        os.utime(path, (0, 1_795_958_261))
    assert run("metrics", *paths).stdout == run("metrics", whole).stdout
    assert events(*paths) == events(whole)
    checked, known = run("check", *paths).stdout, run("check", whole).stdout
    assert ROTATED in checked
    assert checked.splitlines()[2:] == known.splitlines()[1:]
    run("backfill", whole, "-o", tmp_path / "whole.om")
    told = run("backfill", *paths, "-o", tmp_path / "pieces.om").stderr
    assert ROTATED in told
    assert ROTATED in run("metrics", *paths).stderr
    assert ROTATED in run("events", *paths).stderr
    assert (tmp_path / "pieces.om").read_text() == (tmp_path / "whole.om").read_text()
