"""What other witnesses than the log say about a pair: statuses of checks, and how they go together with the log's."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_OF_TRANSFERS = frozenset({"transfers_growing", "local_prefill_low"})

_FAILURE_STANDS = frozenset({"no_transfer_failure", "rdma_growing"})
"""Checks in which a failure that one of them saw is one, whatever the other did not see."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """At one moment; a check that nobody but the log tells of is absent, one that they saw and cannot decide unknown."""

    checks: Mapping[str, str] = field(default_factory=dict)
    transfers: float = 0.0
    failures: float = 0.0
    local_ratio: float | None = None
    """Share of the prompt tokens that the engine computed itself."""
    works: bool = False
    """Whether it generated tokens not long ago."""
    newest: "Witnessed | None" = None
    """The same by the newest interval with requests alone, where it is known."""

    def beside(self, log: Mapping[str, str]) -> "Witnessed":
        """What counts where the log's window has no transfer any more: the witness's, which ends elsewhere, may still begin before the last."""
        if self.newest is None or log["transfers_growing"] != "fail":
            return self
        kept = {check: status for check, status in self.checks.items() if check not in _OF_TRANSFERS}
        newest = {check: status for check, status in self.newest.checks.items() if check in _OF_TRANSFERS}
        return replace(self, checks=kept | newest, transfers=self.newest.transfers)

    def joined(self, log: Mapping[str, str]) -> dict[str, str]:
        """The log's checks with these. Worse counts at once; who says that a check passes does not overrule a failure."""
        if not self.checks:
            return dict(log)
        return {check: _joined(check, status, self.checks.get(check)) for check, status in log.items()}

    def contradicts(self, log: Mapping[str, str]) -> bool:
        """Whether the log says that a check fails which these pass: then nothing is proven."""
        return any(status == "fail" and self.checks.get(check) == "pass" for check, status in log.items())


def _joined(check: str, log: str, witness: str | None) -> str:
    if witness is None or (witness == "unknown" and log == "fail"):
        return log
    if log == "fail" and witness == "pass":
        return "fail" if check in _FAILURE_STANDS else "unknown"  # they contradict each other
    return witness
