"""References that can rot are generated, and the README's words are true."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _generator() -> object:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page",
    ["metrics.md", "signals.md", "cli.md", "alerts.md", "analyze.schema.json", "compatibility.md", "../parsers/vllm/wordings.json"],
)
def test_reference_is_in_step_with_the_code(page: str) -> None:
    """`make docs` would change nothing."""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == _generator().PAGES[page]()


def test_readme_names_both_commands_and_only_files_that_exist() -> None:
    """What the README points to is there."""
    import re

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", readme):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", ["docs/threat-model.md", "SECURITY.md"])
def test_pages_about_security_name_only_files_that_exist(page: str) -> None:
    """Links, and the tests that prove a claim."""
    import re

    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target
    for target in re.findall(r"`(tests/[\w./]+)`", text):
        assert (ROOT / target).exists(), target


def test_the_threat_models_numbers_are_the_codes() -> None:
    """Each bound as it is in force."""
    from exporter import counters, daemon, limits
    from parsers.log import CONTAINERS

    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    for words in (
        f"| {limits.MOST_CONNECTIONS}, with TLS {limits.MOST_TLS_CONNECTIONS}; of the address",
        f"| {limits.LONGEST_SECONDS:.0f} s |",
        f"| headers | {limits.MOST_HEADER_BYTES // 1024} KiB |",
        f"| body | {limits.MOST_BODY_BYTES // 1024} KiB by its length",
        f"{counters.SERIES_LIMIT:,} series a family",
        f"{CONTAINERS} sub-sources",
        f"{daemon.MOST_OPEN} files held open",
    ):
        assert words in text, words


def test_readme_metrics_exist() -> None:
    """Every family that the README names is one that the code knows."""
    import re

    from exporter.families import FAMILIES, PREFIX

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"{PREFIX}(\w+)", readme))
    assert named <= FAMILIES.keys() | {"build_info"}
