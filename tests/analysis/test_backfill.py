"""A saved log as OpenMetrics: what promtool makes of it, and whether it is what a scrape would have seen."""

import math
import os
import re
import subprocess
from datetime import UTC
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from exporter.cli import main
from tests.conftest import DATA
from tests.dashboards.plays import moments
from tests.wrappings import cri, wrapped

INCIDENT = DATA / "vllm-0.32/captured-pd-decode.log"
PREFILL_DIED = 1795957991.0
"""When, by the log."""


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["backfill", *map(str, arguments)], input=stdin)


def samples(path: Path) -> dict[tuple[str, frozenset], dict[float, float]]:
    """By series, values by time; read by a strict parser."""
    found: dict = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        for sample in family.samples:
            found.setdefault((sample.name, frozenset(sample.labels.items())), {})[float(sample.timestamp)] = sample.value
    return found


def values(path: Path, family: str, **labels: str) -> dict[float, float]:
    """Those of the one series with these labels."""
    (found,) = [
        each for (name, have), each in samples(path).items() if name == f"inferlog_{family}" and labels.items() <= dict(have).items()
    ]
    return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The incident, every 15 seconds, in UTC."""
    target = tmp_path_factory.mktemp("backfill") / "incident.om"
    result = run(
        INCIDENT, "-o", target, "--year", 2026, "--timezone", "+00:00", "--label", "namespace=chat", "--label", "instance=decode-0:19877"
    )
    assert result.exit_code == 0, result.output
    return target


def test_counters_and_gauges_are_as_they_were(filled: Path) -> None:
    """At each interval: nothing is known before it was printed, and all of it at the next one."""
    failed = values(filled, "kv_transfer_failures_total", reason="transfer_exception")
    before = [value for at, value in failed.items() if at <= PREFILL_DIED]
    after = [value for at, value in failed.items() if at > PREFILL_DIED]
    assert (set(before), set(after)) == ({0.0}, {4.0})
    verdicts = {
        at: verdict
        for verdict in ("proven", "transport_failing")
        for at, held in values(filled, "pd_verdict", verdict=verdict).items()
        if held
    }
    assert verdicts[min(at for at in verdicts if at >= 1795957829 + 1)] == "proven"
    assert verdicts[min(at for at in verdicts if at > PREFILL_DIED)] == "transport_failing"


def test_no_line_counts_early(filled: Path) -> None:
    """What is told of an interval's end are the lines before it, and none that is later."""
    written, latest = [], 0.0
    for line in INCIDENT.read_bytes().decode().split("\n")[:-1]:
        for at in moments(line, 2026)[:1]:
            latest = max(latest, at.replace(tzinfo=UTC).timestamp())
        written.append(latest)
    counted: dict[float, float] = {}
    for (name, _), each in samples(filled).items():
        if name == "inferlog_log_lines_total":
            for at, value in each.items():
                counted[at] = counted.get(at, 0) + value
    assert counted == {at: sum(time < at for time in written) for at in counted}


def test_each_interval_is_there(filled: Path) -> None:
    """On the clock's own quarters of a minute, from behind the first line to behind the last."""
    times = sorted(values(filled, "log_lines_total", level="INFO"))
    assert times == [float(at) for at in range(int(times[0]), int(times[-1]) + 1, 15)]
    assert times[0] % 15 == 0
    assert times[0] - 15 < 1795957744 <= times[0]
    assert times[-1] - 15 <= 1795958261 < times[-1]


def test_the_labels_of_a_scrape(filled: Path) -> None:
    """As given, and the job and the instance that dashboards ask for."""
    labels = [dict(labels) for _, labels in samples(filled)]
    assert {(each["job"], each["instance"], each["namespace"]) for each in labels} == {("inferlog", "decode-0:19877", "chat")}


def test_gauges_expire_as_live(tmp_path: Path) -> None:
    """Two minutes after their line; counters stay, over a night as well."""
    log, target = tmp_path / "night.log", tmp_path / "night.om"
    stats = "INFO 07-14 {} [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.0%, Prefix cache hit rate: 0.0%\n"
    log.write_text(stats.format("03:00:00") + stats.format("09:00:00"))
    run(log, "-o", target, "--year", 2026, "--interval", "1m", "--timezone", "+00:00")
    gauge, counter = values(target, "requests_running"), values(target, "log_lines_total", level="INFO")
    assert len(counter) == 6 * 60 + 1
    first = min(counter)
    assert gauge == {first: 1.0, first + 60: 1.0, max(counter): 1.0}


def test_a_time_that_no_longer_holds(filled: Path) -> None:
    """Is no number from then on: it would tell of what is over for five minutes more. No other series has such a value."""
    told = samples(filled)
    none = {name for (name, _), each in told.items() for value in each.values() if math.isnan(value)}
    assert none
    assert {name for name in none if not name.endswith("_timestamp_seconds")} == set()
    failing = values(filled, "pd_check_failing_timestamp_seconds", check="local_prefill_low")
    over = [at for at, value in failing.items() if math.isnan(value)]
    assert over == [at for at in failing if at > 1795957970 and not failing[at] <= at][:1]
    assert values(filled, "pd_evidence", check="local_prefill_low", status="fail")[over[0]] == 0


