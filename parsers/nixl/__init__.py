"""NIXL and the transports under it, outside the engine's own records."""

from parsers.nixl import native as native
from parsers.nixl import warnings as warnings
