"""Fixtures of the tests about saved logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analysis.browser import Page, page
from tests.conftest import tool


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Page]:
    """A page of a real browser."""
    with page(tool("chromium", "chromium"), tmp_path / "profile") as opened:
        yield opened
