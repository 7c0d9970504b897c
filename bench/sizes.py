"""How much is measured."""

from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True)
class Sizes:
    """Bytes, seconds and repetitions; as they stand some twelve minutes on a quiet machine."""

    typical: int = 400 * MB
    dense: int = 200 * MB
    captured: int = 200 * MB
    hostile: int = 200 * MB
    spikes: int = 60 * MB
    wrapped: int = 100 * MB
    backlog: int = 2_000 * MB
    linear: int = 80 * MB
    runs: int = 3
    trials: int = 200
    idle_seconds: int = 60
    scrapes: int = 200
    node_seconds: int = 20
    starts: int = 7


QUICK = Sizes(
    typical=60 * MB, dense=30 * MB, captured=30 * MB, hostile=60 * MB, spikes=20 * MB, wrapped=40 * MB, backlog=300 * MB, linear=20 * MB,
    runs=1, trials=40, idle_seconds=10, scrapes=40, node_seconds=5, starts=3,
)  # fmt: skip
"""About two minutes."""
