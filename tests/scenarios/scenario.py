"""Incidents as tables: what a log must have told once it was read up to a marked line.

A file of this folder is a family of incidents, each with

    name, story     what happened
    origin          captured (a real run), rendered (an engine's own format code), reported (an address), ours
    log             one or several files of tests/data without `.log`, read one after the other; or `lines`, the log itself
    edits           changes to it: `drop` (lines that match), `swap` (a pattern and its replacement), `add` (lines at the end)
    args            pd_role, pd_expect
    at              the moments, in the order of the log
    near_miss       the incident that it nearly was, and that stays quiet: what it does not say itself is as above
    xfail           why it does not hold yet

and a moment has

    after           a pattern: the log is read through the next line that it is found in; `end` is the whole log
    why             how the values were worked out, where they do not speak for themselves
    verdict, state  the P/D verdict, the engine's state
    verdicts        all verdicts from the moment before to this one, each line looked at
    checks          some of the verdict's checks
    hazards, incidents, jit     all that there are: kinds of hazards, failures by kind, compiles by phase
    series          expectations in the language of tests/expectations.py
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from exporter.families import FAMILIES, PREFIX
from exporter.source import Source
from tests.conftest import DATA
from tests.expectations import Series, check

FOLDER = Path(__file__).parent
YEAR = 2026
ORIGINS = ("captured", "rendered", "reported", "ours")
_CASE_KEYS = frozenset(("name", "story", "origin", "log", "lines", "edits", "args", "at", "near_miss", "xfail"))
_MOMENT_KEYS = frozenset(("after", "why", "verdict", "verdicts", "state", "checks", "hazards", "incidents", "jit", "series"))


@dataclass(frozen=True)
class Scenario:
    """An incident or a near miss."""

    name: str
    table: dict[str, Any]
    near_miss: bool = False

    @property
    def origin(self) -> str:
        """Where the log is from, in one word."""
        return str(self.table["origin"]).split(maxsplit=1)[0]

    @property
    def lines(self) -> list[str]:
        """The log, with its edits."""
        table = self.table
        names: list[str] = [table["log"]] if isinstance(table.get("log"), str) else table.get("log", [])
        text = "".join((DATA / f"{name}.log").read_text(encoding="utf-8", errors="replace") for name in names) + table.get("lines", "")
        lines: list[str] = text.splitlines()
        for edit in table.get("edits", ()):
            if "drop" in edit:
                lines = [line for line in lines if not re.search(edit["drop"], line)]
            if "swap" in edit:
                pattern, replacement = edit["swap"]
                assert any(re.search(pattern, line) for line in lines), f"{self.name}: nothing to swap for {pattern!r}"
                lines = [re.sub(pattern, replacement, line) for line in lines]
            lines += edit.get("add", "").splitlines()
        return lines


def scenarios() -> Iterator[Scenario]:
    """Each incident of this folder, followed by its near miss."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for table in yaml.safe_load(path.read_text(encoding="utf-8")):
            name = f"{path.stem}/{table['name']}"
            miss = table.get("near_miss")
            assert not table.keys() - _CASE_KEYS, name
            assert miss, name
            assert not miss.keys() - _CASE_KEYS, name
            yield Scenario(name, {key: value for key, value in table.items() if key != "near_miss"})
            log = {} if "log" in miss or "lines" in miss else {key: table[key] for key in ("log", "lines", "edits") if key in table}
            args = {"args": table.get("args", {})} if log else {}
            origin = {"origin": table["origin"]}
            yield Scenario(f"{name}/near-miss", {**origin, **args, **log, **miss}, near_miss=True)


class Reading:
    """A log that is read line by line."""

    def __init__(self, scenario: Scenario) -> None:
        self._source = Source("scenario", year=YEAR, **scenario.table.get("args", {}))
        self._rest = scenario.lines
        self.verdicts: list[str] = []
        """All since they were last asked for, without repetitions."""

    def read(self, mark: str) -> None:
        """Go on through the next line with this mark."""
        self.verdicts = self.verdicts[-1:]
        while self._rest:
            line = self._rest.pop(0)
            self._source.feed(f"{line}\n".encode())
            state = Told(self._source)
            if state.verdict and state.verdict not in self.verdicts[-1:]:
                self.verdicts.append(state.verdict)
            if mark != "end" and re.search(mark, line):
                return
        assert mark == "end", f"no line has {mark!r}"
        self._source.end_of_file()

    @property
    def told(self) -> "Told":
        """What is known by now."""
        return Told(self._source)


class Told:
    """All series of a source, as people look at them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def series(self) -> Series:
        """Names, labels of their own, values."""
        samples = self._source.samples(None)
        return [
            (PREFIX + each.family, dict(zip(FAMILIES[each.family].labels, each.labels, strict=True)), float(each.value)) for each in samples
        ]

    def _ones(self, family: str, label: str) -> list[str]:
        return [labels[label] for name, labels, value in self.series if name == PREFIX + family and value == 1]

    def _sums(self, family: str, label: str) -> dict[str, float]:
        sums: dict[str, float] = {}
        for name, labels, value in self.series:
            if name == PREFIX + family and value:
                sums[labels[label]] = sums.get(labels[label], 0) + value
        return sums

    @property
    def verdict(self) -> str:
        """Empty as long as nothing is known of any engine."""
        return "".join(self._ones("pd_verdict", "verdict"))

    @property
    def state(self) -> str:
        """The engine's."""
        return "".join(self._ones("engine_state", "state"))

    @property
    def hazards(self) -> list[str]:
        """Of the current process."""
        return sorted(self._ones("config_hazard_active", "kind"))

    @property
    def incidents(self) -> dict[str, float]:
        """By kind."""
        return self._sums("engine_failures_total", "kind")

    @property
    def jit(self) -> dict[str, float]:
        """Compiles and autotunes by phase."""
        return self._sums("jit_events_total", "phase")

    @property
    def checks(self) -> dict[str, str]:
        """The status of each."""
        return {labels["check"]: labels["status"] for name, labels, value in self.series if name == f"{PREFIX}pd_evidence" and value == 1}


def play(scenario: Scenario) -> None:
    """Read the log from moment to moment; AssertionError where it tells something else than the table."""
    reading = Reading(scenario)
    for moment in scenario.table["at"]:
        assert not moment.keys() - _MOMENT_KEYS, moment
        assert moment.keys() - {"after", "why"}, f"nothing is expected {moment}"
        reading.read(moment["after"])
        told, where = reading.told, f"after {moment['after']!r}"
        for key in ("verdict", "state", "incidents", "jit"):
            if key in moment:
                assert moment[key] == getattr(told, key), where
        if "verdicts" in moment:
            assert moment["verdicts"] == reading.verdicts, where
        if "hazards" in moment:
            assert sorted(moment["hazards"]) == told.hazards, where
        if "checks" in moment:
            assert moment["checks"] == {name: told.checks[name] for name in moment["checks"]}, where
        for expectation in moment.get("series", ()):
            check(expectation, told.series)
