"""Compiles that nobody told of: seen in a cache directory, or as a compiler that ran."""

from typing import NamedTuple


class CacheSighting(NamedTuple):
    """A compiled kernel appeared in a JIT cache."""

    backend: str
    kernel: str
    """Its name or its hash; not for a label."""
    at: float
    """Epoch."""


class CompilerSighting(NamedTuple):
    """A compiler started that no other compiler had started."""

    at: float
    """Epoch."""


class CompilerBurst(NamedTuple):
    """Compilers ran, one or several at a time, and then none for a while."""

    began: float
    ended: float
    """Both epoch, to about a second."""


Sighting = CacheSighting | CompilerSighting | CompilerBurst
