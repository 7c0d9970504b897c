"""One verdict for each pair's group, the mapping to vLLM's engine label, and a week in which all is well."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.verdict import VERDICTS
from tests.alerts.promtool import Series, run_tests, series
from tests.alerts.replay import Replay
from tests.conftest import DATA

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(900)]

WEEK = 7 * 24 * 60
VERDICT = 'inferlog:pd_group_verdict{namespace="llm"} == 1'


def pod(name: str, verdict: str, **others: str) -> dict[str, str]:
    """An engine's verdict, as a state set."""
    common = f'pod="{name}",pd_group="chat"'
    return {f'pd_verdict{{verdict="{each}",{common}}}': "1" if each == verdict else "0" for each in VERDICTS} | others


def gateway(failing: str = "") -> dict[str, str]:
    """A gateway's two checks."""
    common = 'pod="gateway-0",source="gateway",runtime="aibrix",pd_group="chat",status="fail"'
    return {f'pd_evidence{{check="{check}",{common}}}': "1" if check == failing else "0" for check in ("pair_selected", "params_injected")}


LATE_READ = {'kv_reads_after_expiry_total{connector="nixl",pod="prefill-0",pd_group="chat"}': "0*10 1"}


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        (pod("prefill-0", "not_judged") | pod("decode-0", "proven"), "proven"),
        (pod("prefill-0", "not_judged") | pod("decode-0", "proven") | gateway(), "proven"),
        (pod("prefill-0", "not_judged") | pod("decode-0", "proven") | gateway("params_injected"), "router_bypass"),
        (pod("prefill-0", "not_judged") | pod("decode-0", "recomputing") | gateway("pair_selected"), "recomputing"),
        (pod("prefill-0", "not_judged") | pod("decode-0", "proven") | LATE_READ, "corruption_risk"),
        (pod("decode-0", "proven") | pod("decode-1", "idle"), "proven"),
        (pod("decode-0", "proven") | pod("decode-1", "unproven"), "unproven"),
        (pod("decode-0", "never_connected") | pod("decode-1", "proven"), "never_connected"),
        (pod("prefill-0", "not_judged"), "not_judged"),
        (pod("combined-0", "not_disaggregated"), "not_disaggregated"),
    ],
)
def test_a_group_has_the_worst_verdict_of_its_pods(told: Mapping[str, str], verdict: str, promtool: str, tmp_path: Path) -> None:
    """Gateways and prefill engines have their say."""
    test = {
        "interval": "1m",
        "input_series": [series(text, values).promtool() for text, values in told.items()],
        "promql_expr_test": [
            {
                "expr": VERDICT,
                "eval_time": "12m",
                "exp_samples": [
                    {"labels": f'inferlog:pd_group_verdict{{namespace="llm",pd_group="chat",verdict="{verdict}"}}', "value": 1}
                ],
            }
        ],
    }
    assert not run_tests(promtool, tmp_path, [test], only="none")


def test_dp_rank_joins_with_the_engine_label_of_vllm(promtool: str, tmp_path: Path) -> None:
    """As the rule's words say."""
    told = {
        'kv_cache_size_tokens{dp_rank="0",pool="device"}': "900000",
        'kv_cache_size_tokens{dp_rank="1",pool="device"}': "900000",
        'vllm:num_preemptions_total{engine="0"}': "5",
        'vllm:num_preemptions_total{engine="1"}': "7",
    }
    expression = (
        "sum by (dp_rank) (vllm:num_preemptions_total * on (namespace, pod, engine) group_left (dp_rank) inferlog:dp_rank:engine_info)"
    )
    test = {
        "interval": "1m",
        "input_series": [series(text, values).promtool() for text, values in told.items()],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": "5m",
                "exp_samples": [{"labels": '{dp_rank="0"}', "value": 5}, {"labels": '{dp_rank="1"}', "value": 7}],
            }
        ],
    }
    assert not run_tests(promtool, tmp_path, [test], only="none")


def rising(step: float) -> list[float | None]:
    """A counter that rises in the day and rests at night."""
    values: list[float | None] = []
    total = 0.0
    for minute in range(WEEK):
        total += step if minute % 1440 < 960 else 0.0
        values.append(total)
    return values


