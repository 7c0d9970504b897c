"""Every registered rule keeps the promises of a rule: anchor, sample, event, series, and a pattern that no line can stall."""

import re
import sys
import time
from collections import Counter
from itertools import product
from re import _constants as ops
from re import _parser
from typing import get_args

import pytest

import parsers  # noqa: F401 - fills the registry
from exporter.families import FAMILIES
from parsers.events import Event, Nothing
from parsers.lines import LINE_LIMIT
from parsers.rules import NUMBER_KEY, Scope, registry
from tests.parsers.reading import TAGGED, gateway_header, header, read

RULES = registry()
EXEMPT_FROM_AN_EVENT: frozenset[str] = frozenset(
    {
        "answer_unreadable",
        "bootstrap_hint",
        "client_erred",
        "crash_dump",
        "decoder_away",
        "gateway_settings",
        "native_aside",
        "prompt_refused",
        "proxy_routine",
        "reconciled_later",
        "request_failed",
        "request_logged",
        "request_quoted",
        "request_refused",
        "routine_of_connectors",
        "routine_of_requests",
        "routine_warning",
        "worker_not_joined",
        "worker_raised",
    }
)
"""Rules of warnings and errors that mean nothing of their own: they are known, so that what is not known stands out."""

MEGABYTE = 2**20
CPU_SECONDS = 0.1
"""Of one hostile line; linear patterns need a few milliseconds at most."""

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
every_sample = pytest.mark.parametrize(
    ("rule", "sample"),
    [pytest.param(rule, sample, id=f"{rule.name}-{version}") for rule in RULES for version, sample in rule.samples.items()],
)


def _starts_with(anchor: str, text: str) -> bool:
    """Whether the text begins with the anchor, whose leading # stands for a number."""
    if anchor[0] != NUMBER_KEY:
        return text.startswith(anchor)
    number = re.match(r"\d+", text)
    return bool(number) and text.startswith(anchor[1:], number.end())


def test_rules_are_registered():
    """Importing the package is enough to have rules of each subject."""
    assert {"interval_stats", "kv_cache_size", "jit_monitor", "nixl_failure", "spec_interval", "ready", "tilelang_compile"} <= {
        rule.name for rule in RULES
    }


def test_a_name_belongs_to_one_rule():
    """Self-metrics and the reference go by the name."""
    assert [name for name, count in Counter(rule.name for rule in RULES).items() if count > 1] == []


@every_rule
def test_a_rule_says_what_it_is(rule):
    """A rule has a sentence about itself, samples, and the engine's own literals as text."""
    assert rule.about
    assert rule.samples
    assert all(isinstance(literal, str) and literal for literal in rule.source)


@every_rule
def test_an_anchor_is_long_enough_to_dispatch_on(rule):
    """The dispatch goes by the first four characters."""
    assert rule.anchors
    assert [anchor for anchor in rule.anchors if len(anchor) < 4] == []


@every_sample
def test_a_sample_begins_with_an_anchor(rule, sample):
    """Else the dispatch would never try the rule on it."""
    assert any(_starts_with(anchor, sample) for anchor in rule.anchors)


@every_sample
def test_a_sample_makes_an_event(rule, sample):
    """The pattern matches at the sample's start and the match is worth an event."""
    found = rule.pattern.match(sample)
    assert found is not None
    event = rule.build(found)
    assert rule.name in EXEMPT_FROM_AN_EVENT or not isinstance(event, Nothing)
    assert isinstance(event, get_args(Event))


@every_sample
def test_a_sample_is_told_once_wherever_its_rule_may_stand(rule, sample):
    """Through a whole log, no other rule takes the line away and none adds to it."""
    expected = rule.build(rule.pattern.match(sample))
    tagged = rule.runtime == "sglang"
    lines = {
        Scope.RECORD: (TAGGED if tagged else header(level="WARNING")) + sample + "\n",
        Scope.CONTINUATION: f"{header()}\r\n{header()}{sample}\n",
        Scope.EXCEPTION: f"{header(level='ERROR')}Traceback (most recent call last):\r\n{header(level='ERROR')}{sample}\n",
        Scope.BARE: f"I714 03:20:11.402113     455 other.cc:685] {sample}\n",
        Scope.GATEWAY: f"{gateway_header(rule.runtime, level='W')}{sample}\n",
    }
    for scope, line in lines.items():
        if scope in rule.scope:
            assert read(line).told == [repr(expected)] * (not isinstance(expected, Nothing)), scope


