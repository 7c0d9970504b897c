"""`inferlog analyze` as it is used: what it reads, what it prints, and with what it ends."""

import gzip
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner, Result

from exporter.analysis.report import Report
from exporter.cli import main
from tests.conftest import DATA

HEALTHY = DATA / "vllm-0.32/captured-serve.log"
ACCESS = b'INFO:     127.0.0.1:38764 - "POST /v1/completions HTTP/1.1" 200 OK'
INCIDENT = DATA / "vllm-0.32/captured-pd-decode.log"


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """The command with its output and end."""
    return CliRunner().invoke(main, ["analyze", *map(str, arguments)], input=stdin)


def report(*arguments: str | Path, stdin: bytes | None = None) -> Report:
    """Its JSON, read by the documented schema."""
    return Report.model_validate_json(run(*arguments, "--format", "json", stdin=stdin).stdout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([HEALTHY], 0),
        ([DATA / "vllm-0.33/rendered-combined-dspark.log"], 0),  # warnings alone
        ([INCIDENT], 1),
        ([HEALTHY, INCIDENT], 1),
        (["no-such-file"], 2),
        ([DATA], 2),
        ([], 2),
        (["-", "-"], 2),
        ([HEALTHY, "--timezone", "later"], 2),
        ([HEALTHY, "-o", "/no/such/folder/report"], 2),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_how_it_ends(arguments: list, code: int) -> None:
    """A wrong use is told in a line."""
    result = run(*arguments)
    assert result.exit_code == code
    assert code != 2 or len(result.stderr.strip().splitlines()) <= 4
    assert "Traceback" not in result.output


@pytest.mark.parametrize("data", [b"", b"\x00\x9f\xfe" * 5000, b"of something else\n" * 50], ids=["empty", "binary", "of others"])
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_log_in_which_nobody_speaks(tmp_path: Path, data: bytes, form: str) -> None:
    """Is not clean: there was nothing to find a fault in."""
    path = tmp_path / "other.log"
    path.write_bytes(data)
    result = run(path, "--format", form)
    assert (result.exit_code, result.stderr) == (2, "inferlog: no engine or gateway that is known speaks here: inferlog check says why\n")
    assert "pass" not in result.stdout
    assert form == "json" or "no engine or gateway that is known speaks here" in result.stdout
    assert run(path, INCIDENT).exit_code == 1
    assert run(path, HEALTHY).exit_code == 0


def test_where_it_writes(tmp_path: Path) -> None:
    """To a file, or to standard output for -; never over the log."""
    log, page = tmp_path / "engine.log", tmp_path / "report.html"
    log.write_bytes(HEALTHY.read_bytes())
    assert run(log, "-o", "-").stdout == run(log).stdout
    assert run(log, "-o", page, "--format", "html").stdout == ""
    assert page.read_text().startswith("<!doctype html>")
    link = tmp_path / "link"
    link.symlink_to(log)
    for target in (log, link):
        result = run(log, "-o", target)
        assert (result.exit_code, result.stderr) == (2, f"inferlog: {target}: would be written over the log\n")
    assert log.read_bytes() == HEALTHY.read_bytes()


@pytest.mark.parametrize("form", ["plain", "gz", "gz-members", "zst", "zst-frames", "stdin", "stdin-gz"])
def test_what_it_reads(tmp_path: Path, form: str) -> None:
    """The same report, whatever the file is packed in."""
    data, path, stdin = INCIDENT.read_bytes(), tmp_path / "decode.log", None
    half = len(data) // 2
    if form == "plain":
        path.write_bytes(data)
    elif form.startswith("gz"):
        path = tmp_path / "decode.log.gz"
        path.write_bytes(gzip.compress(data) if form == "gz" else gzip.compress(data[:half]) + gzip.compress(data[half:]))
    elif form.startswith("zst"):
        path, pack = tmp_path / "decode.log.zst", zstandard.ZstdCompressor().compress
        path.write_bytes(pack(data) if form == "zst" else pack(data[:half]) + pack(data[half:]))
    else:
        path, stdin = Path("-"), data if form == "stdin" else gzip.compress(data)
    told = report(path, "--year", 2026, stdin=stdin)
    known = report(INCIDENT, "--year", 2026)
    assert told.files[0].lines == known.files[0].lines == data.count(b"\n")
    assert told.files[0].source == ("stdin" if stdin else "decode")
    assert [each.evidence for each in told.findings] == [each.evidence for each in known.findings]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress], ids=["gz", "zst"])
