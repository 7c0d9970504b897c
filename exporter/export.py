"""`inferlog export`: what is shipped with inferlog, for who has no checkout. Each command imports what it needs when it runs."""

from collections.abc import Iterable
from pathlib import Path

import click

from exporter.refusals import fail


@click.group()
def export() -> None:
    """Write what is shipped with inferlog."""


@export.command("alerts", short_help="Write the rules, an Alertmanager snippet and the runbooks.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--runbook-url", metavar="URL", help="Where alerts find their runbooks; any daemon serves them as /runbooks/ALERT.")
@click.option("--dashboard-url", metavar="URL", help="Where Grafana is.")
def export_alerts(folder: Path, runbook_url: str | None, dashboard_url: str | None) -> None:
    """Write alert and recording rules, the same as a PrometheusRule, an Alertmanager snippet and runbooks to DIR."""
    from exporter.shipped import DASHBOARDS, RUNBOOKS, alert_files

    _write_files(folder, alert_files(runbook_url or RUNBOOKS, dashboard_url or DASHBOARDS))


@export.command("dashboards", short_help="Write the Grafana dashboards.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def export_dashboards(folder: Path) -> None:
    """Write the Grafana dashboards to DIR, as JSON to import or to provision."""
    from exporter.shipped import dashboard_files

    _write_files(folder, dashboard_files())


@export.command("manifests", short_help="Write kustomize overlays, the Helm chart, the compose file.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def export_manifests(folder: Path) -> None:
    """Write kustomize overlays, the Helm chart and the compose file to DIR/deploy, rules and dashboards for them beside it."""
    from exporter.shipped import manifest_files

    _write_files(folder, manifest_files())


def _write_files(folder: Path, files: Iterable[tuple[str, str]]) -> None:
    try:
        for name, text in files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{error.filename or folder}: {error.strerror}")
