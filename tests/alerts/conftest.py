"""Fixtures of the exporter's tests that these need, too."""

from tests.exporter.conftest import run as run  # noqa: PLC0414 - a fixture
