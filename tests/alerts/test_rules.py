"""What is shipped is what the source says, tools accept it, and everything that it names exists."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from alerts.generate import HERE, files, thresholds
from tests.alerts.promtool import case_series, cases
from tests.alerts.words import ALERTS, RULES, check_series


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
@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alertmanager_routes_by_the_snippet(rule: dict[str, Any], amtool: str) -> None:
    """Pages to the pager, tickets to the tickets, context to nobody's bed."""
    path = str(HERE / "alertmanager.yaml")
    labels = [f"alertname={rule['alert']}", *(f"{name}={value}" for name, value in rule["labels"].items())]
    routed = subprocess.run(
        [amtool, "config", "routes", "test", f"--config.file={path}", *labels], check=True, capture_output=True, text=True, timeout=60
    )
    assert routed.stdout.strip() == {"critical": "page", "warning": "tickets", "info": "context"}[rule["labels"]["severity"]]


@pytest.mark.prometheus
def test_alertmanager_takes_the_snippet(amtool: str) -> None:
    """As shipped."""
    subprocess.run([amtool, "check-config", str(HERE / "alertmanager.yaml")], check=True, capture_output=True, timeout=60)


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
