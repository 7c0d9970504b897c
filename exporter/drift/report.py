"""What `inferlog drift` prints."""

from collections.abc import Iterator

from exporter.drift.compare import Comparison, RuleState
from exporter.drift.shapes import readable, written

_LONGEST = 200


def report(comparison: Comparison, *, every: bool = False) -> Iterator[str]:
    """Lines for people: what is gone and what is new; with `every` the living rules, too, and those of other versions."""
    release = comparison.release
    expected = [each for each in comparison.rules if each.expected]
    living = [each for each in expected if each.living]
    yield f"{release.name} {release.version}: {len(living)} of {len(expected)} rules for this version have a literal that lives"
    broken = comparison.broken
    for state in broken:
        yield from _rule("BROKEN", state)
    for state in expected:
        if state not in broken and not state.living:
            yield from _rule("gone", state)
    for state in comparison.rules:
        if not state.expected and state.living:
            yield f"  {'outside':8} {state.rule.name}: its literals live here, though its versions are {_bounds(state)}"
        elif every and state.living:
            yield from _rule("living", state)
    if comparison.unknown:
        yield f"  {len(comparison.unknown)} warnings and errors of watched files that no rule knows:"
        for call in sorted(comparison.unknown, key=lambda call: call.path):
            yield f"    {call.path} {call.level}: {written(call.shape)[:_LONGEST]!r}"


def _rule(word: str, state: RuleState) -> Iterator[str]:
    yield f"  {word:8} {state.rule.name} ({state.rule.build.__module__}, {_bounds(state)})"
    for literal in state.literals:
        if literal.living:
            yield f"           lives  {literal.text!r}"
        elif literal.nearest:
            yield f"           nearly {literal.text!r}"
            yield f"             now  {readable(literal.nearest)[:_LONGEST]!r}"
        else:
            yield f"           gone   {literal.text!r}"


def _bounds(state: RuleState) -> str:
    return f"{state.rule.since or 'any'} to {state.rule.until or 'any'}"
