"""Every incident of the tables beside this file is told as it was, and every near miss stays quiet."""

import pytest
from _pytest.mark.structures import ParameterSet

from tests.scenarios.scenario import ORIGINS, Scenario, play, scenarios

LEAST_INCIDENTS = 30
LEAST_OF_OTHERS = 20

SCENARIOS = list(scenarios())
INCIDENTS = [each for each in SCENARIOS if not each.near_miss]


def _case(scenario: Scenario) -> ParameterSet:
    reason = scenario.table.get("xfail")
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(scenario, id=scenario.name, marks=marks)


@pytest.mark.parametrize("scenario", [_case(each) for each in SCENARIOS])
def test_log_tells_what_happened(scenario: Scenario) -> None:
    """At each marked line."""
    play(scenario)


def test_there_are_enough_incidents() -> None:
    """Most of them from logs that nobody wrote for this suite."""
    assert LEAST_INCIDENTS <= len(INCIDENTS)
    assert LEAST_OF_OTHERS <= sum(each.origin != "ours" for each in INCIDENTS)


def test_each_origin_is_known() -> None:
    """And reported ones say where."""
    for each in SCENARIOS:
        assert each.origin in ORIGINS, each.name
        assert each.origin != "reported" or "https://" in each.table["origin"], each.name
