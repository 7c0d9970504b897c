"""A backfilled log beside a live one: all queries of the dashboards, on a server that scraped a replay and on one that got the blocks.

Lines stamped with a second are written half a second behind the scrape of that second, so that both see them at the next one. A step is
a quarter of a second behind a scrape on the one and behind a sample on the other: they are less than an interval apart, and a window has
as many samples on both. A value must be the other's of the same step, or of one beside it; that of a window may lie between these, and
differs by what the lateness of scrapes adds to it. A window counts only where both recorded all of it.

A series that ends is gone at once where it was scraped, and after the lookback time where it was backfilled: that is set to one interval.
"""

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from click.testing import CliRunner

from exporter.cli import main
from tests.conftest import DATA, tool
from tests.dashboards.boards import VARIABLES, selectors, targets
from tests.dashboards.plays import Play, moments, retimed
from tests.dashboards.stage import Stage, ask, serve
from tests.exporter.conftest import free_port, wait_for

LOGS = {
    "decode-0": "vllm-0.32/captured-pd-decode",
    "spec-0": "vllm-0.32/captured-ngram",
    "dspark-0": "vllm-0.33/rendered-combined-dspark",
    "prefill-0": "vllm-0.33/rendered-prefill-nixl",
    "oom-0": "vllm-0.33/rendered-crash-oom",
    "sglang-0": "sglang-0.5.23/rendered-jit-while-serving",
    "sglang-1": "sglang-0.5.23/rendered-startup-dspark",
    "gateway-0": "aibrix-0.7.0/rendered-every-way",
}
SECONDS = 40
"""How long the replay takes: each log is written in it, from its first line to its last."""
INTERVAL = 1
WINDOW = 4
"""The rate interval that Grafana takes: four times the interval between scrapes."""
PAIR = {"pd_role": "decode", "pd_expect": "all"}
OFFSET = 0.25

OF_THE_DAEMON = re.compile(r"inferlog_(source_(?!faults)|checkpoint_|config_last_|build_info|exporter_|rdma_|engine_metrics_)")
"""What no log tells: how the daemon fares."""


class Stamped(NamedTuple):
    """A line, and the second in which it says it was written."""

    second: float
    source: str
    line: str


def hurried(source: str, log: str, begin: datetime) -> Iterator[Stamped]:
    """A log as of a run that began then and took no longer than the others; lines without a time belong to the one before."""
    lines = (DATA / f"{log}.log").read_text(encoding="utf-8").splitlines()
    times = [at for line in lines for at in moments(line, begin.year)]
    first, pace = min(times), (max(times) - min(times)).total_seconds() / SECONDS

    def sooner(at: datetime) -> datetime:
        return begin + timedelta(seconds=int((at - first).total_seconds() / pace))

    second = begin
    for line in lines:
        second = max([second, *map(sooner, moments(line, begin.year))])
        yield Stamped(second.timestamp(), source, retimed(line, begin.year, sooner))


def replay(stage: Stage) -> tuple[int, float]:
    """Write all logs at once. The first second that they print, and by how much scrapes are behind the second."""
    scraped = float(stage.ask("query", query="timestamp(up)")["data"]["result"][0]["value"][1])
    begin, behind = int(scraped) + 2, scraped % 1
    start = datetime.fromtimestamp(begin)  # noqa: DTZ006 - as the logs' own
    lines = sorted((each for source, log in LOGS.items() for each in hurried(source, log, start)), key=lambda each: each.second)
    pause = threading.Event()
    for second, each in groupby(lines, key=lambda each: each.second):
        pause.wait(second + behind + INTERVAL / 2 - time.time())
        for _, source, line in each:
            stage.write(source, [line])
    return begin, behind


@pytest.mark.prometheus
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_it_is_what_a_scrape_would_have_seen(tmp_path: Path) -> None:
    """Every query of every dashboard that has data, at each second."""
    promtool = tool("promtool", "prometheus")
    tool("prometheus", "prometheus")
    stage = Stage(tmp_path, {name: Play([], [], PAIR) for name in LOGS}, scrape=f"{INTERVAL}s", alone=True)
    try:
        stage.now(scrapes=1)
        begin, behind = replay(stage)
        stage.now(scrapes=2)
        target = tmp_path / "past.om"
        settings = [f"--{name.replace('_', '-')}={value}" for name, value in PAIR.items()]
        label = f"instance=127.0.0.1:{stage.daemon.port}"
        logs = [str(stage.path(name)) for name in LOGS]
        result = CliRunner().invoke(main, ["backfill", *logs, "-o", str(target), "--interval", f"{INTERVAL}s", "--label", label, *settings])
        assert result.exit_code == 0, result.output
        past = tmp_path / "past"
        (past / "tsdb").mkdir(parents=True)
        (past / "prometheus.yml").write_text("")
        subprocess.run([promtool, "tsdb", "create-blocks-from", "openmetrics", target, past / "tsdb"], check=True, capture_output=True)
        address = f"127.0.0.1:{free_port()}"
        server = serve(past, address, f"--query.lookback-delta={INTERVAL}s")
        try:
            wait_for(lambda: ask(address, "query", query="1").get("status") == "success", "a server with the blocks", 30)
            Comparison(stage.prometheus, address, begin, behind).all_queries()
        finally:
            server.terminate()
            server.wait(20)
    finally:
        stage.end()


