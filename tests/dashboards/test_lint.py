"""The rules of Grafana's dashboard-linter, without an exclusion. Each test has the rule's name."""

import re

import promql_parser
import pytest

from .boards import BOARDS, filled, panels, selectors, targets, walk

UNITS = frozenset(["none", "short", "percentunit", "s", "bytes", "Bps", "ops", "reqps"])
"""Ids of Grafana's units that the dashboards use."""

WITH_TARGETS = frozenset(("stat", "timeseries", "table", "bargauge", "state-timeline"))
RATES = frozenset(("rate", "irate", "increase"))

each_board = pytest.mark.parametrize("board", BOARDS)


def variables(board: str) -> dict[str, dict]:
    return {each["name"]: each for each in BOARDS[board]["templating"]["list"]}


@each_board
def test_template_datasource(board: str) -> None:
    (chosen,) = [each for each in variables(board).values() if each["type"] == "datasource"]
    assert (chosen["name"], chosen["label"], chosen["query"]) == ("datasource", "Data source", "prometheus")


@pytest.mark.parametrize("name", ["job", "instance"])
@each_board
def test_template_job_and_template_instance(board: str, name: str) -> None:
    variable = variables(board)[name]
    assert variable["type"] == "query"
    assert variable["datasource"]["uid"] == "$datasource"
    assert variable["label"] == name.capitalize()
    assert variable["multi"]
    assert variable["includeAll"]
    assert variable["allValue"] == ".+"


@each_board
def test_template_label_promql(board: str) -> None:
    for variable in variables(board).values():
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
            assert found, variable["query"]
            promql_parser.parse(filled(found[1]))


@each_board
def test_template_on_time_change_reload(board: str) -> None:
    assert all(each["refresh"] == 2 for each in variables(board).values() if each["type"] == "query")


@each_board
def test_panel_datasource(board: str) -> None:
    for panel in panels(board):
        assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}
        assert all(target["datasource"] == panel["datasource"] for target in panel.get("targets", ()))


@each_board
def test_panel_title_description(board: str) -> None:
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"]


@each_board
def test_panel_units(board: str) -> None:
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels(board) if panel["type"] in WITH_TARGETS} <= UNITS


@each_board
def test_panel_no_targets(board: str) -> None:
    for panel in panels(board):
        assert panel.get("targets") if panel["type"] in WITH_TARGETS else panel["type"] == "alertlist", panel["title"]


def test_target_promql() -> None:
    for target in targets():
        promql_parser.parse(target.expression)


def test_target_rate_interval() -> None:
    for target in targets():
        for function, span in re.findall(r"(\w+)\([^()\[]*\[([^\]]+)\]", target.query["expr"]):
            assert span == ("$__range" if function == "last_over_time" else "$__rate_interval"), target.name
        assert target.query["expr"].count("[") == len(re.findall(r"\w+\([^()\[]*\[", target.query["expr"])), target.name


@pytest.mark.parametrize("label", ["job", "instance"])
def test_target_job_and_target_instance(label: str) -> None:
    for target in targets():
        # Values are told apart by names here: all of them read .+ once they are filled in.
        expression = target.query["expr"].replace("$__rate_interval", "1m").replace("$__range", "1h")
        for selector, _ in selectors(expression):
            found = [(str(each.op), each.value) for each in selector.matchers.matchers if each.name == label]
            assert found == [("MatchOp.Re", f"${label}")], target.name


def test_target_counter_agg() -> None:
    for target in targets():
        for selector, above in selectors(target.expression):
            if selector.name.endswith("_total"):
                functions = {each.func.name for each in above if isinstance(each, promql_parser.Call)}
                assert functions & RATES, target.name


def test_target_logql_and_target_logql_auto() -> None:
    assert {target.query["datasource"]["type"] for target in targets()} == {"prometheus"}, "a Loki query needs the rules on LogQL"


@each_board
def test_uneditable_dashboard(board: str) -> None:
    assert BOARDS[board]["editable"] is False


def test_rates_are_of_counters() -> None:
    """The reverse of target-counter-agg, and no rule of the linter's: a rate of a gauge is no number at all."""
    for target in targets():
        for node, _ in walk(promql_parser.parse(target.expression)):
            if isinstance(node, promql_parser.Call) and node.func.name in RATES:
                (range_selector,) = node.args
                assert re.search(r"_(total|bucket|count|sum)$", range_selector.vector_selector.name), target.name
