"""The pages that people follow name only what is there."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from alerts.generate import files
from exporter.families import FAMILIES, PREFIX
from tests.conftest import parsed_arguments

ROOT = Path(__file__).parent.parent
GENERATED = {"alerts.md", "cli.md", "dependencies.md", "metrics.md", "signals.md"}
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED)]
LONGEST_README = 90
ALERTS = {
    rule["alert"]
    for group in yaml.safe_load(files()["inferlog-alerts.rules.yaml"])["groups"]
    for rule in group["rules"]
}  # fmt: skip

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, and to a heading in it."""
    for target, heading in re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        assert path.exists(), target
        if heading:
            headings = re.findall(r"(?m)^#+ (.+)$", path.read_text(encoding="utf-8"))
            assert heading in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}, heading


@each_page
def test_metrics_and_alerts_exist(page: Path) -> None:
    """Families of the code, and alerts of the rules."""
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(rf"\b{PREFIX}(\w+)", text)) - {"rotation"}
    assert named <= FAMILIES.keys() | {"build_info"}
    assert set(re.findall(r"\bInferlog[A-Z]\w+", text)) <= ALERTS


@each_page
def test_folders_of_deploy_exist(page: Path) -> None:
    """What is applied, and what is spoken of."""
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"(?<![/\w])(deploy/[\w./-]+[\w])", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:overlays|components|examples)/[\w./-]+)`", text):
        assert (ROOT / "deploy" / path).exists(), path


@each_page
def test_commands_take_their_flags(page: Path) -> None:
    """Each `inferlog` command line is parsed."""
    for line in re.findall(r"inferlog (?:run|metrics|events|export|replay|demo)\b[^`\n]*", page.read_text(encoding="utf-8")):
        words = [word for word in shlex.split(line.split("#")[0].split("|")[0])[1:] if word not in {"FILE", "FILE..."}]
        try:
            parsed_arguments(*words)
        except (click.exceptions.Exit, click.MissingParameter, click.BadParameter):  # `inferlog export alerts DIR`, and files of users
            continue
        except click.UsageError as error:
            pytest.fail(f"{line}: {error}")


def test_the_readme_is_one_screen() -> None:
    """Details are in docs/."""
    for page in ("README.md", "README.zh-CN.md"):
        assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= LONGEST_README


def test_every_page_can_be_found_from_the_readme() -> None:
    """Directly, or over one page."""
    seen = {ROOT / "README.md"}
    for _ in range(2):
        for page in [each for each in seen if each.suffix == ".md"]:
            links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
            seen |= {(page.parent / link).resolve() for link in links}
    assert not {page.name for page in (ROOT / "docs").glob("*.md") if page.resolve() not in seen}
