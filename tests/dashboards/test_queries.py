"""Each query of each panel, on a real Prometheus that scrapes the exporter while incidents happen: healthy and not are different answers."""

import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.exporter.conftest import wait_for

from .boards import BOARDS, Target, filled, targets
from .incidents import TORN, plays
from .stage import Stage

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(180)]

BUGS = (
    "inferlog_source_faults_total",
    "inferlog_exporter_faults_total",
    "inferlog_series_dropped_total",
    "inferlog_source_lost_bytes_total",
)
"""Bugs of the exporter and floods, which no log brings about: their queries must run, and stay empty."""


STEADY = {
    "inferlog_build_info": "one exporter is of one version",
    "inferlog_source_lag_bytes": "a scrape reads what was appended before it, so that only a machine that cannot keep up has any",
}
"""What stays as it is, and why."""

SLOW = (
    "inferlog_checkpoint_failures_total > 0",
    "inferlog_engine_metrics_failures_total > 1",
    "inferlog_engine_metrics_up == 0",
    "inferlog_rdma_readable == 0",
    "inferlog_source_up == 0",
)
"""What the exporter looks at every few seconds only."""


class Moments(NamedTuple):
    """A stage whose incidents have happened."""

    stage: Stage
    healthy: float
    incident: float

    def ask(self, expression: str, time: float) -> dict[tuple[tuple[str, str], ...], str]:
        """The series of an instant query, without a word of complaint from Prometheus."""
        answer = self.stage.ask("query", query=expression, time=time)
        assert answer["status"] == "success"
        assert not answer.get("warnings")
        assert not answer.get("infos")
        return {tuple(sorted(each["metric"].items())): each["value"][1] for each in answer["data"]["result"]}


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moments]:
    if not shutil.which("prometheus"):
        if os.environ.get("CI"):
            pytest.fail("prometheus is not installed, and CI needs it")
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    stage = Stage(tmp_path_factory.mktemp("stage"), plays())
    try:
        healthy = stage.now(scrapes=4)
        stage.act()
        stage.now(scrapes=2)
        stage.break_files(rotated="combined-0", shortened="prefill-0", gone="sglang-pools")
        stage.write("sglang-failures", [TORN])
        for told in SLOW:
            wait_for(lambda told=told: stage.ask("query", query=told)["data"]["result"], told, 60)
        yield Moments(stage, healthy, stage.now(scrapes=2))
    finally:
        stage.end()


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_incident_shows(moments: Moments, target: Target) -> None:
    """Ages grow by themselves, so that time stands still here."""
    expression = target.expression.replace("time()", "2e9")
    before, after = (moments.ask(expression, time) for time in (moments.healthy, moments.incident))
    if any(bug in expression for bug in BUGS):
        assert before == after == {}
        return
    if target.panel["description"].rpartition(": ")[2] in STEADY:
        assert before == after != {}
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
