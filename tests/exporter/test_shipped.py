"""What is shipped beside the program can be had from it."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from exporter.shipped import DASHBOARDS, RUNBOOKS, alert_files, dashboard_files, manifest_files, runbook
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
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_export_writes_the_dashboards(tmp_path: Path) -> None:
    """As they are in the repository."""
    done = inferlog("export", "dashboards", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "dashboards").glob("*.json")}
    assert len(written) == 7


def test_export_writes_the_manifests(tmp_path: Path) -> None:
    """Each file of deploy/ at its place, links as what they lead to, over what was there."""
    out = tmp_path / "out"
    (out / "deploy" / "node").mkdir(parents=True)
    (out / "deploy" / "node" / "inferlog.yaml").write_text("old")
    done = inferlog("export", "manifests", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert not any(path.is_symlink() for path in out.rglob("*"))
    here = [path for path in (ROOT / "deploy").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    written = {str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file()}
    assert {name for name in written if name.startswith("deploy/")} == {str(path.relative_to(ROOT)) for path in here}
    assert all(text == (ROOT / name).read_text(encoding="utf-8") for name, text in written.items())


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_wheel_ships_all_of_it(tmp_path: Path) -> None:
    """Built, unpacked elsewhere and run there it writes the files of the repository."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for arguments in (
        ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ROOT],
        ["install", "--no-deps", "--no-index", "--find-links", "dist", "--target", "site", "inferlog"],
    ):
        subprocess.run([*pip, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    run = "import exporter.cli, pathlib; assert pathlib.Path('site').absolute() in pathlib.Path(exporter.__file__).parents; exporter.cli.main()"
    for kind, made in (("alerts", alert_files), ("dashboards", dashboard_files), ("manifests", manifest_files)):
        subprocess.run([sys.executable, "-c", run, "export", kind, kind], cwd=tmp_path, env={"PYTHONPATH": "site"}, check=True, timeout=60)
        folder = tmp_path / kind
        written = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
        assert written == dict(made())
