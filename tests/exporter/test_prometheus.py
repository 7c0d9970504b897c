"""What a real Prometheus makes of it: it scrapes every second, while the daemon is killed and started and the log is rotated."""

import json
import os
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import POST, READY, Running, core, free_port, line, logo, stats, transfers, wait_for

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(180)]

KILLS = 6
ROUNDS = 40
"""Batches of lines, about two a second."""


class Prometheus:
    """A server of its own that scrapes one address."""

    def __init__(self, folder: Path, target: int) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            f"scrape_configs: [{{job_name: inferlog, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
        )
        self.errors = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={self.address}"],
            stdout=self.errors,
            stderr=self.errors,
        )

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query; empty while it does not answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}", timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except OSError:
            return []

    def end(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(20)
        self.errors.close()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[int], Prometheus]]:
    """Start a Prometheus; where there is none, CI fails and others skip."""
    if not shutil.which("prometheus"):
        if os.environ.get("CI"):
            pytest.fail("prometheus is not installed, and CI needs it")
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    started: list[Prometheus] = []

    def start(target: int) -> Prometheus:
        started.append(Prometheus(tmp_path, target))
        return started[-1]

    yield start
    for each in started:
        each.end()


def batch(number: int) -> str:
    """Lines of several kinds, others each time."""
    at = f"03:{16 + number // 60:02}:{number % 60:02}"
    kernel = f"Triton kernel JIT compilation during inference: kernel_{number}. This causes a latency spike; consider it."
    lines = [
        stats(at),
        transfers(4, at),
        line(kernel, level="WARNING", at=at),
        POST,
        POST,
        line("SpecDecoding metrics: Mean acceptance length: 3.00, Accepted throughput: 1.00 tokens/s, Drafted throughput: 2.00 tokens/s, "
             "Accepted: 20 tokens, Drafted: 40 tokens, Per-position acceptance rate: 0.9, 0.6, 0.3, 0.2, Avg Draft acceptance rate: 50.0%",
             at=at),
    ]  # fmt: skip
    return "".join(f"{each}\n" for each in lines)


def test_no_counter_has_a_false_step(run: Callable[..., Running], prometheus: Callable[[int], Prometheus], tmp_path: Path) -> None:
    """Over kills and rotations: no reset, and an increase of exactly what was written, in whatever steps it was seen."""
    log, state = tmp_path / "engine.log", tmp_path / "state.json"
    log.write_text("".join(f"{each}\n" for each in (logo(), core(), READY)))
    arguments = ("--log", str(log), "--state-file", str(state))
    daemon = run(*arguments).wait_ready()
    server = prometheus(daemon.port)
    up = 'up{job="inferlog"} == 1'
    wait_for(lambda: server.query(up), "the first scrape", 30)
    pause = threading.Event()

    for number in range(ROUNDS):
        with log.open("a") as out:
            out.write(batch(number))
        if number % 7 == 3:
            log.rename(f"{log}.{number}")
        if number % (ROUNDS // KILLS) == 2:
            daemon.kill()
            daemon = run(*arguments, port=daemon.port)
        else:
            pause.wait(0.4)
    daemon.wait_ready()
    expected = {
        'inferlog_jit_events_total{phase="serving",backend="triton",event="compile"}': ROUNDS,
        "inferlog_kv_transfers_total": 4 * ROUNDS,
        'inferlog_http_responses_total{code="2xx"}': 2 * ROUNDS,
        "inferlog_spec_accepted_tokens_total": 20 * ROUNDS,
        'inferlog_log_lines_total{level="INFO"}': 3 + 5 * ROUNDS,
    }
    for series, value in expected.items():
        wait_for(lambda series=series, value=value: [float(each["value"][1]) for each in server.query(series)] == [value], series)
    falls = [
        (each["metric"], before, after)
        for each in server.query('{__name__=~"inferlog_.+_total"}[10m]')
        for before, after in zip(each["values"], each["values"][1:], strict=False)
        if float(after[1]) < float(before[1])
    ]
    assert falls == []
    steps = server.query('count({__name__=~"inferlog_.+_total"})')
    assert float(steps[0]["value"][1]) > 50, "what was looked at"
    resets = server.query("sum(resets(inferlog_log_lines_total[10m]))")
    assert float(resets[0]["value"][1]) == 0
