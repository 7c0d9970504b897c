"""Alert cases as promtool tests.

A file of `cases/` has cases by alert, each with

    fires       a list of incidents: `series`, `at` (the first minute that it fires), `labels` besides those of an engine's series (or `only`: all
                of them), `gap` (false: it need not survive a restart of the exporter while it fires); what an engineer then reads is in `descriptions.yaml`
                `open` is that minute where ranges leave out their beginning, if it is another one
    quiet       a list of near misses: `why`, `series`

Values are `V*N` (N minutes), `A..B*N` (N minutes of even steps, both ends included) and `_*N` (no series), separated by blanks; the last one stays. Series are
written without prefix and without the labels that all have.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from alerts.generate import groups, values
from exporter.families import FAMILIES, PREFIX

CASES = Path(__file__).parent / "cases"
DESCRIPTIONS = Path(__file__).parent / "descriptions.yaml"
"""By alert, the description of each of its incidents, in their order: `make goldens` writes it anew."""
TARGET = {"namespace": "llm", "pod": "decode-0", "instance": "10.0.0.7:19877", "job": "llm/inferlog"}
ENGINE = {"source": "decode", "runtime": "vllm"}
LAST = 100
"""Minutes that a series is continued for behind its last value."""

_SERIES = re.compile(r"([\w:]+)(?:\{(.*)\})?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Values = list[float | None]


@dataclass(frozen=True)
class Series:
    """One input series."""

    name: str
    labels: Mapping[str, str]
    values: Values

    @property
    def is_counter(self) -> bool:
        """Whether it only rises while its exporter lives."""
        return self.name.endswith("_total")

    def promtool(self) -> dict[str, str]:
        """As promtool wants it."""
        labels = ",".join(f"{name}={json.dumps(value)}" for name, value in self.labels.items())
        runs = ((value, len(list(run)) - 1) for value, run in groupby(self.values))  # promtool counts what follows the first
        values = ("stale" + " stale" * more if value is None else f"{value:.12g}x{more}" for value, more in runs)
        return {"series": f"{self.name}{{{labels}}}", "values": " ".join(values)}

    def with_values(self, values: Iterable[float | None]) -> "Series":
        """The same with others."""
        return Series(self.name, self.labels, list(values))


def expanded(text: str) -> Values:
    """All values, minute by minute."""
    found: Values = []
    for part in str(text).split():
        value, _, number = part.partition("*")
        first, _, last = value.partition("..")
        count = int(number or 1)
        if value == "_":
            found += [None] * count
        elif last:
            found += [float(first) + (float(last) - float(first)) * step / (count - 1) for step in range(count)]
        else:
            found += [float(first)] * count
    return found + [found[-1]] * LAST


def series(text: str, values: str) -> Series:
    """A series as a case writes it."""
    match = _SERIES.fullmatch(text)
    assert match, text
    own = dict(_LABEL.findall(match[2] or ""))
    if match[1] not in FAMILIES:
        return Series(match[1], TARGET | own, expanded(values))
    common = {label: ENGINE[label] for label in FAMILIES[match[1]].common}
    return Series(PREFIX + match[1], TARGET | common | own, expanded(values))


def case_series(case: Mapping[str, Any]) -> list[Series]:
    """All input series of a case."""
    return [series(text, values) for text, values in case["series"].items()]


def fired_labels(rule: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an incident's alert, without its name."""
    common = {name: value for name, value in case_series(case)[0].labels.items() if name in TARGET | ENGINE}
    return {**case.get("only", common | case.get("labels", {})), **rule["labels"]}


def cases() -> dict[str, dict[str, Any]]:
    """By alert."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(CASES.glob("*.yaml")):
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not found.keys() & table.keys(), path
        found |= table
    return found


def fired_descriptions(complaint: str) -> list[str]:
    """The descriptions of alerts that promtool did not expect, by what it says of them."""
    return [json.loads(f'"{each}"') for each in re.findall(r'description="((?:[^"\\]|\\.)*)"', complaint)]


def run_tests(promtool: str, folder: Path, tests: list[dict[str, Any]], only: str = "", interval: str = "1m", **changed: str) -> str:
    """What promtool finds wrong, nothing when all is well; `only` takes one group of alerts, `changed` are thresholds."""
    made = [group for group in groups(values(**changed)) if "record" in group["rules"][0] or only in ("", group["name"])]
    made.sort(key=lambda group: "alert" in group["rules"][0])  # what is recorded comes first
    content = {
        "rule_files": ["rules.yaml"],
        "group_eval_order": [group["name"] for group in made],
        "evaluation_interval": interval,
        "tests": tests,
    }
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": made}), encoding="utf-8")
    (folder / "test.yaml").write_text(yaml.safe_dump(content, sort_keys=False, width=10_000), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, timeout=840, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
