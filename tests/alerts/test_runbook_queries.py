"""What a runbook tells people to ask exists: metrics, labels and their words in PromQL, lines of engines in greps, settings of engines."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import promql_parser
import pytest
import yaml

from alerts.generate import HERE
from exporter.families import FAMILIES, PREFIX
from tests.alerts.words import RECORDED, RUNTIMES, TARGET_LABELS, alternatives, known_values
from tests.conftest import DATA
from tests.dashboards.boards import selectors, walk

RUNBOOKS = sorted((HERE / "runbooks").glob("*.md"))
each_runbook = pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)

OTHERS = {
    "up": "Prometheus, about the scrape",
    "process_cpu_seconds_total": "client_python, about this process",
    "container_cpu_cfs_throttled_periods_total": "cAdvisor in the kubelet",
    "container_memory_working_set_bytes": "cAdvisor in the kubelet",
    "node_infiniband_state_id": "node_exporter's infiniband collector",
    "DCGM_FI_DEV_FB_FREE": "dcgm-exporter's default set",
}
"""Metrics of others beside vLLM's, and whose they are."""

NATIVE = Path(__file__).parent / "native_lines.txt"
RATES = {"rate", "irate", "increase"}
LOGS = re.compile(r"(?:engine|decode|prefill|gateway|\*)\.log$")


def blocks(path: Path, language: str) -> list[str]:
    """The lines of a runbook's fenced blocks in a language."""
    fenced = re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in fenced for line in block.splitlines()]


def queries(path: Path) -> list[str]:
    """Those of the blocks, and those within sentences that are more than a name."""
    spans = re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
    return [*blocks(path, "promql"), *(span for span in spans if re.search(r"inferlog[_:]\w+[({\[]|\(inferlog", span))]


def greps(path: Path) -> Iterator[list[str]]:
    """The arguments of each grep that reads an engine's or a gateway's log."""
    for line in blocks(path, "sh"):
        for command in re.split(r" [|;] ", re.sub(r" +# .*", "", line)):
            words = shlex.split(command)
            if words[0] == "grep" and LOGS.search(words[-1]):
                yield words[1:-1]


@cache
def seen_values() -> dict[tuple[str, str], set[str]]:
    """By family and label, the words in the golden expositions."""
    seen: dict[tuple[str, str], set[str]] = {}
    for path in DATA.rglob("*.prom"):
        for name, labels in re.findall(r"^inferlog_(\w+)\{(.*)\} ", path.read_text(encoding="utf-8"), re.MULTILINE):
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
                seen.setdefault((name, label), set()).add(value)
    return seen


def check_word(family: str, label: str, word: str) -> None:
    """A word of a matcher, or a part of its regular expression, is one that the label can have."""
    words = known_values().get((family, label), set()) | seen_values().get((family, label), set())
    assert any(re.fullmatch(word, each) for each in words), (family, label, word)


@each_runbook
def test_metrics_labels_and_words_of_queries_exist(path: Path) -> None:
    """A query of a name that nothing has is an empty answer at night."""
    engine = (DATA / "engine-metrics/vllm-0.32-decode.txt").read_text(encoding="utf-8")
    for query in queries(path):
        for selector, _ in selectors(query):
            name = selector.name or ""
            if name.startswith("vllm:"):
                assert f"\n{name}{{" in engine, name
            elif name.startswith(PREFIX):
                family = FAMILIES[name.removeprefix(PREFIX)]
                for matcher in selector.matchers.matchers:
                    assert matcher.name in TARGET_LABELS | {*family.labels, *family.common}, (name, matcher.name)
                    if matcher.name == "runtime":
                        assert matcher.value in RUNTIMES
                    elif matcher.name not in TARGET_LABELS:
                        for word in alternatives(matcher.value) if matcher.value else ():
                            check_word(name.removeprefix(PREFIX), matcher.name, word)
            else:
                assert name in RECORDED | OTHERS.keys() or not name, name


@each_runbook
def test_queries_count_counters_and_group_by_labels_that_there_are(path: Path) -> None:
    """A rate of a gauge is nonsense that Prometheus answers in silence."""
    for query in queries(path):
        for node, above in walk(promql_parser.parse(query)):
            if not isinstance(node, promql_parser.VectorSelector) or not (node.name or "").startswith(PREFIX):
                continue
            family = FAMILIES[node.name.removeprefix(PREFIX)]
            calls = {each.func.name for each in above if isinstance(each, promql_parser.Call)}
            assert bool(calls & RATES) <= (family.kind == "counter"), query
            for each in above:
                if isinstance(each, promql_parser.AggregateExpr) and each.modifier:
                    assert set(each.modifier.labels) <= TARGET_LABELS | {*family.labels, *family.common}, query


@each_runbook
def test_greps_find_lines_that_there_are(path: Path) -> None:
    """Each alternative of a pattern stands in some line of the test data."""
    for arguments in greps(path):
        *flags, pattern = arguments
        extended = any(re.fullmatch(r"-[a-zA-Z]*E[a-zA-Z]*", flag) for flag in flags)
        for each in alternatives(pattern) if extended else [pattern]:
            found = subprocess.run(
                [
                    "grep",
                    "-rqE" if extended else "-rq",
                    "--include=*.log",
                    "--include=*.txt",
                    *(["-i"] if any("i" in flag for flag in flags) else []),
                    "-e",
                    each,
                    DATA,
                    NATIVE,
                ],
                check=False,
                timeout=30,
            )
            assert found.returncode == 0, each


def settings(text: str) -> set[str]:
    """Arguments and environment variables in a text."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+|\b(?:[A-Z]+_[A-Z0-9_]+[A-Z0-9]|PYTHONUNBUFFERED)\b", text))


def test_settings_are_called_by_their_names() -> None:
    """Each was found in the engine that has it."""
    listed = yaml.safe_load((Path(__file__).parent / "settings.yaml").read_text(encoding="utf-8"))
    texts = [path.read_text(encoding="utf-8") for path in (*RUNBOOKS, *(HERE / "source").glob("*.yaml"))]
    named = settings(re.sub(r"\b(?:DCGM_\w+|IPC_LOCK)\b|--v=5", "", "\n".join(texts)))
    assert named == set(" ".join(listed.values()).split())


@each_runbook
def test_what_to_look_at_is_shown_as_commands(path: Path) -> None:
    """In blocks that say their language, and nothing else."""
    section = path.read_text(encoding="utf-8").partition("## What to look at\n")[2].partition("\n## ")[0]
    rest = re.sub(r"^```(?:promql|sh)\n.*?^```$", "", section, flags=re.DOTALL | re.MULTILINE)
    assert not rest.strip()
    assert blocks(path, "promql"), "a query"
