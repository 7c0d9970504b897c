"""A bypass of prefill in hindsight: the role of an engine may be untold, and still all of its KV came from elsewhere until none did."""

from exporter.analysis.marks import Place
from exporter.analysis.watch import VerdictPeriod, Watch

SURE = (
    "Middling: KV came for every prompt until it came for none, without a failed transfer. That is what a router does that sends requests "
    "straight to decode, by a fault or on purpose (short prompts, cached prefixes), and the log does not tell whether each prompt must come "
    "by transfer. Make it certain with --pd-role decode --pd-expect all: where it was a bypass it is critical then; with --pd-expect mixed "
    "it is no finding."
)

_COMPUTED_HERE = frozenset({"local_prefill_low", "transfers_growing"})
_OTHER_CAUSES = frozenset({"no_transfer_failure", "no_recompute", "compatibility", "kv_in_time"})
_TROUBLE = frozenset({"corruption_risk", "recomputing", "never_connected", "transport_failing"})
_LONGEST_TURN_SECONDS = 60.0
"""A window is two intervals that served requests: for no longer both kinds of them are in it while one follows the other."""


def stretches(watch: Watch) -> list[tuple[Place, Place]]:
    """From where to where all prompts were computed here, though before all KV had come; none of an engine that does both at a time."""
    periods = list(watch.verdict_periods())
    turns = _turns(periods)
    if watch.engine.pair.expect == "mixed" or any(each.verdict == "partial" and at not in turns for at, (each, _) in enumerate(periods)):
        return []
    return [
        (periods[at - 1][0].since if at - 1 in turns else period.since, end)
        for at, (period, end) in enumerate(periods)
        if _is_direct(period) and period.verdict != "router_bypass" and _worked_before(periods, at)
    ]


def turns(watch: Watch) -> list[VerdictPeriod]:
    """The times of a mixture that are how a bypass began or ended."""
    periods = list(watch.verdict_periods())
    return [periods[at][0] for at in _turns(periods)] if any(_is_direct(each) for each, _ in periods) else []


def _turns(periods: list[tuple[VerdictPeriod, Place]]) -> set[int]:
    found = set()
    for at, (period, end) in enumerate(periods):
        beside = [each for each, _ in (*periods[max(0, at - 1) : at], *periods[at + 1 : at + 2])]
        short = (end.time or 0.0) - (period.since.time or 0.0) <= _LONGEST_TURN_SECONDS
        if period.verdict == "partial" and short and any(map(_is_direct, beside)):
            found.add(at)
    return found


def _is_direct(period: VerdictPeriod) -> bool:
    """Whether whole prompts were computed and no KV came, and nothing but the requests can be why."""
    if period.verdict == "router_bypass":
        return True
    failing = frozenset(period.failing)
    return period.verdict == "unproven" and failing >= _COMPUTED_HERE and not failing & _OTHER_CAUSES


def _worked_before(periods: list[tuple[VerdictPeriod, Place]], at: int) -> bool:
    """Whether the pair was proven to work, and nothing failed since."""
    before = [period.verdict for period, _ in periods[:at]]
    proven = len(before) - before[::-1].index("proven") if "proven" in before else None
    return proven is not None and not _TROUBLE & set(before[proven:])
