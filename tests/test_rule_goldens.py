"""What each rule's real sample line alone makes of the exposition, one golden file for each module of rules."""

from collections import defaultdict

import pytest

from exporter.families import FAMILIES
from exporter.source import Source
from parsers.rules import Rule, Scope, registry
from tests.conftest import DATA

HEADER = "(EngineCore pid=318) {level} 07-14 03:12:15 [file.py:1] "
BARE_HEADER = "I0714 03:12:15.000000     318 file.cc:1] "
# True of any line: not worth repeating for each.
EVERYWHERE = ("log_lines_total", "pd_role", "pd_evidence", "pd_verdict")

MODULES: dict[str, list[Rule]] = defaultdict(list)
for _rule in registry():
    MODULES[_rule.build.__module__.removeprefix("parsers.")].append(_rule)


def _log(rule: Rule, sample: str) -> str:
    warning, info = HEADER.format(level="WARNING"), HEADER.format(level="INFO")
    if Scope.RECORD in rule.scope:
        return f"{info}{sample}\n"
    if Scope.EXCEPTION in rule.scope:
        return f"{warning}Traceback (most recent call last):\r\n{warning}{sample}\n"
    return f"{BARE_HEADER}{sample}\n"


def _exposed(rule: Rule, sample: str) -> list[str]:
    source = Source("golden", year=2026)
    source.feed(_log(rule, sample).encode())
    lines = []
    for family, labels, value in source.samples(None):
        if value and family not in EVERYWHERE and labels != ("unknown",):
            pairs = ",".join(f'{name}="{label}"' for name, label in zip(FAMILIES[family].labels, labels, strict=True))
            lines.append(f"{family}{{{pairs}}} {float(value)}")
    return sorted(lines)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_samples_give_the_golden_exposition(module: str, pytestconfig: pytest.Config) -> None:
    """A sample line, fed alone, always raises the same series to the same values."""
    text = ""
    for rule in MODULES[module]:
        for version, sample in rule.samples.items():
            text += "\n".join([f"# {rule.name} {version}", *_exposed(rule, sample), "", ""])
    golden = DATA / "rules" / f"{module}.prom"
    if pytestconfig.getoption("--update-goldens"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text
