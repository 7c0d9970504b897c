"""Options and fixtures of all tests."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden expositions instead of comparing with them")


def tool(name: str, package: str) -> str:
    """The path of a program; where it is missing, CI fails and others skip."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if not found:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed, and CI needs it")
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


def parsed_arguments(command: str, *arguments: str) -> dict[str, Any]:
    """What the real command line makes of them; raises click.UsageError."""
    from exporter.cli import main

    # With the parent that it has in life: click keeps the help option that it makes first.
    parent = main.context_class(main, info_name="inferlog", **main.context_settings)
    return main.commands[command].make_context(command, list(arguments), parent=parent).params


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool."""
    return tool("promtool", "prometheus")


@pytest.fixture(scope="session")
def amtool() -> str:
    """The path of amtool."""
    return tool("amtool", "prometheus-alertmanager")