def test_a_line_from_the_future_fills_no_years(tmp_path: Path) -> None:
    """A forged or broken time leaves a gap."""
    log, target = tmp_path / "torn.log", tmp_path / "torn.om"
    ready = "[2026-07-14 03:00:00] The server is fired up and ready to roll!\n"
    log.write_text(ready + ready.replace("2026-07-14", "2097-01-01"))
    run(log, "-o", target)
    assert len(values(target, "engine_ready")) <= 3


@pytest.mark.parametrize("ahead", [8, 0, -5])
def test_the_zone_is_guessed_from_the_last_change(tmp_path: Path, ahead: int) -> None:
    """And said; a file that was copied tells none."""
    log, target = tmp_path / "engine.log", tmp_path / "engine.om"
    log.write_bytes(INCIDENT.read_bytes())
    os.utime(log, (0, 1795958261 - 3600 * ahead + 7))
    told = run(log, "-o", target).stderr
    assert f"UTC{'-' if ahead < 0 else '+'}0{abs(ahead)}:00" in told
    assert "the year, where lines have none, is taken from the file's last change (2026)" in told
    assert max(values(target, "log_lines_total", level="INFO")) == pytest.approx(1795958261 - 3600 * ahead, abs=15)
    os.utime(log, (0, 1795958261 + 400))
    assert "nothing tells their zone" in run(log, "-o", target).stderr


@pytest.mark.parametrize("changed", [1795958261 - 8 * 3600, 1795958261 + 2 * 3600], ids=["changed then", "as if of another zone"])
@pytest.mark.parametrize("begin", [0, 2], ids=["whole", "without the line of the start"])
def test_a_container_runtime_tells_the_zone(tmp_path: Path, changed: int, begin: int) -> None:
    """Its times are real ones, whatever the engine prints inside, and whenever the file was changed last."""
    log, target = tmp_path / "engine.log", tmp_path / "engine.om"
    data = b"".join(wrapped(b"".join(INCIDENT.read_bytes().splitlines(keepends=True)[begin:]), cri, 2026))
    log.write_bytes(re.sub(rb"2026-11-29T13", b"2026-11-29T05", data))
    os.utime(log, (0, changed))
    told = run(log, "-o", target, "--year", 2026).stderr
    assert told.startswith(f"{log}: times are those of the container runtime\n")
    times = sorted(values(target, "kv_transfer_failures_total", reason="handshake"))
    assert times[0] - 15 <= 1795957744 - 8 * 3600 <= times[0]
    ready = values(target, "engine_ready_timestamp_seconds")
    assert set(ready.values()) == {1795957788.0 - 8 * 3600}


@pytest.mark.parametrize(
    "arguments",
    [
        ([INCIDENT], "Missing option"), (["no-such", "-o", "x"], "No such file"), ([INCIDENT, "-o", "/no/such/x"], "No such file"),
        ([INCIDENT, "-o", "x", "--interval", "0"], "at least a second"), ([INCIDENT, "-o", "x", "--label", "a"], "not NAME=VALUE"),
        ([INCIDENT, "-o", "x", "--label", "source=a"], "not NAME=VALUE"), ([INCIDENT, "-o", "x", "--timezone", "CET"], "offset from UTC"),
    ],
    ids=lambda value: value[1],
)  # fmt: skip
def test_a_wrong_use(arguments: tuple[list, str]) -> None:
    """Ends with 2 and says what is wrong."""
    result = run(*arguments[0])
    assert result.exit_code == 2
    assert arguments[1] in result.stderr


@pytest.mark.parametrize("data", [b"", b"\x00\x9f\xfe" * 5000, b"no times\n"], ids=["empty", "binary", "without times"])
def test_nothing_to_write(tmp_path: Path, data: bytes) -> None:
    """Is said, and leaves no file that promtool would make nothing of."""
    log, target = tmp_path / "other.log", tmp_path / "other.om"
    log.write_bytes(data)
    result = run(log, "-o", target)
    assert (result.exit_code, target.exists()) == (2, False)
    assert result.stderr.endswith("inferlog: no line with a time is in these logs: there is nothing to write\n")


def test_never_over_the_log(tmp_path: Path) -> None:
    """But to standard output for -."""
    log = tmp_path / "engine.log"
    log.write_bytes(INCIDENT.read_bytes())
    assert run(log, "-o", log).exit_code == 2
    assert log.read_bytes() == INCIDENT.read_bytes()
    assert run(log, "-o", "-").stdout.endswith("# EOF\n")


@pytest.mark.prometheus
def test_promtool_makes_blocks_of_it(filled: Path, tmp_path: Path, promtool: str) -> None:
    """Of every sample."""
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", filled, tmp_path], check=False, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    counted = sum(int(row.split()[4]) for row in made.stdout.splitlines() if re.match("[0-9A-Z]{26} ", row))
    assert counted == sum(map(len, samples(filled).values()))
