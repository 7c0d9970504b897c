"""What is shipped beside the program can be had from it."""

from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry

from exporter.shipped import DASHBOARDS, RUNBOOKS, alert_files, runbook
from exporter.web import make_app

from .conftest import inferlog
from .test_web import Client

ROOT = Path(__file__).parent.parent.parent


def client() -> Client:
    """Of a daemon that is still reading."""
    return Client(make_app(CollectorRegistry(), lambda: False, lambda: "", telemetry_path="/metrics", look=lambda view: []))


def test_the_daemon_serves_runbooks_while_it_reads_history() -> None:
    """For clusters without internet."""
    answer = client().get("/runbooks/InferlogJitAfterReady")
    assert answer.status_code == 200
    assert answer.text.startswith("# InferlogJitAfterReady\n")
    assert answer.headers["content-type"].startswith("text/plain")


def test_other_names_are_not_found() -> None:
    """No path leads out of the folder."""
    for name in ("InferlogNoSuchAlert", "..%2Fthresholds", "%2e%2e", "InferlogJitAfterReady.md", "a" * 1000):
        assert client().get(f"/runbooks/{name}").status_code == 404
    assert runbook("../thresholds") is None


def test_every_alert_links_to_what_is_served() -> None:
    """With the base that is shipped."""
    files = dict(alert_files())
    rules = [rule for group in yaml.safe_load(files["inferlog-alerts.rules.yaml"])["groups"] for rule in group["rules"]]
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}/{rule['alert']}"
        assert runbook(rule["alert"])
        assert f"runbooks/{rule['alert']}.md" in files


def test_export_writes_all_of_it_with_other_links(tmp_path: Path) -> None:
    """The bases are settings."""
    done = inferlog(
        "export", "alerts", str(tmp_path / "out"), "--runbook-url", "https://wiki.example/r/", "--dashboard-url", "https://g.example"
    )
    assert done.returncode == 0, done.stderr
    written = {
        str(path.relative_to(tmp_path / "out")): path.read_text(encoding="utf-8")
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert written.keys() == dict(alert_files()).keys()
    rules = written["prometheusrule.yaml"]
    assert RUNBOOKS not in rules
    assert DASHBOARDS not in rules
    assert "https://wiki.example/r/InferlogJitAfterReady" in rules
    assert "https://g.example/d/inferlog-jit" in rules


def test_export_says_why_it_cannot_write(tmp_path: Path) -> None:
    """In one line."""
    (tmp_path / "file").write_text("")
    done = inferlog("export", "alerts", str(tmp_path / "file" / "out"))
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1


def test_the_wheel_is_told_of_every_file() -> None:
    """`force-include` lists the rule files one by one: a new one must not be forgotten."""
    import tomllib

    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    included = build["force-include"]
    for name in dict(alert_files()):
        assert any(f"alerts/{name}" == each or f"alerts/{name}".startswith(f"{each}/") for each in included), name
