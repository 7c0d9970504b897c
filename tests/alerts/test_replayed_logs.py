"""Saved logs through the exporter, and what fires of them: which alert, and how soon after its line."""

from pathlib import Path
from typing import Any

import pytest

from alerts.generate import groups, values
from tests.alerts.promtool import run_tests
from tests.alerts.replay import STEP, Replay
from tests.conftest import DATA

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(300)]

DSPARK = DATA.parent.parent / "exporter" / "demo_logs" / "dspark.log"
"""As on the H20: ready, and at concurrency 8 TileLang compiles for nine seconds."""
COMPILE = "TileLang JIT compilation during inference"
READY = "Application startup complete"
PAIR = DATA / "vllm-0.32" / "captured-pd-decode-silent-recompute.log"
FIRING = 'group by (alertname, severity) (ALERTS{alertstate="firing"})'
PAGES = 'group by (alertname, severity) (ALERTS{alertstate="firing",severity="critical"})'
ABOUT_JIT = 'group by (alertname, severity) (ALERTS{alertstate="firing",alertname=~"InferlogJit.+"})'
JIT = {"InferlogJitAfterReady": "critical"}


def lines_of(path: Path) -> list[str]:
    """Without the bars of tqdm, which have no time."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def begun_before_ready() -> list[str]:
    """The same lines of the compile, before the engine is ready."""
    lines = lines_of(DSPARK)
    first = next(number for number, line in enumerate(lines) if COMPILE in line)
    compile_lines, rest = lines[first : first + 3], lines[:first] + lines[first + 3 :]
    ready = next(number for number, line in enumerate(rest) if READY in line)
    return [*rest[:ready], *(line.replace("03:14:33", "03:14:16").replace("03:14:42", "03:14:17") for line in compile_lines), *rest[ready:]]


class Fired:
    """What promtool says fires of a replayed log."""

    def __init__(self, promtool: str, folder: Path, replay: Replay) -> None:
        self._promtool, self._folder, self._replay = promtool, folder, replay
        self._checks: list[dict[str, Any]] = []

    def at(self, step: int, expected: dict[str, str], expression: str = FIRING) -> "Fired":
        """Exactly these alerts fire, by severity."""
        samples = [{"labels": f'{{alertname="{name}", severity="{severity}"}}', "value": 1} for name, severity in expected.items()]
        self._checks.append({"expr": expression, "eval_time": f"{step * STEP}s", "exp_samples": samples})
        return self

    def nothing(self, first: int, last: int, expression: str = FIRING) -> "Fired":
        """At each step from the first on, before the last."""
        for step in range(first, last):
            self.at(step, {}, expression)
        return self

    def check(self, alerts: list[dict[str, Any]] | None = None) -> None:
        """Ask promtool."""
        test = {
            "interval": f"{STEP}s",
            "input_series": [each.promtool() for each in self._replay.series],
            "promql_expr_test": self._checks,
            "alert_rule_test": alerts or [],
        }
        assert not run_tests(self._promtool, self._folder, [test], interval=f"{STEP}s")


def test_a_compile_after_ready_pages_at_once_where_nobody_warms_up(promtool: str, tmp_path: Path) -> None:
    """Within one evaluation of its line, with backend, pod and kernels; a quarter of an hour later it is over."""
    replay = Replay(lines_of(DSPARK), quiet=1200, warmup_grace=0.0)
    told = replay.after(COMPILE)
    rule = next(rule for group in groups(values()) for rule in group["rules"] if rule.get("alert") == "InferlogJitAfterReady")
    description = (
        "decode (pod llm/decode-0) compiled 1 tilelang kernel(s) in the last 10m, although it was ready and in service; every request in the batch waited for them. "
        "Read the names at /api/v1/events?source=decode, and warm up these shapes before the pod gets traffic."
    )
    labels = {
        "namespace": "llm",
        "pod": "decode-0",
        "instance": "10.0.0.7:19877",
        "job": "llm/inferlog",
        "source": "decode",
        "runtime": "vllm",
    }
    page = {
        "exp_labels": labels | rule["labels"] | {"backend": "tilelang"},
        "exp_annotations": rule["annotations"]
        | {"description": description, "dashboard_url": "http://grafana:3000/d/inferlog-jit?var-namespace=llm&var-pod=decode-0"},
    }
    fired = Fired(promtool, tmp_path, replay).nothing(0, told, PAGES).at(told, JIT, PAGES).at(told + 39, JIT, PAGES)
    fired.nothing(told + 62, replay.steps, PAGES)
    fired.check([{"eval_time": f"{told * STEP}s", "alertname": "InferlogJitAfterReady", "exp_alerts": [page]}])


def test_the_same_compile_in_the_grace_of_a_warm_up_is_context(promtool: str, tmp_path: Path) -> None:
    """Its users may be warming it up."""
    replay = Replay(lines_of(DSPARK), quiet=600)
    told = replay.after(COMPILE)
    fired = Fired(promtool, tmp_path, replay).nothing(0, told, ABOUT_JIT).at(told, {"InferlogJitDuringWarmup": "info"}, ABOUT_JIT)
    fired.nothing(0, replay.steps, PAGES).check()


def test_the_same_lines_during_start_up_page_nobody(promtool: str, tmp_path: Path) -> None:
    """Even where there is no grace after ready."""
    replay = Replay(begun_before_ready(), quiet=600, warmup_grace=0.0)
    Fired(promtool, tmp_path, replay).nothing(0, replay.steps, PAGES).check()


def test_a_restart_of_the_exporter_pages_once(promtool: str, tmp_path: Path) -> None:
    """It was told, the exporter goes away without a state file for a minute, reads all of it again, and the page ends when it would have ended."""
    lines = lines_of(DSPARK)
    told = Replay(lines).after(COMPILE)
    replay = Replay(lines, quiet=1200, away=((told + 4) * STEP, (told + 8) * STEP), warmup_grace=0.0)
    fired = Fired(promtool, tmp_path, replay).at(told, JIT, PAGES).at(told + 8, JIT, PAGES)
    fired.nothing(told + 62, replay.steps, PAGES).check()


def test_what_comes_while_the_exporter_is_away_pages(promtool: str, tmp_path: Path) -> None:
    """Prometheus knows the counter of before."""
    lines = lines_of(DSPARK)
    told = Replay(lines).after(COMPILE)
    replay = Replay(lines, quiet=600, away=(told * STEP, (told + 4) * STEP), warmup_grace=0.0)
    Fired(promtool, tmp_path, replay).nothing(0, told + 4, PAGES).at(told + 4, JIT, PAGES).check()


def test_history_pages_nobody(promtool: str, tmp_path: Path) -> None:
    """The first exporter comes when all has happened."""
    replay = Replay(lines_of(DSPARK), quiet=1200, away=(0, 300), warmup_grace=0.0)
    assert replay.after(COMPILE) * STEP < 300
    assert any(each.name == "inferlog_jit_incidents_total" and each.values[-1] == 1 for each in replay.series)
    Fired(promtool, tmp_path, replay).nothing(0, replay.steps, PAGES).check()


def test_silent_recompute_pages_within_two_minutes(promtool: str, tmp_path: Path) -> None:
    """Of the first request that came without parameters; nothing before it."""
    lines = lines_of(PAIR)
    replay = Replay(lines, quiet=60, pd_role="decode")
    healthy, begun = replay.after("13:11:18"), replay.after("13:11:55")
    fired = Fired(promtool, tmp_path, replay).nothing(0, healthy + 1)
    fired.at(begun + 120 // STEP, {"InferlogPDRouterBypass": "critical"}, PAGES).check()


@pytest.mark.parametrize("log", ["vllm-0.32/captured-serve", "vllm-0.32/captured-ngram", "vllm-0.32/captured-pd-decode-proven"])
def test_engines_that_are_well_fire_nothing(log: str, promtool: str, tmp_path: Path) -> None:
    """A Combined engine, one that speculates, a proven pair."""
    replay = Replay(lines_of(DATA / f"{log}.log"), quiet=120, **({"pd_role": "decode"} if "pd" in log else {}))
    Fired(promtool, tmp_path, replay).nothing(0, replay.steps).check()