def by_day(day: float, night: float) -> list[float | None]:
    """A gauge with two values."""
    return [day if minute % 1440 < 960 else night for minute in range(WEEK)]


def healthy_week() -> list[Series]:
    """All series of a real proven pair at its end, which go on as traffic comes and goes; with a gateway, two rails and SGLang's probes."""
    lines = (DATA / "vllm-0.32" / "captured-pd-decode-proven.log").read_text(encoding="utf-8", errors="replace").splitlines()
    told = Replay(lines, pd_role="decode", labels={}).series
    moving = {
        "inferlog_stats_timestamp_seconds": [60.0 * minute for minute in range(WEEK)],
        "inferlog_log_lines_total": rising(120),
        "inferlog_http_responses_total": rising(60),
        "inferlog_kv_transfers_total": rising(240),
        "inferlog_kv_transfer_bytes_total": rising(2.4e9),
        "inferlog_requests_running": by_day(12, 0),
        "inferlog_requests_waiting": by_day(1, 0),
        "inferlog_kv_cache_usage_ratio": by_day(0.93, 0.02),
    }
    accidents = rising(0.05)
    found = [
        each.with_values(accidents if each.labels.get("code") == "5xx" else moving.get(each.name) or [each.values[-1]] * WEEK)
        for each in told
    ]
    others: dict[str, list[float | None]] = {
        "up": [1.0] * WEEK,
        'build_info{version="0"}': [1.0] * WEEK,
        "source_up": [1.0] * WEEK,
        "source_lag_bytes": by_day(4096, 0),
        "source_read_bytes_total": rising(20_000),
        "source_lost_bytes_total": [0.0] * WEEK,
        'vllm:generation_tokens_total{engine="0"}': rising(40_000),
        'spec_acceptance_ratio{dp_rank="0",method="mtp"}': by_day(0.6, 0.8),
        'spec_acceptance_baseline_ratio{dp_rank="0",method="mtp"}': [0.7] * WEEK,
        'rdma_bytes_total{device="mlx5_0",port="1",direction="received"}': rising(1.2e9),
        'rdma_bytes_total{device="mlx5_1",port="1",direction="received"}': rising(1.1e9),
        'probe_tokens_total{runtime="sglang",source="sglang"}': [6.0 * minute for minute in range(WEEK)],
        'prefill_tokens_total{runtime="sglang",source="sglang",dp_rank="0",kind="computed"}': rising(9_000),
        'gateway_kv_params_total{runtime="aibrix",source="gateway",result="injected"}': rising(60),
        'gateway_kv_params_total{runtime="aibrix",source="gateway",result="missing"}': [0.0] * WEEK,
        'gateway_pd_routes_total{runtime="aibrix",source="gateway",route="pd"}': rising(60),
        'gateway_pd_routes_total{runtime="aibrix",source="gateway",route="failed"}': rising(0.01),
        'engine_memory_bytes{rank="TP0",part="free"}': [4e9] * WEEK,
        'engine_failures_total{kind="engine_dead",pod="dead-0"}': [0.0] * (WEEK - 720) + [1.0] * 720,
    }
    names = {(each.name, tuple(sorted(each.labels.items()))) for each in found}
    more = [series(text, "0").with_values(values) for text, values in others.items()]
    return [*found, *(each for each in more if (each.name, tuple(sorted(each.labels.items()))) not in names)]


@pytest.mark.slow
def test_a_healthy_week_fires_nothing(promtool: str, tmp_path: Path) -> None:
    """No alert of any severity, at no minute; but for one engine that died, to see that it would have been seen."""
    week = healthy_week()
    assert {"pd_verdict", "pd_evidence", "jit_incidents_total", "engine_failures_total"} <= {
        each.name.removeprefix("inferlog_") for each in week
    }
    query = 'group by (alertname, pod) (count_over_time(ALERTS{alertstate="firing"}[8d]))'
    seen = {"labels": '{alertname="InferlogEngineDead", pod="dead-0"}', "value": 1}
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [each.promtool() for each in week],
        "promql_expr_test": [{"expr": query, "eval_time": f"{WEEK - 1}m", "exp_samples": [seen]}],
    }
    assert not run_tests(promtool, tmp_path, [test])