@every_sample
def test_a_sample_is_no_unknown_warning(rule, sample):
    """What a rule knows does not stand out, whatever it is worth."""
    if Scope.GATEWAY in rule.scope:
        for level in "WE":
            assert not sum(read(f"{gateway_header(rule.runtime, level=level)}{sample}\n").log.unrecognised.values())
        return
    if rule.runtime == "sglang":
        known = read(f"{TAGGED}The server is fired up and ready to roll!\n{TAGGED}{sample}\n").log.unrecognised
        assert Scope.RECORD not in rule.scope or not sum(known.values())
        return
    for level in ("WARNING", "ERROR"):
        head = f"{header(level=level)}" if Scope.RECORD in rule.scope else f"{header(level=level)}Failed.\r\n{header(level=level)}"
        unrecognised = read(f"{head}{sample}\n").log.unrecognised
        assert sum(unrecognised.values()) == (Scope.RECORD not in rule.scope)


@every_rule
def test_a_rule_emits_counters_of_the_contract(rule):
    """Series that appear at 0 exist as counter families, with label names that the family has."""
    for series in rule.emits:
        assert series.family in FAMILIES
        assert FAMILIES[series.family].kind == "counter"
        assert set(series.labels) <= set(FAMILIES[series.family].labels)
        assert all(isinstance(value, str) and value for value in series.labels.values())


def test_a_rule_emits_a_series_once():
    """A series that a rule names twice would be a slip of the table."""
    for rule in RULES:
        series = [(each.family, *sorted(each.labels.items())) for each in rule.emits]
        assert len(series) == len(set(series)), rule.name


# -- patterns ----------------------------------------------------------------------------------------------------------


def _unbounded_in(tree, *, inside: bool = False) -> bool:
    """Whether an unbounded repeat contains another one that the matcher may backtrack into."""
    for op, value in tree:
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            _, most, body = value
            unbounded = most is ops.MAXREPEAT
            if (inside and unbounded) or _unbounded_in(body, inside=inside or unbounded):
                return True
        elif op in (ops.POSSESSIVE_REPEAT, ops.ATOMIC_GROUP):  # no way back in: what repeats inside is on its own
            if _unbounded_in(value[2] if op is ops.POSSESSIVE_REPEAT else value):
                return True
        elif op is ops.SUBPATTERN:
            if _unbounded_in(value[3], inside=inside):
                return True
        elif op is ops.BRANCH:
            if any(_unbounded_in(branch, inside=inside) for branch in value[1]):
                return True
        elif op in (ops.ASSERT, ops.ASSERT_NOT) and _unbounded_in(value[1], inside=inside):
            return True
    return False


def _nested(pattern: re.Pattern[str]) -> bool:
    return _unbounded_in(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE if pattern.flags & re.ASCII else pattern.flags))


def _module_patterns() -> dict[str, re.Pattern[str]]:
    """The patterns that the modules under parsers keep beside their rules."""
    patterns = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "parsers":
            for key, value in vars(module).items():
                for number, each in enumerate(value if isinstance(value, tuple) else (value,)):
                    parts = [each, *each] if isinstance(each, tuple) else [each]
                    patterns.update({f"{name}.{key}-{number}": part for part in parts if isinstance(part, re.Pattern)})
    return patterns


@pytest.mark.parametrize(
    ("pattern", "nested"),
    [
        (r"(a+)+b", True),
        (r"(?:a|b*)*c", True),
        (r"(?:(?:x{2,})y?)*", True),
        (r"(?:\w+,? ?)+$", True),
        (r"(?=(a+)+b)", True),
        (r"(?:a+?)*", True),
        (r"(?>a+)+b", False),
        (r"(?:a++,)*b", False),
        (r"(?:a+){1,4}", False),
        (r"(?:a{1,4})+", False),
        (r"a+b+", False),
        (r"[\d,]+", False),
    ],
)
def test_the_check_knows_nested_quantifiers(pattern, nested):
    """The check itself flags what can explode and lets atomic and bounded repeats pass."""
    assert _nested(re.compile(pattern)) is nested


@every_rule
def test_a_rule_has_no_nested_quantifiers(rule):
    """They can take exponential time on a line that nearly matches."""
    assert not _nested(rule.pattern)


@pytest.mark.parametrize(("name", "pattern"), sorted(_module_patterns().items()))
def test_a_helper_pattern_has_no_nested_quantifiers(name, pattern):
    """Headers, framings and the patterns inside rules face the same lines."""
    assert not _nested(pattern), name


