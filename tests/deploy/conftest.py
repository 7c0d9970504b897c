"""Daemons for the tests of what is deployed."""

from tests.exporter.conftest import run

__all__ = ("run",)
