"""What reading a log takes, in numbers that a busy machine does not change: `pytest tests/bench/test_work.py --update-goldens` after a change that is meant."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.work import KINDS, excess, stale, work
from exporter.engine import Engine
from parsers.log import Log

ROOT = Path(__file__).parent.parent.parent
TABLE = Path(__file__).with_name("work.json")
_ANYTHING = re.compile(r"unlikely \d+")


@pytest.mark.parametrize("kind", KINDS)
def test_reading_takes_the_work_that_the_table_says(kind: str, pytestconfig: pytest.Config) -> None:
    """At most a tenth more; and not so much less that the table would let the next one waste it."""
    found, table = work(kind), json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    if pytestconfig.getoption("--update-goldens"):
        table = {each: found if each == kind else table.get(each) for each in KINDS}
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    assert excess(found, table[kind]) == []
    assert stale(found, table[kind]) == []


def test_work_is_the_same_each_time() -> None:
    """Nor do hashes change it, which are others in each process; of memory only where they fall in a table that grows."""
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "bench.work", "dense"],
                cwd=ROOT,
                env=os.environ | {"PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
        )["dense"]
        for seed in ("1", "2")
    )
    assert first.pop("bytes held") == pytest.approx(second.pop("bytes held"), abs=0.05)
    assert first == second


# -- what a change may do by mistake -----------------------------------------------------------------------------------


def search_each_line(feed: Callable[..., Any]) -> Callable[..., Any]:
    def searching(self: Log, data: bytes) -> Any:
        for line in data.decode("utf-8", "replace").split("\n"):
            _ANYTHING.search(line)
        return feed(self, data)

    return searching


def call_for_each_line(feed: Callable[..., Any]) -> Callable[..., Any]:
    def calling(self: Log, data: bytes) -> Any:
        for line in data.split(b"\n"):
            look_at(line)
        return feed(self, data)

    return calling


def look_at(line: bytes) -> None:
    """Nothing, but for each line."""


def copy_each_block(feed: Callable[..., Any]) -> Callable[..., Any]:
    def copying(self: Log, data: bytes) -> Any:
        copy = [line.decode("utf-8", "replace") for line in data.split(b"\n")]
        return feed(self, data), copy

    return lambda self, data: copying(self, data)[0]


def test_each_line_searched_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One regex search a line more."""
    assert any("regex calls" in each for each in _excess_with(monkeypatch, Log, "feed", search_each_line, "typical"))


def test_each_line_given_to_a_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call a line more."""
    assert any(each.startswith("calls") for each in _excess_with(monkeypatch, Log, "feed", call_for_each_line, "typical"))


def test_another_copy_of_each_block_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes once more."""
    assert any("bytes held" in each for each in _excess_with(monkeypatch, Log, "feed", copy_each_block, "typical"))


def test_metrics_written_with_each_event_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value of a periodic line at once, instead of the last one at a scrape."""

    def write_each_value(apply: Callable[..., Any]) -> Callable[..., Any]:
        def writing(self: Engine, found: Any, *more: Any) -> None:
            for event, _ in found:
                for value in event:
                    self.counters.add("kv_transfers_total", "0", "nixl", by=0 if value is None else 0.0)
            apply(self, found, *more)

        return writing

    found = _excess_with(monkeypatch, Engine, "apply", write_each_value, "dense")
    assert any("statements in exporter" in each for each in found)


def _excess_with(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, worse: Callable[..., Any], kind: str) -> list[str]:
    """What the guard says when a method does more than it has to."""
    monkeypatch.setattr(owner, name, worse(getattr(owner, name)))
    return excess(work(kind), json.loads(TABLE.read_text(encoding="utf-8"))[kind])
