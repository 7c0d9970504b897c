"""A stage whose incidents have happened, for all tests that ask Prometheus."""

import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.exporter.conftest import wait_for

from .incidents import TORN, plays
from .stage import Stage

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

    @property
    def window(self) -> str:
        """The range of a rate that reaches from the incident back to the healthy phase, however long the machine took."""
        return f"{int(self.incident - self.healthy) + 3}s"

    def ask(self, expression: str, time: float) -> dict[tuple[tuple[str, str], ...], str]:
        """The series of an instant query, without a word of complaint from Prometheus."""
        answer = self.stage.ask("query", query=expression, time=time)
        assert answer["status"] == "success"
        assert not answer.get("warnings")
        assert not answer.get("infos")
        return {tuple(sorted(each["metric"].items())): each["value"][1] for each in answer["data"]["result"]}


@pytest.fixture(scope="package")
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