def test_a_file_that_is_cut_or_broken(tmp_path: Path, pack) -> None:
    """What came before is told, and that the rest is missing."""
    path = tmp_path / "damaged.log"
    packed = pack(HEALTHY.read_bytes() + os.urandom(300_000).hex().encode())
    for damaged in (packed[:-2000], packed[:-20_000] + b"garbage" + packed[-19_993:]):
        path.write_bytes(damaged)
        told = report(path)
        assert told.files[0].damaged
        assert told.engines[0].state == "stopped"
        assert "damaged: the rest could not be read" in run(path).stdout
        assert "damaged, the rest could not be read" in run(path, "--format", "html", "-o", tmp_path / "report.html").stderr


def test_several_files_are_told_apart_and_merged_by_time() -> None:
    """Prefill, decode and a gateway."""
    told = report(
        DATA / "vllm-0.33/rendered-prefill-nixl.log",
        DATA / "vllm-0.33/rendered-decode-nixl.log",
        DATA / "aibrix-0.7.0/rendered-every-way.log",
    )
    assert [(each.runtime, each.role) for each in told.engines] == [("vllm", "prefill"), ("vllm", "decode"), ("aibrix", None)]
    times = [each.first.time for each in told.timeline if each.first.time is not None]
    assert times == sorted(times)
    assert len({each.source for each in told.timeline}) == 3
    severities = [each.severity for each in told.findings]
    assert severities == sorted(severities, key=("critical", "warning", "info").index)


def test_the_same_name_twice_is_two_sources() -> None:
    """Of pods that each have an engine.log."""
    assert [each.source for each in report(INCIDENT, INCIDENT).engines] == ["captured-pd-decode", "captured-pd-decode-2"]


def test_times_are_those_of_the_zone_that_is_given() -> None:
    """And the report says when they are not real ones."""
    here, there = report(HEALTHY, "--year", 2026), report(HEALTHY, "--year", 2026, "--timezone", "+08:00")
    assert (here.files[0].zone_known, there.files[0].zone_known) == (False, True)
    assert here.timeline[0].first.time - there.timeline[0].first.time == 8 * 3600


def test_a_year_that_is_guessed_is_said(tmp_path: Path) -> None:
    """It is that of the file's last change."""
    path = tmp_path / "old.log"
    path.write_bytes(HEALTHY.read_bytes())
    os.utime(path, (0, time.mktime((2023, 12, 30, 0, 0, 0, 0, 0, 0))))
    told = report(path)
    assert (told.files[0].year, told.files[0].year_guessed) == (2023, True)
    assert "last change (2023)" in run(path).stdout
    assert "last change" not in run(path, "--year", 2024).stdout


def test_piped_text_is_plain() -> None:
    """No colours, no boxes, no blanks at the end, and a finding on lines of its own."""
    text = run(INCIDENT).stdout
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.isascii()
    assert "\nCRITICAL  KV transfers of a pair fail" in text


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_memory_does_not_grow_with_the_log() -> None:
    """A hundred megabytes take no more than twenty do."""
    lines = INCIDENT.read_bytes().split(b"\n")
    stats = next(line for line in lines if b"Engine 000" in line)
    block = b"\n".join([*[ACCESS] * 90, stats, next(line for line in lines if b"transfer_exception" in line), b""])

    def peak(megabytes: int) -> int:
        """Bytes that the command had at the most."""
        with subprocess.Popen(
            [sys.executable, "-m", "exporter", "analyze", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as command:
            assert command.stdin
            command.stdin.write(b"\n".join(lines[:100]) + b"\n")
            for second in range(megabytes * 1_000_000 // len(block)):
                command.stdin.write(block.replace(b"13:10:28", b"%02d:%02d:%02d" % (second // 3600 % 24, second // 60 % 60, second % 60)))
            # What the kernel tells at the end has the memory of who started it in it.
            status = Path(f"/proc/{command.pid}/status").read_text()
        assert command.returncode in (0, 1)
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    little, much = peak(20), peak(120)
    assert much < 72 * 1024 * 1024
    assert much - little < 8 * 1024 * 1024


def test_a_reader_that_had_enough(tmp_path: Path) -> None:
    """`| head` ends it without a word."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m exporter analyze {INCIDENT} | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1
