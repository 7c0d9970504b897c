"""vLLM's line of speculative decoding, right after the periodic line of the same engine."""

import re

from parsers.events import SpecInterval
from parsers.rules import Series, rule
from parsers.units import PERCENT

_EMITS = (Series("spec_drafts_total"), Series("spec_draft_tokens_total"), Series("spec_accepted_tokens_total"))


@rule(
    anchor="SpecDecoding metrics: ",
    pattern=(
        r"SpecDecoding metrics: Mean acceptance length: (\d+\.\d+|nan), Accepted throughput: [\d.]+ tokens/s, "
        r"Drafted throughput: [\d.]+ tokens/s, Accepted: (\d+) tokens, Drafted: (\d+) tokens, "
        r"Per-position acceptance rate: ([\d.an, ]{0,512})Avg Draft acceptance rate: (\d+\.\d+|nan)%"
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
