"""Both ways to reach a log, scraped by a real Prometheus with the shipped configuration: the alerts are the same."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.generate import files, values
from tests.conftest import tool
from tests.exporter.conftest import Running, demo_log, free_port, wait_for
from tests.wrappings import cri

from .conftest import DEPLOY

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(180)]

POD = "chat-decode-5d4f"
UID = "0b9c1b6e-77a4-4d0c-9d5e-1c2d3e4f5a6b"
META = "__meta_kubernetes_"
TARGETS = {
    "inferlog": {"pod_label_inferlog": "sidecar", "namespace": "beside", "pod_name": POD, "pod_label_pd_group": "chat"},
    "inferlog-node": {"pod_label_inferlog": "node", "namespace": "inferlog", "pod_name": "inferlog-x7", "pod_node_name": "gpu-1"},
}
"""What Kubernetes would tell of each daemon's pod."""


class Prometheus:
    """Its answers."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer, None while there is none."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression: str) -> list[dict[str, str]]:
        """The labels of what an expression gives."""
        return [each["metric"] for each in (self.get("query", query=expression) or {"result": []})["result"]]

    def alerts(self, namespace: str) -> set[tuple[str, str]]:
        """What is pending or fires for the pod there."""
        labels = [each["labels"] for each in (self.get("alerts") or {"alerts": []})["alerts"]]
        return {
            (each["alertname"], each.get("pd_group", ""))
            for each in labels
            if each.get("namespace") == namespace and each.get("pod") == POD
        }


def shipped(folder: Path, ports: dict[str, int]) -> Path:
    """The scrape configuration and the rules as they are, each second; the API server's answers are given."""
    scrape = yaml.safe_load((DEPLOY / "monitoring" / "scrape.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    for job in scrape:
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        told = TARGETS[job["job_name"]] | {"pod_container_port_name": "inferlog", "pod_phase": "Running"}
        one = {"targets": [f"127.0.0.1:{ports[job['job_name']]}"], "labels": {META + name: value for name, value in told.items()}}
        # Another container of the pod, which is none of ours.
        engine = {"targets": ["127.0.0.1:9"], "labels": one["labels"] | {f"{META}pod_container_port_name": "http"}}
        job |= {"static_configs": [one, engine], "scrape_interval": "1s", "scrape_timeout": "1s"}
    rules = {name: yaml.safe_load(text) for name, text in files(values()).items() if name.endswith(".rules.yaml")}
    for name, content in rules.items():
        for group in content["groups"]:
            group["interval"] = "1s"
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump({"rule_files": sorted(rules), "scrape_configs": scrape}), encoding="utf-8")
    return path


@pytest.fixture
def prometheus(run: Callable[..., Running], tmp_path: Path) -> Iterator[Prometheus]:
    """With one daemon beside an engine, and one on a node, that read the same log."""
    text = Path(demo_log("pd-decode")).read_text(encoding="utf-8")
    beside = tmp_path / "logs" / "engine.log"
    beside.parent.mkdir()
    beside.write_text(text, encoding="utf-8")
    kept = tmp_path / "pods" / f"on-node_{POD}_{UID}" / "engine" / "0.log"
    kept.parent.mkdir(parents=True)
    kept.write_text("".join("".join(cri(line, "2026-11-29T12:00:00.5Z")) for line in text.splitlines()), encoding="utf-8")
    daemons = {
        "inferlog": run("--log", str(beside.parent / "*.log"), "--name", "engine"),
        "inferlog-node": run("--log", str(tmp_path / "pods" / "*" / "engine" / "*.log")),
    }
    config = shipped(tmp_path, {name: daemon.wait_ready().port for name, daemon in daemons.items()})
    port = free_port()
    command = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}")
    with (tmp_path / "prometheus.log").open("wb") as log:
        program = subprocess.Popen([tool("prometheus", "prometheus"), *command], stdout=log, stderr=log)
    yield Prometheus(port)
    program.terminate()
    program.wait(20)


def test_alerts_are_the_same_both_ways(prometheus: Prometheus) -> None:
    """Each rule is evaluated without a fault, on series with the same labels."""
    wait_for(lambda: prometheus.alerts("beside") and prometheus.alerts("on-node"), "alerts of both", 60)
    wait_for(lambda: prometheus.alerts("beside") == prometheus.alerts("on-node"), "the same alerts of both", 30)
    assert ("InferlogPDTransportFailing", "chat") in prometheus.alerts("beside")

    # One target each: another port of the same pod is none.
    targets = prometheus.get("targets", state="active")["activeTargets"]
    assert sorted((each["labels"]["job"], each["health"]) for each in targets) == [("inferlog", "up"), ("inferlog-node", "up")]

    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    alerts = [rule for rule in rules if rule["type"] == "alerting"]
    assert len(alerts) > 50
    wait_for(lambda: all(rule["health"] == "ok" for group in prometheus.get("rules")["groups"] for rule in group["rules"]), "all rules", 30)

    compared = set()
    for family in {name for rule in rules for name in re.findall(r"\binferlog_\w+", rule["query"])}:
        one, other = (
            prometheus.query(f'{family}{{namespace="beside", source!=""}}'),
            prometheus.query(f'{family}{{namespace="on-node", source!=""}}'),
        )
        ours = {"job", "instance", "node", "container", "source"}
        names = [{frozenset(series.keys() - ours) for series in each} for each in (one, other)]
        assert names[0] == names[1], family
        assert {series.get("pd_group") for series in one + other} <= {"chat"}
        compared |= {family} if one else set()
    assert len(compared) > 20

    # The pair of both is one by name, in two namespaces.
    expected = [(namespace, "chat", "transport_failing") for namespace in ("beside", "on-node")]

    def verdicts() -> list[tuple[str, ...]]:
        found = prometheus.query("inferlog:pd_group_verdict == 1")
        return sorted((each["namespace"], each["pd_group"], each["verdict"]) for each in found)

    wait_for(lambda: verdicts() == expected, "both verdicts", 30)
