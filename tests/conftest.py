"""Options and fixtures of all tests."""

import os
import shutil
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the golden expositions instead of comparing with them")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool; where it is missing, CI fails and others skip."""
    found = shutil.which("promtool")
    if not found:
        if os.environ.get("CI"):
            pytest.fail("promtool is not installed, and CI needs it")
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    return found
