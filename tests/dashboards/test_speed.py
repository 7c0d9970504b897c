"""Panels of sixty pods draw in under a second each: the incidents' series three times over, an hour of them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exporter.conftest import free_port, wait_for

from .boards import Target, targets
from .conftest import Moments
from .stage import ask, serve

pytestmark = [pytest.mark.prometheus, pytest.mark.slow, pytest.mark.timeout(300)]

COPIES = 3
HOUR = 3600
STEP = 60
SECOND = 1.0


def copied(exposition: str, end: int) -> Iterator[str]:
    """An hour of OpenMetrics in which each pod is there several times, and what the incidents counted goes on all the time."""
    kinds = dict(line.split()[2:4] for line in exposition.splitlines() if line.startswith("# TYPE"))
    samples: dict[str, list[tuple[str, float]]] = {}
    for line in exposition.splitlines():
        found = re.fullmatch(r"(inferlog_\w+){(.*)} (\S+)", line)
        if found:
            samples.setdefault(found[1], []).append((found[2], float(found[3])))
    for name, series in samples.items():
        kind = kinds[name]
        yield f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}\n"
        for labels, value in series:
            for copy in range(COPIES):
                mine = re.sub(r'pod="([^"]+)"', rf'pod="\1-{copy}"', labels)
                for moment in range(end - HOUR, end, STEP):
                    grown = value + (moment - end + HOUR) * (kind == "counter" and value > 0)
                    yield f'{name}{{{mine},job="inferlog",instance="{copy}"}} {grown} {moment}\n'
    yield "# EOF\n"


@pytest.fixture(scope="module")
def many(moments: Moments, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, int]]:
    """A Prometheus with that hour, and when it ended; its process."""
    folder: Path = tmp_path_factory.mktemp("many")
    end = int(moments.incident) // STEP * STEP
    with (folder / "hour.om").open("w") as out:
        out.writelines(copied(moments.stage.daemon.get()[1], end))
    arguments = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "hour.om"), str(folder / "tsdb")]
    subprocess.run(arguments, check=True, capture_output=True, timeout=120)
    (folder / "prometheus.yml").write_text("global: {}\n")
    address = f"127.0.0.1:{free_port()}"
    process = serve(folder, address)
    pods = "count(count by (pod) (inferlog_engine_state))"
    try:
        found = wait_for(lambda: ask(address, "query", query=pods, time=end - STEP).get("data", {}).get("result"), "the blocks", 60)
        assert int(found[0]["value"][1]) >= 50
        yield address, end, process.pid
    finally:
        process.terminate()
        process.wait(20)


def processor_seconds(process: int) -> float:
    """What a process and its threads have used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(many: tuple[str, int, int], target: Target) -> float:
    """The processor time of a query, as Grafana asks for a panel of an hour."""
    address, end, process = many
    expression = target.expression.replace("[20s]", "[4m]")
    before = processor_seconds(process)
    answer = (
        ask(address, "query", query=expression, time=end)
        if target.query["instant"]
        else ask(address, "query_range", query=expression, start=end - HOUR, end=end, step=15)
    )
    assert answer["status"] == "success"
    return processor_seconds(process) - before


def test_panels_of_sixty_pods_draw_in_less_than_a_second(many: tuple[str, int, int]) -> None:
    """All queries of a panel together, in processor time, for the machine has other work; `-s` prints the slowest."""
    took: dict[str, float] = {}
    for target in targets():
        panel = f"{target.board}/{target.panel['title']}"
        took[panel] = took.get(panel, 0) + seconds(many, target)
    slowest = sorted(took.items(), key=lambda each: -each[1])
    sys.stdout.write("\n".join(["", *(f"{time:6.2f} s  {panel}" for panel, time in slowest[:15]), f"{sum(took.values()):6.2f} s  all", ""]))
    assert not [each for each in slowest if each[1] >= SECOND]