Values: TypeAlias = dict[int, str | None]
"""By step; what is no number is absent."""


class Comparison:
    """Two servers' answers to the same queries."""

    def __init__(self, live: str, past: str, begin: int, behind: float) -> None:
        self.servers = ((live, begin + behind + OFFSET), (past, begin + OFFSET))
        """Each with the time of the first step."""
        self.past_names, self.live_names = self._names(past), self._names(live)
        [lateness] = self._series(*self.servers[0], f"timestamp(up) - {begin + behind}").values()
        self.jitter = max(abs(float(late or 0) - step) for step, late in lateness.items())
        """By how much scrapes were late, in seconds."""

    def _names(self, server: str) -> set[str]:
        return {each for each in ask(server, "label/__name__/values")["data"] if each.startswith("inferlog_")}

    def all_queries(self) -> None:
        """Each must give the same, and what one server has not is the daemon's."""
        assert {each for each in self.live_names - self.past_names if not OF_THE_DAEMON.match(each)} == set()
        assert self.past_names - self.live_names == set()
        queries = sorted({each.expression.replace(VARIABLES["$__rate_interval"], f"{WINDOW}s") for each in targets()})
        wrong, compared, values = {}, 0, 0
        for query in queries:
            if {name for selector, _ in selectors(query) if (name := selector.name)} & (self.live_names - self.past_names):
                continue  # it asks how the daemon fares
            live, past = self._both(query)
            compared += bool(live or past)
            for labels in live.keys() | past.keys():
                one, other = live.get(labels, {}), past.get(labels, {})
                values += len(one)
                if found := differing(query, one, other, self.jitter):
                    wrong[query, labels] = found[:4]
        assert not wrong, f"{len(wrong)} of {compared}\n" + "\n".join(
            f"{query[-300:]} {labels} {points}" for (query, labels), points in wrong.items()
        )
        assert compared > 90
        assert values > 10_000

    def _both(self, query: str) -> tuple[dict[str, Values], dict[str, Values]]:
        """The answers of the two, whose clocks differ by how far scrapes are behind the second."""
        (live, begin), (past, other) = self.servers
        return self._series(live, begin, query.replace("time()", f"(time() - {begin - other:.3f})")), self._series(past, other, query)

    def _series(self, server: str, begin: float, query: str) -> dict[str, Values]:
        found: Any = ask(server, "query_range", query=query, start=begin, end=begin + SECONDS, step=INTERVAL)
        assert found["status"] == "success", (query, found)
        return {
            str(sorted(each["metric"].items())): {
                round(float(at) - begin): f"{float(value):.3f}" if "time()" in query else value
                for at, value in each["values"]
                if value != "NaN"
            }
            for each in found["data"]["result"]
        }


def differing(query: str, live: Values, past: Values, jitter: float) -> list[tuple[int, str | None, str | None]]:
    """Steps at which one has a value that the other has neither at this step nor at one beside it."""
    windowed = re.search(r"\[\d+s\]", query)
    slack = 3 * jitter / (WINDOW - 1) if windowed else 0
    steps = range(1 + (WINDOW if windowed else 0), SECONDS)
    return [
        (step, live.get(step), past.get(step))
        for step in steps
        for one, other in ((live, past), (past, live))
        if not alike(one.get(step), [other.get(near) for near in (step - 1, step, step + 1)], slack, between=bool(windowed))
    ]


def alike(value: str | None, others: list[str | None], slack: float, *, between: bool) -> bool:
    """Whether a value is one of the others, or lies between them but for some part of it."""
    numbers = [float(each) for each in others if each is not None]
    if value in others or value is None or not numbers or not between:
        return value in others
    slack *= max(map(abs, numbers))
    return min(numbers) - slack <= float(value) <= max(numbers) + slack
