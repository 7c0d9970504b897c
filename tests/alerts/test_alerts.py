"""Every alert fires at its minute and not at its near miss, whatever happens to the exporter meanwhile."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.generate import groups, values
from tests.alerts.promtool import DESCRIPTIONS, Series, case_series, cases, fired_descriptions, fired_labels, run_tests

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(300)]

GROUPS: dict[str, list[str]] = {
    group["name"]: [rule["alert"] for rule in group["rules"]] for group in groups(values()) if "alert" in group["rules"][0]
}
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in groups(values()) for rule in group["rules"] if "alert" in rule}
CASES = cases()
OLD = 20
"""Minutes that a counter was there before it began anew."""
LATER = 70
"""Minutes after an alert began, when no window has its event any more."""

Check = tuple[int, str, list[dict[str, Any]]]
each_group = pytest.mark.parametrize("group", GROUPS)


def is_event(alert: str) -> bool:
    """Whether it is about something that happened, and not about something that is."""
    return "increase(" in RULES[alert]["expr"] and not CASES[alert].get("state")


def expected(alert: str, case: dict[str, Any], description: str) -> dict[str, Any]:
    """The alert of an incident as Alertmanager gets it."""
    rule = RULES[alert]
    labels = fired_labels(rule, case)
    url = rule["annotations"]["dashboard_url"]
    for name in ("namespace", "pod"):
        url = url.replace(f"{{{{ $labels.{name} }}}}", labels.get(name, ""))
    return {
        "exp_labels": labels,
        "exp_annotations": rule["annotations"] | {"description": description, "dashboard_url": url},
    }


def promtool_test(name: str, series: list[Series], checks: list[Check]) -> dict[str, Any]:
    """Checks are the minute, the alert and what fires of it."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [each.promtool() for each in series],
        "alert_rule_test": [{"eval_time": f"{at}m", "alertname": alert, "exp_alerts": alerts} for at, alert, alerts in checks],
    }


def with_gap(series: list[Series], minute: int) -> list[Series]:
    """The exporter is away for three minutes and counts on from its state."""
    return [each.with_values([*each.values[:minute], None, None, None, *each.values[minute + 3 :]]) for each in series]


def first(case: dict[str, Any], promtool: str) -> int:
    """The first minute that it fires: from Prometheus 3 on a range leaves out its beginning, and is full a scrape earlier."""
    told = subprocess.run([promtool, "--version"], check=True, capture_output=True, text=True, timeout=60)
    return int(case["at"] if " version 2." in told.stdout + told.stderr else case.get("open", case["at"]))


@each_group
def test_it_fires_at_its_minute(group: str, promtool: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Not a minute earlier, with these labels and annotations; `make goldens` writes what an engineer reads of each incident anew."""
    words: dict[str, list[str]] = yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8"))
    if pytestconfig.getoption("--update-goldens"):
        for alert in GROUPS[group]:
            unexpected = [promtool_test(alert, case_series(case), [(case["at"], alert, [])]) for case in CASES[alert]["fires"]]
            words[alert] = fired_descriptions(run_tests(promtool, tmp_path, unexpected, only=group))
        DESCRIPTIONS.write_text(yaml.safe_dump(words, width=160), encoding="utf-8")
    tests = [
        promtool_test(
            alert, case_series(case), [(first(case, promtool) - 1, alert, []), (case["at"], alert, [expected(alert, case, description)])]
        )
        for alert in GROUPS[group]
        for case, description in zip(CASES[alert]["fires"], words[alert], strict=True)
    ]
    assert not run_tests(promtool, tmp_path, tests, only=group)


@each_group
def test_a_near_miss_does_not_fire(group: str, promtool: str, tmp_path: Path) -> None:
    """At no minute."""
    tests = [
        promtool_test(f"{alert}: {case['why']}", case_series(case), [(minute, alert, []) for minute in range(0, 100, 3)])
        for alert in GROUPS[group]
        for case in CASES[alert]["quiet"]
    ]
    assert tests
    assert not run_tests(promtool, tmp_path, tests, only=group)


@each_group
def test_an_event_is_told_once(group: str, promtool: str, tmp_path: Path) -> None:
    """Neither history that is read at the first start fires, nor a restart of the exporter; a counter that begins anew hides nothing."""
    words: dict[str, list[str]] = yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8"))
    tests = []
    for alert in filter(is_event, GROUPS[group]):
        for case, description in zip(CASES[alert]["fires"], words[alert], strict=True):
            series, at = case_series(case), case["at"]
            history = [each.with_values(each.values[-1:] * 100) if each.is_counter else each for each in series]
            tests.append(promtool_test(f"{alert}: history", history, [(minute, alert, []) for minute in range(0, 100, 3)]))

            restart = at + LATER
            minutes = range(restart - 1, restart + 15)
            tests.append(promtool_test(f"{alert}: restart", with_gap(series, restart), [(minute, alert, []) for minute in minutes]))

            if all(each.is_counter for each in series):
                begun_anew = [
                    each.with_values([each.values[0] + 7 if each.values[0] is not None else None] * OLD + each.values) for each in series
                ]
                fires = [expected(alert, case, description)]
                tests.append(promtool_test(f"{alert}: reset", begun_anew, [(at + OLD - 1, alert, []), (at + OLD, alert, fires)]))
    assert not (tests and run_tests(promtool, tmp_path, tests, only=group))


@each_group
def test_it_outlives_a_restart_of_the_exporter(group: str, promtool: str, tmp_path: Path) -> None:
    """Three minutes without its series do not resolve what goes on, and neither does time."""
    tests = []
    for alert in GROUPS[group]:
        for case in CASES[alert]["fires"]:
            begins = case["at"] + 1
            goes_on = case.get("still", 0 if is_event(alert) or not case.get("gap", True) else begins + 6)
            if goes_on:
                test = promtool_test(f"{alert}: goes on", case_series(case) if is_event(alert) else with_gap(case_series(case), begins), [])
                # promtool compares values too, which may have moved: that something fires is asked of ALERTS
                query = f'min_over_time((count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0))[{goes_on - begins}m:1m])'
                test["promql_expr_test"] = [{"expr": query, "eval_time": f"{goes_on}m", "exp_samples": [{"labels": "{}", "value": 1}]}]
                tests.append(test)
    assert not (tests and run_tests(promtool, tmp_path, tests, only=group))


def test_every_alert_has_cases() -> None:
    """One that fires and a near miss at least, and every case an alert."""
    assert RULES.keys() == CASES.keys()
    for alert, each in CASES.items():
        assert each["fires"], alert
        assert each["quiet"], alert
