"""What is played on the stage: for each signal an engine that is well, and then is not."""

from itertools import chain

from parsers.rules import registry
from tests.dashboards.plays import Play, restart, saved, scenario
from tests.exporter.compiles import begins

_VLLM = "(EngineCore pid=318) WARNING 07-14 03:20:00 [module.py:1] "
_SGLANG = "[2026-08-03 08:00:00 TP0] "

EXPLODES = f"{'a' * 60}!"
"""A line with which a user's pattern never comes to an end."""

TORN = f"{_SGLANG}Decode batch, #running-r"


def _samples(family: str, header: str = _VLLM) -> list[str]:
    """Lines of rules that count in a family."""
    rules = (rule for rule in registry() if any(series.family == family for series in rule.emits))
    return [f"{header}{text}" for text in chain(*(rule.samples.values() for rule in rules))]


def plays() -> dict[str, Play]:
    """By the name of the source."""
    tcp = scenario("pd_written/kv-over-tcp", ".*")
    over_long = _VLLM + "x" * 70_000
    return {
        "decode-0": scenario("pd_captured/every-phase-of-a-pair", "13:11:33 .*Engine 000"),
        "decode-1": saved(
            "vllm-0.26/rendered-decode-nixl-recovered", add=[*_samples("jit_failures_total", ""), over_long], pd_role="decode"
        ),
        "decode-hybrid": saved(
            "vllm-0.33/rendered-decode-nixl-hma", mark="startup complete", add=[*tcp.before, *tcp.after, *_samples("jit_events_total")]
        ),
        "prefill-0": saved("vllm-0.26/rendered-prefill-nixl"),
        "combined-0": saved("vllm-0.32/captured-ngram"),
        "combined-old": restart("vllm-0.33/rendered-decode-nixl", "vllm-0.10/rendered-decode-nixl"),
        "combined-smaller": scenario("load/pool-smaller-than-yesterday"),
        "dspark-0": saved("vllm-0.33/rendered-combined-dspark"),
        "dspark-upgraded": restart("vllm-0.26/rendered-combined-dspark", "vllm-0.33/rendered-combined-dspark"),
        "compiles": scenario("compiles/burst-two-hours-after-ready", "Starting vLLM server", add=[begins("19:12:40")]),
        "drafts": scenario("load/acceptance-collapses"),
        "oom": saved("vllm-0.26/rendered-crash-oom", mark="Engine 000"),
        "gateway": saved("aibrix-0.7.0/rendered-every-way", mark=".*"),
        "sglang-decode-0": saved("sglang-0.5.17/rendered-pd-decode", mark="fired up"),
        "sglang-dspark": restart("sglang-0.5.17/rendered-kv-pools", "sglang-0.5.23/rendered-startup-dspark"),
        "sglang-failures": saved(
            "sglang-0.5.23/rendered-jit-while-serving",
            "sglang-0.5.17/rendered-failures",
            mark="#running-req: 6",
            add=[*_samples("requests_truncated_total", _SGLANG), TORN],
        ),
        "sglang-draft-block": scenario("load/draft-longer-than-the-block", "."),
        "sglang-jit": saved("sglang-0.5.23/rendered-jit-while-serving", mark="Decode batch"),
        "sglang-probes": saved("sglang-0.5.17/rendered-idle-probes"),
        "sglang-pools": saved("sglang-0.5.17/rendered-kv-pools", mark=".*"),
        "reworded": saved("vllm-0.26/rendered-combined-dspark", mark="Loading weights took").reworded(
            "Maximum concurrency", "Most requests"
        ),
        "v0": saved("vllm-0.5/field-v0-idle-stats", add=[*_samples("requests_preempted_total"), EXPLODES], patterns={"bomb": "(a|aa)+$"}),
    }
