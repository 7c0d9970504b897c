"""Fixtures of tests with real programs."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.alerts.servers import Pager, Start, started
from tests.exporter.conftest import run as run  # noqa: PLC0414 - a fixture


@pytest.fixture
def pager() -> Iterator[Pager]:
    """A webhook."""
    found = Pager()
    yield found
    found.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start programs, and end them."""
    with ExitStack() as processes:
        yield partial(started, tmp_path, processes)
