"""Each query of each panel, on a real Prometheus that scrapes the exporter while incidents happen: healthy and not are different answers."""

from pathlib import Path

import pytest

from exporter.families import FAMILIES, PREFIX
from tests.alerts.test_runbook_queries import RUNBOOKS, queries

from .boards import BOARDS, Target, filled, selectors, targets
from .conftest import Moments

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(180)]

BUGS = (
    "inferlog_source_faults_total",
    "inferlog_exporter_faults_total",
    "inferlog_series_dropped_total",
    "inferlog_unseparated_lines_total",
    "inferlog_source_lost_bytes_total",
)
"""Bugs of the exporter and floods, which no log brings about: their queries must run, and stay empty."""


STEADY = {
    "inferlog_source_lag_bytes": "a scrape reads what was appended before it, so that only a machine that cannot keep up has any",
}
"""What stays as it is, and why."""


_NO_GROUP = "no source here has a pd_group"
EMPTY = {
    'count by (namespace, pd_group) (inferlog_engine_ready{pd_group!=""} == 1)': _NO_GROUP,
    'count by (namespace, pd_group, version, kv_cache_dtype) (inferlog_engine_info{pd_group!=""})': _NO_GROUP,
    "inferlog_startup_seconds - inferlog_startup_seconds offset 1d": "this Prometheus is younger than a day",
}
"""Queries of runbooks that are empty here, and why."""


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_incident_shows(moments: Moments, target: Target) -> None:
    """Ages grow by themselves, so that time stands still here."""
    expression = target.expression.replace("time()", "2e9").replace("[20s]", f"[{moments.window}]")
    before, after = (moments.ask(expression, time) for time in (moments.healthy, moments.incident))
    if any(bug in expression for bug in BUGS):
        assert before == after == {}
        return
    if target.panel["description"].rpartition(": ")[2] in STEADY:
        assert before.items() >= after.items()
        assert after
        return
    assert before != after
    assert set(after.values()) | set(before.values()) > {"0"} or set(after.values()) - {"0", "NaN"}


@pytest.mark.parametrize("board", BOARDS)
def test_annotations_run(moments: Moments, board: str) -> None:
    for annotation in BOARDS[board]["annotations"]["list"]:
        expression = filled(annotation["expr"])
        before, after = (moments.ask(expression, time) for time in (moments.healthy, moments.incident))
        assert before != after, annotation["name"]
        assert all(float(value) > 1e12 for value in after.values()), "milliseconds"


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_runbooks_ask_what_prometheus_answers(moments: Moments, path: Path) -> None:
    """After all these incidents no query on our own metrics alone is empty, or the runbook sends people after nothing."""
    for query in queries(path):
        found = moments.ask(query, moments.incident)
        if (
            {selector.name for selector, _ in selectors(query)} <= {PREFIX + name for name in FAMILIES}
            and query not in EMPTY
            and not any(bug in query for bug in BUGS)
        ):
            assert found, query
