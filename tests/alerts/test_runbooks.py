"""Every alert has a runbook, and what a runbook names exists."""

import re
from typing import Any

import pytest

from alerts.generate import HERE, groups, values
from exporter.families import FAMILIES
from exporter.known_bad import combinations

ALERTS = [rule for group in groups(values()) for rule in group["rules"] if "alert" in rule]


def test_known_bad_combinations_are_in_their_runbook() -> None:
    """The alert sends people there."""
    text = (HERE / "runbooks" / "InferlogKnownBadCombination.md").read_text(encoding="utf-8")
    assert not [each.id for each in combinations() if each.id not in text]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook(rule: dict[str, Any]) -> None:
    """With its four questions answered."""
    text = (HERE / "runbooks" / f"{rule['alert']}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {rule['alert']}\n")
    for heading in ("## What it means", "## How sure it is", "## What to look at", "## What to do"):
        assert heading in text, heading
    for name in re.findall(r"\binferlog_(\w+)", text):
        assert name in FAMILIES, name


def test_every_runbook_has_an_alert() -> None:
    """None outlives its alert."""
    assert {path.stem for path in (HERE / "runbooks").glob("*.md")} == {rule["alert"] for rule in ALERTS}
