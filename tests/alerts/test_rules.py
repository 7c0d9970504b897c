"""What is shipped is what the source says, tools accept it, and everything that it names exists."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from alerts.generate import HERE, files, groups, thresholds, values
from exporter.engine import LOG_LEVEL_TOO_HIGH
from exporter.families import FAMILIES, PREFIX
from exporter.gateway import GATEWAYS
from exporter.jit_incidents import PERIODS
from exporter.lifecycle import KNOWN_BAD, STATES
from exporter.startup import PHASES, UNTOLD
from exporter.verdict import CHECKS, ROLES, STATUSES, VERDICTS
from parsers.rules import registry
from tests.alerts.promtool import case_series, cases

RULES: list[dict[str, Any]] = [rule for group in groups(values()) for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
OTHERS = {"up", "vllm:generation_tokens_total", "sglang:generation_tokens_total"}
"""What rules take from others than inferlog."""

LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "unknown"}


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
    own = {label: value for label, value in labels.items() if label not in {"namespace", "pod", "instance", "job", "pd_group", "source"}}
    assert own.keys() <= {*FAMILIES[family].labels, *FAMILIES[family].common}, (name, own)
    runtime = own.pop("runtime", None)
    assert runtime is None or runtime in {"vllm", "sglang", "unknown", *GATEWAYS}
    known = known_values()
    for label, value in own.items():
        assert value in known.get((family, label), {value}), (name, label, value)


@pytest.mark.parametrize("name", files())
def test_files_are_in_step_with_the_source(name: str) -> None:
    """`make alerts` would change nothing."""
    assert (HERE / name).read_text(encoding="utf-8") == files()[name]


def test_the_resource_holds_what_the_files_hold() -> None:
    """In a PrometheusRule, in the same order."""
    plain = [
        group
        for name in ("inferlog-recording.rules.yaml", "inferlog-alerts.rules.yaml")
        for group in yaml.safe_load((HERE / name).read_text(encoding="utf-8"))["groups"]
    ]
    assert yaml.safe_load((HERE / "prometheusrule.yaml").read_text(encoding="utf-8"))["spec"]["groups"] == plain


@pytest.mark.prometheus
def test_promtool_accepts_the_rules(promtool: str) -> None:
    """With all of its lints."""
    paths = [str(HERE / name) for name in files() if name.endswith(".rules.yaml")]
    subprocess.run([promtool, "check", "rules", "--lint=all", "--lint-fatal", *paths], check=True, capture_output=True, timeout=60)


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=InferlogPDRecomputing severity=critical", "page"),
        ("alertname=InferlogKVExpired severity=warning", "tickets"),
        ("alertname=InferlogJitDuringWarmup severity=info", "context"),
    ],
)
def test_alertmanager_takes_the_snippet(labels: str, receiver: str, amtool: str) -> None:
    """And sends pages to the pager."""
    path = str(HERE / "alertmanager.yaml")
    subprocess.run([amtool, "check-config", path], check=True, capture_output=True, timeout=60)
    routed = subprocess.run(
        [amtool, "config", "routes", "test", f"--config.file={path}", *labels.split()],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert routed.stdout.strip() == receiver


def test_inhibitions_name_alerts_and_signals_that_exist() -> None:
    """A misspelt matcher would inhibit nothing, in silence."""
    text = (HERE / "alertmanager.yaml").read_text(encoding="utf-8")
    names = {rule["alert"] for rule in ALERTS}
    assert set(re.findall(r"Inferlog\w+", text)) <= names
    signals = {rule["labels"]["signal"] for rule in ALERTS}
    for listed in re.findall(r'signal!?[=~]+"([^"]+)"', text):
        assert set(listed.split("|")) <= signals


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_all_that_it_must(rule: dict[str, Any]) -> None:
    """Name, severity, words without values in the summary, and where to read on."""
    assert re.fullmatch(r"Inferlog[A-Z]\w+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert "{{" not in rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"].endswith(f"/{rule['alert']}")
    assert "/d/inferlog-" in rule["annotations"]["dashboard_url"]
    assert len(rule["annotations"]["description"].split()) > 12
    assert not re.search(r"<[a-z_]+>", rule["annotations"]["description"])


def test_no_rule_fires_on_history() -> None:
    """`x unless x offset 10m` is true of every series that is new."""
    for rule in RULES:
        assert not re.search(r"unless[^()]*offset", rule["expr"]), rule


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or str(rule["record"] + str(rule.get("labels", ""))))
def test_what_a_rule_reads_exists(rule: dict[str, Any]) -> None:
    """Families, their labels, and each word of their matchers."""
    found = re.findall(r"((?:inferlog_|inferlog:|vllm:|sglang:|\bup\b)[\w:]*)(?:\{([^}]*)\})?", rule["expr"])
    assert found
    for name, matchers in found:
        for label, value in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', matchers) or [("", "")]:
            for word in value.split("|") if re.fullmatch(r"[\w|]+", value) and label != "transport" else ():
                check_series(name, {label: word})
        check_series(name, {})


def test_the_series_of_the_cases_exist() -> None:
    """No test passes on a name that the exporter never shows."""
    for case in cases().values():
        for each in [*case["fires"], *case["quiet"]]:
            for series in case_series(each):
                labels = {name: value for name, value in series.labels.items() if value}
                check_series(series.name, labels)


def test_every_threshold_is_used_and_says_when_to_change_it() -> None:
    """A number that nothing reads misleads."""
    text = "".join(path.read_text(encoding="utf-8") for path in (HERE / "source").glob("*.yaml"))
    for name, threshold in thresholds().items():
        assert f"<{name}>" in text, name
        assert threshold["change"].endswith("."), name
