"""The committed dashboards are those that the generator writes, whole, and about everything that the exporter tells."""

import itertools
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.generate import groups, values
from dashboards import palette, queries
from dashboards.generate import text
from exporter.families import FAMILIES, PREFIX
from exporter.lifecycle import STATES
from exporter.startup import PHASES
from exporter.verdict import VERDICTS
from tests.conftest import DATA

from .boards import BOARDS, FOLDER, filled, panels, selectors, targets

OTHERS = {
    "process_cpu_seconds_total": "client_python, about this process",
    "process_resident_memory_bytes": "client_python, about this process",
    "scrape_duration_seconds": "Prometheus, about the scrape",
    "up": "Prometheus, about the scrape",
    **dict.fromkeys(
        (
            "sglang:time_to_first_token_seconds_bucket",
            "sglang:token_usage",
            "sglang:num_queue_reqs",
            "sglang:cache_hit_rate",
            "sglang:gen_throughput",
            "sglang:spec_accept_length",
        ),
        "SGLang's own, by the names in its metrics collector since 0.4",
    ),
}
"""Metrics of others beside vLLM's, and whose they are."""

UNUSED: dict[str, str] = {"inferlog_pattern_lines_total": "only the user knows what his pattern means"}
"""Families without a panel, each with the reason."""

each_board = pytest.mark.parametrize("board", BOARDS)


def used() -> set[str]:
    """All metrics in queries of panels and annotations."""
    expressions = [target.expression for target in targets()]
    expressions += [filled(each["expr"]) for board in BOARDS.values() for each in board["annotations"]["list"]]
    return {selector.name for expression in expressions for selector, _ in selectors(expression)}


def test_dashboards_are_those_of_the_generator() -> None:
    """`make dashboards` writes them."""
    assert text() == {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}


@each_board
def test_sdk_knows_all_keys(board: str) -> None:
    """It drops those that it does not know."""
    register_default_plugins()
    assert json.loads(JSONEncoder().encode(Dashboard.from_json(BOARDS[board]))) == BOARDS[board]


@each_board
def test_uid_is_the_name_of_the_file(board: str) -> None:
    assert BOARDS[board]["uid"] == board
    assert "id" not in BOARDS[board]


def test_links_between_dashboards_keep_variables_and_time() -> None:
    for board in BOARDS.values():
        (link,) = board["links"]
        assert link["type"] == "dashboards"
        assert link["tags"] == board["tags"] == ["inferlog"]
        assert link["includeVars"]
        assert link["keepTime"]


@each_board
def test_panels_fill_the_width_and_do_not_overlap(board: str) -> None:
    """Each cell of the grid belongs to one panel at most, and none is left over."""
    cells: dict[tuple[int, int], str] = {}
    for panel in BOARDS[board]["panels"]:
        place = panel["gridPos"]
        for cell in itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])):
            assert cells.setdefault(cell, panel["title"]) == panel["title"]
            assert cell[0] < 24
    height = 1 + max(y for _, y in cells)
    assert len(cells) == 24 * height


@each_board
def test_panels_have_ids_of_their_own(board: str) -> None:
    ids = [panel["id"] for panel in BOARDS[board]["panels"]]
    assert len(ids) == len(set(ids))


@each_board
def test_first_screen_has_twelve_panels_at_most(board: str) -> None:
    kinds = [panel["type"] for panel in BOARDS[board]["panels"]]
    assert kinds.index("row") <= 12 if "row" in kinds else len(kinds) <= 12


@each_board
def test_each_panel_says_what_it_shows_and_what_nothing_means(board: str) -> None:
    """One sentence that ends with the metrics, thresholds, and words instead of an empty box."""
    for panel in panels(board):
        sentence, _, metrics = panel["description"].rpartition(": ")
        assert not sentence[0].islower()
        assert ". " not in sentence
        expressions = [target["expr"] for target in panel.get("targets", ())]
        assert (
            metrics.split(", ") == list(dict.fromkeys(n for each in expressions for n in queries.names(each)))
            or panel["type"] == "alertlist"
        )
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"], panel["title"]
        assert panel["type"] == "alertlist" or defaults["thresholds"]["steps"], panel["title"]


