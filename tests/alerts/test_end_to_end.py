"""The whole chain with real programs: a line in a log, `inferlog run`, Prometheus, Alertmanager, and whoever is woken."""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.generate import HERE, files, values
from tests.conftest import DATA, tool
from tests.exporter.conftest import Running, free_port, wait_for

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(240)]

DSPARK = DATA.parent.parent / "exporter" / "demo_logs" / "dspark.log"
COMPILE = "TileLang JIT compilation during inference"
PERIOD = "1s"
WINDOW = "15s"
"""How long an event is one, in place of ten minutes."""


class Pager:
    """Takes what Alertmanager sends."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                pager.notifications += [(self.path, alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server.server_address[1])

    def got(self, name: str, status: str, path: str = "/page") -> list[dict[str, Any]]:
        """What came of an alert."""
        return [
            alert for at, alert in self.notifications if at == path and alert["labels"]["alertname"] == name and alert["status"] == status
        ]

    def end(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


@pytest.fixture
def pager() -> Iterator[Pager]:
    """A webhook."""
    found = Pager()
    yield found
    found.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Start programs, and end them."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> None:
        with (tmp_path / f"{Path(command[0]).name}.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log))

    yield begin
    for each in started:
        each.terminate()
        each.wait(20)


def is_ready(port: int) -> bool:
    """Whether a program answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def alertmanager_config(pager: Pager) -> dict[str, Any]:
    """The snippet that is shipped, less patient, with the pager in the place of its receivers."""
    config: dict[str, Any] = yaml.safe_load((HERE / "alertmanager.yaml").read_text(encoding="utf-8"))
    config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        for hook in receiver.get("webhook_configs", []):
            hook["url"] = hook["url"].replace("127.0.0.1:9099", f"127.0.0.1:{pager.port}")
    return config


def prometheus_config(folder: Path, exporter: int, alertmanager: int) -> Path:
    """The rules that are shipped, with a shorter window, and a scrape each second."""
    rules = files(values(jit_window=WINDOW, event_window=WINDOW, keep_firing=PERIOD))
    names = [name for name in rules if name.endswith(".rules.yaml")]
    for name in names:
        content = yaml.safe_load(rules[name])
        for group in content["groups"]:
            group["interval"] = PERIOD
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    target = {"targets": [f"127.0.0.1:{exporter}"], "labels": {"namespace": "llm", "pod": "dspark-0"}}
    config = {
        "global": {"scrape_interval": PERIOD, "scrape_timeout": PERIOD, "evaluation_interval": PERIOD},
        "rule_files": names,
        "scrape_configs": [{"job_name": "inferlog", "static_configs": [target]}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_compile_wakes_someone_and_lets_them_sleep_again(
    run: Callable[..., Running], start: Callable[..., None], pager: Pager, tmp_path: Path
) -> None:
    """Nothing of the start-up pages; the compile of the incident does, with all that an engineer needs, and resolves when it is over."""
    programs = [
        tool(name, package) for name, package in (("prometheus", "prometheus"), ("prometheus-alertmanager", "prometheus-alertmanager"))
    ]
    lines = DSPARK.read_text(encoding="utf-8").splitlines(keepends=True)
    incident = next(number for number, line in enumerate(lines) if COMPILE in line)
    log = tmp_path / "dspark.log"
    log.write_text("".join(lines[:incident]), encoding="utf-8")
    daemon = run("--log", str(log), "--warmup-grace", "immediate").wait_ready()

    prometheus, alertmanager = free_port(), free_port()
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(alertmanager_config(pager)), encoding="utf-8")
    start(
        programs[1], f"--config.file={tmp_path / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'am'}",
        f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address=",
    )  # fmt: skip
    start(
        programs[0], f"--config.file={prometheus_config(tmp_path, daemon.port, alertmanager)}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{prometheus}",
    )  # fmt: skip
    wait_for(lambda: is_ready(alertmanager) and is_ready(prometheus), "the servers", 60)
    # A ticket about a setting that the start-up told says that scrapes, rules and routes work.
    wait_for(lambda: pager.got("InferlogFP8ScalesMissing", "firing", "/ticket"), "the first ticket", 60)
    assert not [alert for path, alert in pager.notifications if path == "/page"]

    with log.open("a", encoding="utf-8") as writer:
        writer.writelines(lines[incident : incident + 3])
    (page, *_) = wait_for(lambda: pager.got("InferlogJitAfterReady", "firing"), "the page", 30)
    assert page["labels"].items() >= {"severity": "critical", "backend": "tilelang", "pod": "dspark-0", "namespace": "llm"}.items()
    assert "1 tilelang kernel(s)" in page["annotations"]["description"]
    assert daemon.get("/runbooks/" + page["annotations"]["runbook_url"].rpartition("/")[2])[0] == 200

    wait_for(lambda: pager.got("InferlogJitAfterReady", "resolved"), "the end of the page", 120)
    assert {alert["labels"]["alertname"] for path, alert in pager.notifications if path == "/page"} == {"InferlogJitAfterReady"}