def _chooses_in(tree, *, inside: bool = False) -> bool:
    """Whether a possessive group has an alternative or a look-around in it."""
    for op, value in tree:
        if op in (ops.BRANCH, ops.ASSERT, ops.ASSERT_NOT) and inside:
            return True
        if op is ops.BRANCH:
            parts, within = value[1], inside
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            parts, within = [value[2]], inside or op is ops.POSSESSIVE_REPEAT
        elif op is ops.SUBPATTERN:
            parts, within = [value[3]], inside
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            parts, within = [value[1]], False
        else:
            parts, within = [value] if op is ops.ATOMIC_GROUP else [], inside
        if any(_chooses_in(part, inside=within) for part in parts):
            return True
    return False


def _chooses(pattern: re.Pattern[str]) -> bool:
    return _chooses_in(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE if pattern.flags & re.ASCII else pattern.flags))


@pytest.mark.parametrize(
    ("pattern", "chooses"),
    [
        (r"(?:a|bc)*+", True),
        (r"(?:a(?!b))++", True),
        (r"(?:a(?:\.b|))?+", True),
        (r"(?:ab)*+c|d", False),
        (r"(?:a|b)*", False),
        (r"a++|b", False),
    ],
)
def test_the_check_knows_choices_in_possessive_groups(pattern, chooses):
    """Of single characters, the parser makes a set of alternatives: those are fine."""
    assert _chooses(re.compile(pattern)) is chooses


@every_rule
def test_a_possessive_group_has_no_choice(rule):
    """Python before 3.11.5 gives such a group up too early, so that a line is read in part."""
    assert not _chooses(rule.pattern)


@pytest.mark.parametrize(("name", "pattern"), sorted(_module_patterns().items()))
def test_a_possessive_group_of_a_helper_has_no_choice(name, pattern):
    """As in rules."""
    assert not _chooses(pattern), name


def _literals(tree) -> list[str]:
    """The runs of literal characters in a pattern."""
    runs, run = [], ""
    for op, value in tree:
        if op is ops.LITERAL:
            run += chr(value)
            continue
        runs, run = [*runs, run], ""
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            runs += _literals(value[2])
        elif op is ops.SUBPATTERN:
            runs += _literals(value[3])
        elif op is ops.BRANCH:
            runs += [each for branch in value[1] for each in _literals(branch)]
    return [each for each in (*runs, run) if each]


def _pieces(rule) -> list[str]:
    """What a hostile line repeats: the pattern's own literals, and what its classes are made of."""
    own = dict.fromkeys(_literals(_parser.parse(rule.pattern.pattern)))
    return [*own, "7", "1,", ",", " ", "'", '"', "''", "x", "A", "(", "{", "=", "'a': ", "-1.5e", "█ "]


def _starts(rule) -> list[str]:
    return [anchor.replace(NUMBER_KEY, "12", 1) if anchor[0] == NUMBER_KEY else anchor for anchor in rule.anchors]


@every_rule
def test_a_pattern_survives_a_megabyte_that_nearly_matches(rule):
    """An anchor and a megabyte of anything the pattern likes takes no noticeable time."""
    begun = time.process_time()
    lines = 0
    for start in (*_starts(rule)[:2], next(iter(rule.samples.values()))):
        for piece in _pieces(rule):
            text = start + piece * (MEGABYTE // len(piece))
            rule.pattern.match(text)
            lines += 1
    assert lines
    assert (time.process_time() - begun) / lines < CPU_SECONDS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_survives_the_longest_line(rule):
    """What a rule does with its match takes no noticeable time either, on a quarter of the longest line that it can get."""
    for sample in rule.samples.values():
        for joint, piece in product(("", ", "), _pieces(rule)):
            text = sample + joint + piece * (LINE_LIMIT // 4 // len(piece))
            begun = time.process_time()
            if found := rule.pattern.match(text):
                try:
                    rule.build(found)
                except (ValueError, ArithmeticError, LookupError, TypeError):
                    pass  # counted by the stream
            assert time.process_time() - begun < CPU_SECONDS, piece


def test_a_nested_transfer_line_that_never_closes_takes_no_time():
    """Statistics of several connectors are searched, not matched: their search has to be linear, too."""
    line = header() + "KV Transfer metrics: Connector={ {" + "a" * (LINE_LIMIT // 2) + "}\n"
    begun = time.process_time()
    read(line)
    assert time.process_time() - begun < CPU_SECONDS
