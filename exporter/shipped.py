"""What is shipped beside the program: alert rules, runbooks, dashboards and manifests. In a checkout it is taken from there, else from the package's own data."""

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

RUNBOOKS = "http://inferlog:19877/runbooks"
"""Where alerts say that their runbooks are: any daemon serves them."""
DASHBOARDS = "http://grafana:3000"
_FOR_THE_CHECKOUT = ("thresholds.yaml", "kustomization.yaml")


def shipped(name: str) -> Traversable:
    """A folder of what is shipped."""
    packaged = resources.files("exporter") / "shipped" / name
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / name


def runbook(alert: str) -> str | None:
    """The runbook of an alert as Markdown, None when there is none."""
    if not re.fullmatch(r"[A-Za-z0-9]{1,64}", alert):
        return None
    page = shipped("alerts") / "runbooks" / f"{alert}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def alert_files(runbooks: str = RUNBOOKS, dashboards: str = DASHBOARDS) -> Iterator[tuple[str, str]]:
    """Rule files, the Alertmanager snippet and runbooks, by their names; links go to these bases."""
    folder = shipped("alerts")
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.name.endswith(".yaml") and each.name not in _FOR_THE_CHECKOUT:
            text = each.read_text(encoding="utf-8")
            yield (
                each.name,
                text.replace(f"{RUNBOOKS}/", f"{runbooks.rstrip('/')}/").replace(f"{DASHBOARDS}/d/", f"{dashboards.rstrip('/')}/d/"),
            )
    for page in sorted((folder / "runbooks").iterdir(), key=lambda each: each.name):
        yield f"runbooks/{page.name}", page.read_text(encoding="utf-8")


def dashboard_files() -> Iterator[tuple[str, str]]:
    """Grafana's dashboards as JSON, by their names."""
    for each in sorted(shipped("dashboards").iterdir(), key=lambda each: each.name):
        if each.name.endswith(".json"):
            yield each.name, each.read_text(encoding="utf-8")


def manifest_files() -> Iterator[tuple[str, str]]:
    """All of deploy/, and beside it the rules and dashboards that it refers to, by their names."""
    yield from _below(shipped("deploy"), "deploy")
    for folder, files in (("alerts", alert_files()), ("dashboards", dashboard_files())):
        yield f"{folder}/kustomization.yaml", (shipped(folder) / "kustomization.yaml").read_text(encoding="utf-8")
        for name, text in files:
            yield f"{folder}/{name}", text


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    """The chart's links are read as the files that they lead to."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_file():
            yield f"{name}/{each.name}", each.read_text(encoding="utf-8")
        elif each.name != "__pycache__":  # what is deployed has scripts, and pip compiles them
            yield from _below(each, f"{name}/{each.name}")
