"""The other witnesses' word as an engine's state takes it."""

from collections.abc import Iterator
from dataclasses import replace

from exporter.clock import EventClock
from exporter.counters import Counters, Sample
from exporter.evidence.engine_metrics import EngineReading
from exporter.evidence.engine_window import EngineWindow, Interval, engine_checks, failures, local_ratio
from exporter.evidence.rdma import RdmaReading
from exporter.evidence.rdma_window import RdmaWindow
from exporter.evidence.sightings import CacheSighting, CompilerBurst, Sighting
from exporter.evidence.silent_jit import SilentJit
from exporter.evidence.witnessed import Witnessed
from exporter.jit import JitLedger
from exporter.lifecycle import LifeCycle
from exporter.pd_evidence import PdEvidence
from exporter.verdict import PdSettings
from parsers.header import NOBODY, UNKNOWN_LEVEL, Head

Finding = EngineReading | RdmaReading | Sighting


class EngineWitnesses:
    """What they found about one engine. A new process of it begins with nothing but the counters."""

    STATE = ("metrics", "silent_jit", "rdma", "tokens_at")

    def __init__(self, counters: Counters) -> None:
        self.metrics = EngineWindow(counters)
        self.silent_jit = SilentJit(counters)
        self.rdma = RdmaWindow()
        self.tokens_at: float | None = None
        """When (epoch) the log last told of generated tokens, or of what stands for them: a prefill batch, or an answer without stats."""

    def restart(self) -> None:
        """Another engine process."""
        self.metrics.restart()
        self.rdma.restart()
        self.tokens_at = None

    def take(self, found: Finding, evidence: PdEvidence, *, counts_preemptions: bool) -> None:
        """A reading."""
        if isinstance(found, RdmaReading):
            self.rdma.take(found)
        elif isinstance(found, EngineReading):
            since = self.metrics.take(found, counts_preemptions=counts_preemptions)
            evidence.engine_metrics(transfers=since.get("transfers", 0.0), failures=failures(since))

    def are_of_a_stall(self, last: EngineReading) -> bool:
        """Whether the engine's figures, of which these came last, are those of one that should work and does not."""
        return self.metrics.is_stalled(last.at, self.tokens_at)

    def compiled(self, found: Sighting, life: LifeCycle, jit: JitLedger, clock: EventClock) -> None:
        """A compile, in the phase in which it was; one that counts is part of an incident as a line would be."""
        at = found.began if isinstance(found, CompilerBurst) else found.at
        ready = clock.epoch(life.ready) if life.ready else None
        phase = "startup" if ready is not None and life.started and at < ready else life.phase
        told = {labels: when for labels, head in jit.last.items() if (when := clock.epoch(head)) is not None}
        if backend := self.silent_jit.take(found, phase, told):
            kernel = found.kernel if isinstance(found, CacheSighting) else ""
            jit.incidents.compiled(backend, "compile", kernel, phase, Head(NOBODY, UNKNOWN_LEVEL, at + clock.zone))

    def witnessed(self, now: float | None, log_now: float | None, transports: list[str], settings: PdSettings) -> Witnessed:
        """What holds at this moment; nothing for a saved log, which has no clock and no other witness."""
        if now is None:
            return Witnessed()
        found = self._of_figures(self.metrics.window(now), settings)
        return replace(
            found,
            works=self.metrics.works(now),
            checks={**found.checks, "rdma_growing": self.rdma.status(now, log_now, transports)},
            newest=self._of_figures(self.metrics.window(now, 1), settings) if found.checks else None,
        )

    def recalled(self, settings: PdSettings) -> Witnessed | None:
        """What held before a restart of ours and still stands; None when there is nothing such."""
        told = self.metrics.recalled
        return self._of_figures(told, settings) if told else None

    @staticmethod
    def _of_figures(told: Interval, settings: PdSettings) -> Witnessed:
        return Witnessed(engine_checks(told, settings), told.get("transfers", 0.0), failures(told), local_ratio(told))

    def last_compiles(self, told: dict[tuple[str, str], float]) -> Iterator[Sample]:
        """When the last compile was, by the log or by another witness."""
        last = self.silent_jit.last
        for labels in told.keys() | last.keys():
            yield Sample("jit_last_event_timestamp_seconds", labels, max(each[labels] for each in (told, last) if labels in each))
