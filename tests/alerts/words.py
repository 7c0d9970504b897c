"""What rules, cases and runbooks may name: families, their labels, and the words of these."""

import re
from functools import cache
from typing import Any

from alerts.generate import groups, values
from exporter.engine import LOG_LEVEL_TOO_HIGH
from exporter.families import FAMILIES, PREFIX
from exporter.gateway import GATEWAYS
from exporter.jit_incidents import PERIODS
from exporter.lifecycle import KNOWN_BAD, STATES
from exporter.startup import PHASES, UNTOLD
from exporter.verdict import CHECKS, ROLES, STATUSES, VERDICTS
from parsers.rules import registry

RULES: list[dict[str, Any]] = [rule for group in groups(values()) for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
OTHERS = {"up", "vllm:generation_tokens_total", "sglang:generation_tokens_total"}
"""What rules take from others than inferlog."""

TARGET_LABELS = {"namespace", "pod", "instance", "job", "pd_group", "source"}
RUNTIMES = {"vllm", "sglang", "unknown", *GATEWAYS}
LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "unknown"}


@cache
def known_values() -> dict[tuple[str, str], set[str]]:
    """By family and label, the words that it may have; labels whose words are learnt from logs are left out."""
    known: dict[tuple[str, str], set[str]] = {
        ("jit_incidents_total", "period"): set(PERIODS),
        ("jit_incident_timestamp_seconds", "period"): set(PERIODS),
        ("engine_state", "state"): set(STATES),
        ("engine_startup_phase", "phase"): {*PHASES, UNTOLD},
        ("startup_seconds", "phase"): {*PHASES, "total"},
        ("engine_memory_bytes", "part"): {"weights", "cuda_graph", "activation", "non_torch", "free"},
        ("pd_verdict", "verdict"): set(VERDICTS),
        ("pd_evidence", "check"): set(CHECKS),
        ("pd_evidence", "status"): set(STATUSES),
        ("pd_role", "role"): set(ROLES),
        ("unrecognised_lines_total", "level"): LEVELS,
        ("config_hazards_total", "kind"): {KNOWN_BAD, LOG_LEVEL_TOO_HIGH},
    }
    for rule in registry():
        for series in rule.emits:
            for label, value in series.labels.items():
                known.setdefault((series.family, label), set()).add(value)
    known["config_hazard_active", "kind"] = known["config_hazards_total", "kind"]
    return known


def check_series(name: str, labels: dict[str, str]) -> None:
    """Names and words exist."""
    if name in OTHERS | RECORDED:
        return
    family = name.removeprefix(PREFIX)
    assert name.startswith(PREFIX), name
    assert family in FAMILIES, name
    own = {label: value for label, value in labels.items() if label not in TARGET_LABELS}
    assert own.keys() <= {*FAMILIES[family].labels, *FAMILIES[family].common}, (name, own)
    runtime = own.pop("runtime", None)
    assert runtime is None or runtime in RUNTIMES
    for label, value in own.items():
        assert value in known_values().get((family, label), {value}), (name, label, value)


def alternatives(pattern: str) -> list[str]:
    """What a regular expression offers, split where no bracket is open."""
    parts, depth = [""], 0
    for token in re.findall(r"\\.|\[[^\]]*\]|.", pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return parts
