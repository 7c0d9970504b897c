"""What the alert rules and their runbooks say, taken apart: findings in a log use the same words as alerts on a cluster."""

import re
from functools import cache
from typing import NamedTuple

import yaml

from exporter.analysis.report import Severity
from exporter.shipped import runbook, shipped

FIRST_STEPS = 3


class Advice(NamedTuple):
    """What there is to say about an alert's cause."""

    title: str
    severity: Severity
    why: str
    sure: str
    steps: tuple[str, ...]


@cache
def _rules() -> dict[str, tuple[str, Severity]]:
    """Summary and severity by alert."""
    text = (shipped("alerts") / "inferlog-alerts.rules.yaml").read_text(encoding="utf-8")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"] if "alert" in rule]
    return {rule["alert"]: (rule["annotations"]["summary"], rule["labels"]["severity"]) for rule in rules}


@cache
def advice(alert: str) -> Advice:
    """The words for an alert. Raises KeyError when there is no such alert."""
    title, severity = _rules()[alert]
    sections = _sections(runbook(alert) or "")
    todo = sections.get("What to do", "")
    steps = re.findall(r"^- (.+?)(?=\n- |\n\n|\Z)", todo, re.MULTILINE | re.DOTALL) or [each for each in todo.split("\n\n") if each.strip()]
    return Advice(
        title,
        severity,
        _plain(sections.get("What it means", "")),
        _plain(sections.get("How sure it is", "")),
        tuple(_plain(step) for step in steps[:FIRST_STEPS]),
    )


def _sections(page: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return {title.strip(): text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("`", "")