def test_an_empty_cell_does_not_say_what_an_empty_table_says() -> None:
    """And no column is wider than what it shows, or the last would be out of sight."""
    tables = [panel for board in BOARDS for panel in panels(board) if panel["type"] == "table"]
    assert tables
    for panel in tables:
        said = {
            each["matcher"]["options"]: each["properties"]
            for each in panel["fieldConfig"]["overrides"]
            if each["matcher"]["id"] == "byType"
        }
        assert said == {kind: [{"id": "noValue", "value": "-"}] for kind in ("string", "number")}
        assert panel["fieldConfig"]["defaults"]["custom"]["minWidth"] <= 60


def test_all_metrics_exist() -> None:
    ours = {name for name in used() if name.startswith(PREFIX)}
    assert ours <= {PREFIX + name for name in FAMILIES}
    theirs = {name for name in used() - ours if not name.startswith("vllm:")}
    assert theirs == OTHERS.keys()


def test_vllms_own_metrics_exist() -> None:
    """In the answer of a real engine; what is not in it is said where it is from."""
    answer = (DATA / "engine-metrics/vllm-0.32-decode.txt").read_text(encoding="utf-8")
    unseen = {name for name in used() if name.startswith("vllm:") and f"\n{name}{{" not in answer}
    assert unseen == {"vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"}, (
        "vLLM has them with speculation only"
    )


def test_a_panel_is_whole_without_the_engines_metrics() -> None:
    """A query asks either the log's metrics or an engine's own, for the pods whose logs are read: one that is empty empties no other."""
    for target in targets():
        names = {selector.name for selector, _ in selectors(target.expression)}
        if any(":" in name for name in names):
            assert target.query["expr"].count("inferlog_") == 1
            assert " and on (namespace, pod) inferlog_source_up{" in target.query["expr"]


def test_all_families_have_a_panel() -> None:
    shown = {selector.name for target in targets() for selector, _ in selectors(target.expression)}
    assert {PREFIX + name for name in FAMILIES} - shown == set(UNUSED)


def test_states_have_colours() -> None:
    """All states, verdicts and roles that the exporter can tell are in a timeline."""
    assert set(palette.VERDICTS) == set(VERDICTS)
    assert set(palette.ENGINE) == set(STATES)
    assert set(palette.PHASES) == {"unknown", *PHASES}


def _recorded() -> dict[str, str]:
    rules = [rule for group in groups(values()) for rule in group["rules"]]
    return {rule["record"]: rule["expr"] for rule in rules if "record" in rule}


def _metrics(text: str) -> set[str]:
    """All in a text; recording rules are what they are made of."""
    names = set(re.findall(r"\bup\b|\binferlog[_:][a-z0-9_:]+", text))
    return {name for name in names if ":" not in name}.union(*(_metrics(_recorded()[name]) for name in names if ":" in name))


@pytest.mark.parametrize(
    "rule", [rule for group in groups(values()) for rule in group["rules"] if "alert" in rule], ids=lambda rule: rule["alert"]
)
def test_each_alert_leads_to_a_dashboard_that_shows_what_it_is_about(rule: dict[str, Any]) -> None:
    """A panel has a metric of the alert's expression or description, and the dashboard has the variables that the link sets."""
    link = urlsplit(rule["annotations"]["dashboard_url"])
    board = link.path.rpartition("/")[2]
    assert {f"var-{each['name']}" for each in BOARDS[board]["templating"]["list"]} >= parse_qs(link.query).keys()
    shown = set().union(*(_metrics(target.expression) for target in targets() if target.board == board))
    assert shown & _metrics(f"{rule['expr']} {rule['annotations']['description']}")
