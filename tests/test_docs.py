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


@pytest.mark.parametrize("page", ["metrics.md", "signals.md", "cli.md", "alerts.md"])
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


def test_readme_metrics_exist() -> None:
    """Every family that the README names is one that the code knows."""
    import re

    from exporter.families import FAMILIES, PREFIX

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"{PREFIX}(\w+)", readme))
    assert named <= FAMILIES.keys() | {"build_info"}
