"""Logs in which one wording of the engine is another."""

import re
from pathlib import Path

from exporter import saved
from exporter.drift.compare import _made
from exporter.drift.signals import of_package
from parsers.rules import registry

DATA = Path(__file__).parent.parent / "data"
_SLOT = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]|%%|\{[^{}]*\}")
_WORD = re.compile(r"[A-Za-z]{3,}")
_OF_LINES = {"format_drift", "log_lines_total", "unrecognised_lines_total", "rule_errors_total", "engine_start_timestamp_seconds"}


def watched(runtime):
    """The rules behind the signals of the compatibility page."""
    events = {event for signal in of_package(runtime) for event in signal.events}
    return [rule for rule in registry() if rule.runtime == runtime and _made(rule) & events and rule.source]


def longest(literal):
    """The longest piece of a literal that stands in a line as it is."""
    return max(_SLOT.split(literal), key=len)


def reworded(piece, how):
    """The same in other words: all of them, or only one."""
    words = list(_WORD.finditer(piece))
    chosen = {"all": words, "first": words[:1], "last": words[-1:]}[how]
    for word in reversed(chosen):
        piece = piece[: word.start()] + "Q" + word[0][::-1].lower() + piece[word.end() :]
    return piece


def read(text, path):
    """What a log tells: its series, the signals that drifted, and the warnings and errors that nobody knew."""
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    source = saved.open_source(str(path), "x")
    for _ in saved.read(str(path), source):
        pass
    samples = [sample for snapshot in saved.snapshots(source) for sample in snapshot.samples]
    drifted = {sample.labels[0] for sample in samples if sample.family == "format_drift" and sample.value}
    unknown = sum(sample.value for sample in samples if sample.family in ("unrecognised_lines_total", "rule_errors_total"))
    told = {
        (sample.family, sample.labels, sample.value) for sample in samples if sample.family not in _OF_LINES and sample.labels != ("total",)
    }
    return told, drifted, unknown
