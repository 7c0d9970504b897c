"""The committed dashboards, and what the tests ask of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "1h",
    "$datasource": "prometheus",
    "$namespace": ".*",
    "$pod": ".*",
    "$source": ".*",
    "$runtime": ".*",
    "$job": ".+",
    "$instance": ".+",
}


class Target(NamedTuple):
    """One query of a panel."""

    board: str
    panel: dict[str, Any]
    query: dict[str, Any]

    @property
    def name(self) -> str:
        """Where to look when it is wrong."""
        return f"{self.board}/{self.panel['title']}/{self.query['refId']}"

    @property
    def expression(self) -> str:
        """The query as Grafana sends it when everything is selected."""
        return filled(self.query["expr"])


def panels(board: str) -> list[dict[str, Any]]:
    """All panels but the headings of rows."""
    return [panel for panel in BOARDS[board]["panels"] if panel["type"] != "row"]


def targets() -> list[Target]:
    """All queries of all panels."""
    return [Target(board, panel, query) for board in BOARDS for panel in panels(board) for query in panel.get("targets", ())]


def filled(expression: str) -> str:
    """An expression with values in place of all variables."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert not re.search(r"[^\\]\$\w", expression), expression
    return expression


def walk(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """All nodes of an expression's syntax tree, each with those above it."""
    yield node, above
    for name in ("expr", "lhs", "rhs", "args", "param", "vector_selector"):
        child = getattr(node, name, None)
        for each in child if isinstance(child, list) else [child]:
            if (each is not None and type(each).__module__.startswith("promql_parser")) or isinstance(each, promql_parser.VectorSelector):
                yield from walk(each, (*above, node))


def selectors(expression: str) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The vector selectors of a filled expression, and what is above each."""
    for node, above in walk(promql_parser.parse(expression)):
        if isinstance(node, promql_parser.VectorSelector):
            yield node, above
