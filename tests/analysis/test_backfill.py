"""A saved log as OpenMetrics: what promtool makes of it, and whether it is what a scrape would have seen."""

import os
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from exporter.cli import main
from exporter.replay import replay_log
from tests.conftest import DATA, tool
from tests.dashboards.boards import VARIABLES, targets
from tests.dashboards.plays import Play
from tests.dashboards.stage import Stage, ask, serve
from tests.exporter.conftest import free_port, wait_for
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
    assert [str(value) for value in gauge.values()] == ["1.0", "1.0", "nan", "1.0"]


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


def test_a_container_runtime_tells_the_zone(tmp_path: Path) -> None:
    """Its times are real ones, whatever the engine prints inside."""
    log, target = tmp_path / "engine.log", tmp_path / "engine.om"
    data = b"".join(wrapped(INCIDENT.read_bytes(), cri, 2026))
    log.write_bytes(re.sub(rb"2026-11-29T13", b"2026-11-29T05", data))
    run(log, "-o", target, "--year", 2026)
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


@pytest.mark.prometheus
def test_promtool_makes_blocks_of_it(filled: Path, tmp_path: Path, promtool: str) -> None:
    """Of every sample."""
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", filled, tmp_path], check=False, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    counted = sum(int(row.split()[4]) for row in made.stdout.splitlines() if re.match("[0-9A-Z]{26} ", row))
    assert counted == sum(map(len, samples(filled).values()))


# -- beside a scrape ---------------------------------------------------------------------------------------------------

INTERVAL = 1
FASTER = 4
"""So that a value lasts for more than two scrapes: others are a matter of chance."""
_OF_THE_EXPORTER = re.compile(r"inferlog_(source_|checkpoint|config_|build_info|exporter_|rdma_)|\bup\b|time\(\)")


def _read(text: str) -> datetime:
    return datetime.strptime(f"2026 {text}", "%Y %m-%d %H:%M:%S")  # noqa: DTZ007 - logs have no zone


def hurried() -> bytes:
    """The incident up to the death of prefill within a minute, from now on."""
    stamp = re.compile(rb"\b11-29 \d\d:\d\d:\d\d\b")
    first = _read("11-29 13:09:04")
    now = datetime.now()  # noqa: DTZ005 - as the log's own

    def sooner(found: re.Match[bytes]) -> bytes:
        return (now + (_read(found[0].decode()) - first) / FASTER).strftime("%m-%d %H:%M:%S").encode()

    return stamp.sub(sooner, (DATA / "vllm-0.32/captured-pd-decode-prefill-killed.log").read_bytes())


def near(live: dict[float, str], past: dict[float, str]) -> list[tuple[float, str]]:
    """Live values that the past has at no time within an interval."""
    return [(at, value) for at, value in live.items() if value not in {past.get(at + by) for by in range(-INTERVAL - 1, INTERVAL + 2)}]


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_it_is_what_a_scrape_would_have_seen(tmp_path: Path) -> None:
    """The queries of the dashboards, at each second, on a server that scraped the replay and on one that got the blocks."""
    promtool = tool("promtool", "prometheus")
    tool("prometheus", "prometheus")
    stage = Stage(tmp_path, {"decode-0": Play([], [], {"pd_role": "decode", "pd_expect": "all"})}, scrape=f"{INTERVAL}s", alone=True)
    try:
        begin = stage.now(scrapes=1)
        told = tmp_path / "told.log"
        told.write_bytes(hurried())
        replay_log(told, stage.path("decode-0"), speed=1)
        end = stage.now(scrapes=2)
        target = tmp_path / "past.om"
        result = run(
            stage.path("decode-0"), "-o", target, "--interval", f"{INTERVAL}s", "--pd-role", "decode", "--pd-expect", "all",
            "--label", f"instance=127.0.0.1:{stage.daemon.port}",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        past = tmp_path / "past"
        (past / "tsdb").mkdir(parents=True)
        (past / "prometheus.yml").write_text("")
        subprocess.run([promtool, "tsdb", "create-blocks-from", "openmetrics", target, past / "tsdb"], check=True, capture_output=True)
        compare(stage, past, begin, end)
    finally:
        stage.end()


def compare(stage: Stage, past: Path, begin: float, end: float) -> None:
    """All that dashboards ask of engines."""
    address = f"127.0.0.1:{free_port()}"
    server = serve(past, address)
    try:
        wait_for(lambda: ask(address, "query", query="1").get("status") == "success", "a server with the blocks", 30)

        def series(where: str, query: str) -> dict[str, dict[float, str]]:
            found: Any = ask(where, "query_range", query=query, start=begin, end=end, step=1)["data"]["result"]
            # What is gone is absent on one, and no number on the other.
            return {
                str(sorted(each["metric"].items())): {float(at): value for at, value in each["values"] if value != "NaN"} for each in found
            }

        asked = sorted({each.expression.replace(VARIABLES["$__rate_interval"], "20s") for each in targets()})
        asked = [
            each
            for each in asked
            if "inferlog_" in each and not _OF_THE_EXPORTER.search(each) and "vllm:" not in each and "sglang:" not in each
        ]
        compared, wrong = 0, {}
        for query in asked:
            live, filled = series(stage.prometheus, query), series(address, query)
            for labels in live.keys() | filled.keys():
                compared += 1
                if re.search(r"\b(rate|increase|count)\(", query):
                    continue  # extrapolated between scrapes of other moments; series that are gone count for five minutes more
                one, other = live.get(labels, {}), filled.get(labels, {})
                if differs := [each for each in near(one, other) + near(other, one) if begin + 3 * INTERVAL < each[0] < end - 3 * INTERVAL]:
                    wrong[query, labels] = differs[:3]
        assert not wrong, "\n".join(f"{query[-300:]} {labels} {points}" for (query, labels), points in wrong.items())
        assert compared > 50
    finally:
        server.terminate()
        server.wait(20)
