"""What the witnesses of a source found, until the thread that owns its state takes it."""

from collections import Counter, deque
from collections.abc import Iterator

from exporter.counters import Sample
from exporter.evidence.engine_metrics import REASONS, EngineReading
from exporter.evidence.engine_side import Finding

_MOST = 10_000


class Mailbox:
    """Of one source; `put` may be called from any thread. What nobody takes for long is dropped, the oldest first."""

    STATE = ("failures",)

    def __init__(self) -> None:
        self._found: deque[Finding] = deque(maxlen=_MOST)
        self.failures: dict[str, int] = {}
        """Readings of the engine's metrics that came to nothing, by reason."""
        self.engine: EngineReading | None = None
        """The last reading of them."""
        self.asks_engine = False
        """Whether the source has an address of them."""
        self.seen_by: list[str] = []
        """What looks for compiles of the source, by the label's values."""

    def put(self, found: Finding) -> None:
        """Leave something."""
        self._found.append(found)

    def take(self) -> list[Finding]:
        """All that was left."""
        found = [self._found.popleft() for _ in range(len(self._found))]
        readings = [each for each in found if isinstance(each, EngineReading)]
        for reason, number in Counter(each.reason for each in readings if each.reason).items():
            self.failures[reason] = self.failures.get(reason, 0) + number
        if readings:
            self.engine = readings[-1]
        return found

    def samples(self) -> Iterator[Sample]:
        """Whether the engine tells about itself, and why it did not."""
        if self.asks_engine:
            yield Sample("engine_metrics_up", (), self.engine is not None and not self.engine.reason)
            for reason in REASONS:
                yield Sample("engine_metrics_failures_total", (reason,), self.failures.get(reason, 0))
