"""The literals that rules rest on, looked for in a release: living, gone, or nearly there in another wording."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from exporter.drift.native_source import literals
from exporter.drift.native_source import strings as native_strings
from exporter.drift.python_source import ALARMING, Call, calls_of
from exporter.drift.python_source import strings as python_strings
from exporter.drift.release import BINARY, NATIVE, PYTHON, Release
from exporter.drift.shapes import compared, plain
from exporter.drift.signals import of_package, package_of
from parsers.rules import Rule, registry

_NEAR = 0.72
_SHARED_WORDS = 0.5
_SHORTEST_WORD = 3
_WORD = re.compile(r"[A-Za-z_]{3,}")
_NATIVE_PACKAGES = ("nixl", "tilelang", "triton", "deep-gemm", "deepgemm", "aibrix", "llm-d", "sglang-router", "flashinfer")
_MODULES = (
    (re.compile(r"vllm(?:-cpu)?$"), ("parsers.vllm.",)),
    (re.compile(r"sglang$"), ("parsers.sglang.",)),
    (re.compile(r"nixl"), ("parsers.nixl.",)),
    (re.compile(r"tilelang$"), ("parsers.jit.tilelang",)),
    (re.compile(r"triton$|pytorch-triton"), ("parsers.jit.triton",)),
    (re.compile(r"flashinfer"), ("parsers.jit.flashinfer",)),
    (re.compile(r"deep-?gemm"), ("parsers.jit.deepgemm",)),
    (re.compile(r"aiter"), ("parsers.jit.rocm",)),
    (re.compile(r"torch$"), ("parsers.jit.inductor",)),
    (re.compile(r"aibrix"), ("parsers.gateway.aibrix",)),
    (re.compile(r"llm-d"), ("parsers.gateway.llm_d",)),
    (re.compile(r"sglang-router$|smg$"), ("parsers.gateway.sglang_router",)),
)
"""Whose wording the rules of a module rest on."""


@dataclass(frozen=True)
class Literal:
    """One literal of a rule, and what is left of it: the nearest wording of the release when it is gone."""

    text: str
    living: bool
    nearest: str = ""


@dataclass(frozen=True)
class RuleState:
    """A rule and its literals in one release."""

    rule: Rule
    literals: tuple[Literal, ...]
    expected: bool
    """Whether the rule's versions hold this release."""
    supported: bool
    """Whether it makes a signal of the compatibility page."""

    @property
    def living(self) -> bool:
        return any(each.living for each in self.literals)


@dataclass
class Comparison:
    """All rules about a release, and what it prints that none of them knows."""

    release: Release
    rules: list[RuleState] = field(default_factory=list)
    unknown: list[Call] = field(default_factory=list)

    @property
    def broken(self) -> list[RuleState]:
        """Rules of supported signals that hold for this release by their versions, and for nothing in it."""
        return [each for each in self.rules if each.supported and each.expected and not each.living]


def compare(release: Release) -> Comparison:
    """Read the release once and look for every rule's literals."""
    by_file: dict[str, list[str]] = {}
    printed = [call for found in calls_of(release).values() for call in found]
    for member in release.members(PYTHON):
        by_file[member.path] = list(python_strings(member.text))
    for call in printed:
        by_file[call.path].append(plain(call.shape))
    for member in release.members(NATIVE):
        by_file[member.path] = list(literals(member.text))
    if release.name.startswith(_NATIVE_PACKAGES):
        for member in release.members(BINARY):
            by_file[member.path] = list(native_strings(member.data))
    rules = rules_about(release.name)
    wanted = {compared(text) for rule in rules for text in rule.source}
    # NUL never stands in what is joined, but as the mark of a value.
    texts = {path: "\1".join(strings) for path, strings in by_file.items()}
    found = {literal: [path for path, text in texts.items() if literal in text] for literal in wanted}
    comparison = Comparison(release)
    candidates = _Nearest(plain(call.shape) for call in printed)
    events = {event for signal in of_package(package_of(release.name)) for event in signal.events}
    for rule in rules:
        states = []
        expected = holds_for(rule, release.version)
        for text in rule.source:
            living = bool(found[compared(text)])
            states.append(Literal(text, living, "" if living or not expected else candidates.of(compared(text))))
        comparison.rules.append(RuleState(rule, tuple(states), expected, bool(events & _made(rule))))
    ours = {compared(text) for state in comparison.rules if state.supported for text in state.rule.source}
    watched = {path for literal in ours if len(found[literal]) < _EVERYWHERE for path in found[literal]}
    known = tuple(wanted)
    for call in printed:
        if call.path in watched and call.level in ALARMING and not any(literal in plain(call.shape) for literal in known):
            comparison.unknown.append(call)
    return comparison


_EVERYWHERE = 8
"""A literal that stands in so many files tells of none."""


def holds_for(rule: Rule, version: str) -> bool:
    """Whether a rule's own bounds hold a version; an unknown one is the newest."""
    at, since, until = numbers(version), numbers(rule.since), numbers(rule.until)
    if not at:
        return not until
    return since <= at and (not until or at[: len(until)] <= until)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, to compare."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def rules_about(package: str) -> list[Rule]:
    """The rules that rest on what a distribution prints."""
    return [each for each in registry() if each.source and _about(each, package)]


def _about(rule: Rule, package: str) -> bool:
    module = rule.build.__module__
    return any(pattern.match(package) and module.startswith(modules) for pattern, modules in _MODULES)


def _made(rule: Rule) -> set[str]:
    """The names of the events that a rule makes, by its annotation."""
    returned = rule.build.__annotations__.get("return")
    return {each.__name__ for each in getattr(returned, "__args__", (returned,)) if isinstance(each, type)}


class _Nearest:
    """Finds the shape of a release that shares most words with a literal."""

    def __init__(self, shapes: Iterable[str]) -> None:
        self._by_word: dict[str, set[str]] = {}
        for shape in shapes:
            for word in set(_words(shape)):
                self._by_word.setdefault(word, set()).add(shape)

    def of(self, literal: str) -> str:
        """The nearest wording, "" when none is near."""
        words = set(_words(literal))
        counts: dict[str, int] = {}
        for word in words:
            for shape in self._by_word.get(word, ()):
                counts[shape] = counts.get(shape, 0) + 1
        near = sorted((shape for shape, count in counts.items() if count >= _SHARED_WORDS * len(words)), key=lambda shape: -counts[shape])[
            :50
        ]
        rated = [(ratio(literal, shape), shape) for shape in near]
        best, shape = max(rated, default=(0.0, ""))
        return shape if best >= _NEAR else ""


def _words(text: str) -> Iterator[str]:
    return (word.lower() for word in _WORD.findall(text))


def ratio(literal: str, shape: str) -> float:
    """How much of a literal stands in a shape, in its order: 1 is all of it."""
    matcher = SequenceMatcher(None, literal, shape[: 4 * len(literal) + 200], autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks() if block.size >= _SHORTEST_WORD) / max(len(literal), 1)
