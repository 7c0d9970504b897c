"""The whole chain with real programs: a line in a log, `inferlog run`, Prometheus, Alertmanager, and whoever is woken."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from alerts.generate import files, values
from tests.alerts.servers import Alertmanager, Pager, Start, is_ready
from tests.conftest import DATA, tool
from tests.exporter.conftest import Running, free_port, wait_for

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(240)]

DSPARK = DATA.parent.parent / "exporter" / "demo_logs" / "dspark.log"
COMPILE = "TileLang JIT compilation during inference"
DEATH = "(EngineCore pid=318) ERROR 07-14 03:14:43 [core.py:1586] EngineCore encountered a fatal error.\n"
PERIOD = "1s"
WINDOW = "15s"
"""How long an event is one, in place of ten minutes."""


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


def start_prometheus(start: Start, config: Path) -> int:
    """Its port."""
    port = free_port()
    start(
        tool("prometheus", "prometheus"), f"--config.file={config}", f"--storage.tsdb.path={config.parent / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )  # fmt: skip
    return port


def chain(daemon: Running, start: Start, pager: Pager, folder: Path) -> Alertmanager:
    """All that stands between the daemon and the pager."""
    alertmanager = Alertmanager(start, folder, pager)
    prometheus = start_prometheus(start, prometheus_config(folder, daemon.port, alertmanager.port))
    wait_for(lambda: is_ready(alertmanager.port) and is_ready(prometheus), "the servers", 60)
    return alertmanager


def before_the_incident(log: Path) -> list[str]:
    """Write what an engine says until it compiles, and return the lines of the compile."""
    lines = DSPARK.read_text(encoding="utf-8").splitlines(keepends=True)
    incident = next(number for number, line in enumerate(lines) if COMPILE in line)
    log.write_text("".join(lines[:incident]), encoding="utf-8")
    return lines[incident : incident + 3]


def append(log: Path, lines: list[str]) -> None:
    """As the engine writes."""
    with log.open("a", encoding="utf-8") as writer:
        writer.writelines(lines)


def test_a_compile_wakes_someone_and_lets_them_sleep_again(run: Callable[..., Running], start: Start, pager: Pager, tmp_path: Path) -> None:
    """Nothing of the start-up pages; the compile of the incident does, with all that an engineer needs, and resolves when it is over."""
    log = tmp_path / "dspark.log"
    incident = before_the_incident(log)
    daemon = run("--log", str(log), "--warmup-grace", "immediate").wait_ready()
    chain(daemon, start, pager, tmp_path)
    # A ticket about a setting that the start-up told says that scrapes, rules and routes work.
    wait_for(lambda: pager.got("InferlogFP8ScalesMissing", "firing", "/ticket"), "the first ticket", 60)
    assert not [alert for path, alert in pager.notifications if path == "/page"]

    append(log, incident)
    (page, *_) = wait_for(lambda: pager.got("InferlogJitAfterReady", "firing"), "the page", 30)
    assert page["labels"].items() >= {"severity": "critical", "backend": "tilelang", "pod": "dspark-0", "namespace": "llm"}.items()
    assert "1 tilelang kernel(s)" in page["annotations"]["description"]
    assert daemon.get("/runbooks/" + page["annotations"]["runbook_url"].rpartition("/")[2])[0] == 200

    wait_for(lambda: pager.got("InferlogJitAfterReady", "resolved"), "the end of the page", 120)
    assert {alert["labels"]["alertname"] for path, alert in pager.notifications if path == "/page"} == {"InferlogJitAfterReady"}


def test_a_death_silences_the_rest_of_its_pod(run: Callable[..., Running], start: Start, pager: Pager, tmp_path: Path) -> None:
    """The engine that dies is paged; what it had to say besides is held back, and another engine's tickets are not."""
    logs = [tmp_path / "dspark.log", tmp_path / "other.log"]
    incident, _ = (before_the_incident(log) for log in logs)
    sources = [{"name": log.stem, "path": str(log), "warmup_grace": "immediate"} for log in logs]
    (tmp_path / "inferlog.yaml").write_text(yaml.safe_dump({"sources": sources}), encoding="utf-8")
    alertmanager = chain(run("--config", str(tmp_path / "inferlog.yaml")).wait_ready(), start, pager, tmp_path)
    wait_for(lambda: len(pager.got("InferlogFP8ScalesMissing", "firing", "/ticket")) >= len(logs), "both tickets", 60)

    append(logs[0], [*incident, DEATH])
    wait_for(lambda: pager.got("InferlogEngineDead", "firing"), "the page", 30)

    def states() -> dict[tuple[str, str], str]:
        return {(labels["alertname"], labels.get("source", "")): state for labels, state in alertmanager.alerts()}

    expected = {
        ("InferlogEngineDead", "dspark"): "active",
        ("InferlogJitAfterReady", "dspark"): "suppressed",
        ("InferlogFP8ScalesMissing", "dspark"): "suppressed",
        ("InferlogFP8ScalesMissing", "other"): "active",
    }
    wait_for(lambda: states().items() >= expected.items(), "what is held back", 20)
