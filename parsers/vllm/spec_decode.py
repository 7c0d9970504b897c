"""vLLM's line of speculative decoding, right after the periodic line of the same engine."""

import re

from parsers.events import SpecInterval, SpecTotals
from parsers.rules import Series, rule
from parsers.units import PERCENT

_EMITS = (Series("spec_drafts_total"), Series("spec_draft_tokens_total"), Series("spec_accepted_tokens_total"))


@rule(
    anchor="SpecDecoding metrics: ",
    pattern=(
        r"SpecDecoding metrics: Mean acceptance length: (\d{1,9}+\.\d{1,9}+|nan), Accepted throughput: [\d.]{1,32}+ tokens/s, "
        r"Drafted throughput: [\d.]{1,32}+ tokens/s, Accepted: (\d{1,15}+) tokens, Drafted: (\d{1,15}+) tokens, "
        r"Per-position acceptance rate: ((?:\d\.\d{1,9}+, |nan, ){1,96}|, )Avg Draft acceptance rate: (\d{1,9}+\.\d{1,9}+|nan)%"
    ),
    source="SpecDecoding metrics: Mean acceptance length: %.2f",
    samples={
        "0.26.0": "SpecDecoding metrics: Mean acceptance length: 3.09, Accepted throughput: 54.40 tokens/s, Drafted throughput: 130.00 tokens/s, "
        "Accepted: 544 tokens, Drafted: 1300 tokens, Per-position acceptance rate: 0.773, 0.577, 0.377, 0.235, 0.131, "
        "Avg Draft acceptance rate: 41.8%",
    },
    since="0.10",
    emits=_EMITS,
)
def spec_interval(found: re.Match[str]) -> SpecInterval:
    """Token counts of the interval; the rates in the line use a time of their own and are left alone."""
    length, accepted, drafted, positions, ratio = found.groups()
    return SpecInterval(
        float(accepted),
        float(drafted),
        float(length),
        float(ratio) * PERCENT,
        tuple(map(float, positions[:-2].split(", "))) if len(positions) > 2 else (),  # noqa: PLR2004 - the last separator
    )


@rule(
    anchor="SpecDecoding metrics: Draft acceptance rate: ",
    pattern=(
        r"SpecDecoding metrics: Draft acceptance rate: (\d{1,9}\.\d{1,9}|nan)%, (?:Mean acceptance length: (\d{1,9}\.\d{1,9}|nan), )?"
        r"Accepted: (\d{1,15}) tokens, Drafted: (\d{1,15}) tokens"
        r"(?:, Per-position acceptance rate: (\d\.\d{1,9}(?:, \d\.\d{1,9}){0,63}))?"
    ),
    source=(
        "SpecDecoding metrics: Draft acceptance rate: %.1f%%, Accepted: %d tokens, Drafted: %d tokens",
        "SpecDecoding metrics: Draft acceptance rate: %.1f%%, Mean acceptance length: %.2f, Accepted: %d tokens, Drafted: %d tokens, ",
    ),
    samples={
        "0.8.3": "SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens",
        "0.8.5": "SpecDecoding metrics: Draft acceptance rate: 41.8%, Mean acceptance length: 3.09, Accepted: 544 tokens, Drafted: "
        "1300 tokens, Per-position acceptance rate: 0.773, 0.577, 0.377, 0.235, 0.131",
    },
    since="0.8",
    until="0.9",
    emits=_EMITS,
)
def first_spec_interval(found: re.Match[str]) -> SpecInterval:
    """The first V1 forms: at first no length and no positions."""
    ratio, length, accepted, drafted, positions = found.groups()
    rates = tuple(map(float, positions.split(", "))) if positions else ()
    return SpecInterval(float(accepted), float(drafted), float(length) if length else None, float(ratio) * PERCENT, rates)


@rule(
    anchor="Speculative metrics: ",
    pattern=(
        r"Speculative metrics: Draft acceptance rate: (\d{1,9}\.\d{1,9}|nan),[^\n]{0,200}? Number of accepted tokens: (\d{1,15}), "
        r"Number of draft tokens: (\d{1,15})"
    ),
    source=("Speculative metrics: Draft acceptance rate: %.3f", "Number of accepted tokens: %d", "Number of draft tokens: %d"),
    samples={
        "0.6.3": "Speculative metrics: Draft acceptance rate: 0.642, System efficiency: 0.598, Number of speculative tokens: 3, "
        "Number of accepted tokens: 8547, Number of draft tokens: 13311, Number of emitted tokens: 10616.",
    },
    until="0.9",
    emits=_EMITS,
)
def v0_spec_totals(found: re.Match[str]) -> SpecTotals:
    """The V0 engine's totals since its start; the rate is a fraction."""
    return SpecTotals(float(found[2]), float(found[3]), float(found[1]))
