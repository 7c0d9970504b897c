"""The true cause of each saved log comes first, and a healthy log has no finding."""

import re

import pytest

from exporter.analysis.advice import advice
from exporter.analysis.analyze import analyze
from exporter.analysis.findings import ROWS
from exporter.analysis.inputs import saved_logs
from exporter.analysis.report import Report
from tests.conftest import DATA

FIRST: dict[str, tuple[str, str] | None] = {
    # captured from real runs
    "vllm-0.26/captured-pd-prefill-tp2": ("critical", "InferlogKVReadAfterExpiry"),
    "vllm-0.32/captured-bad-model": ("critical", "InferlogEngineStartFailed"),
    "vllm-0.32/captured-json-config-cri": None,
    "vllm-0.32/captured-json-worker-killed": ("critical", "InferlogEngineDead"),
    "vllm-0.32/captured-ngram": None,
    "vllm-0.32/captured-pd-decode": ("critical", "InferlogPDTransportFailing"),
    "vllm-0.32/captured-pd-decode-prefill-killed": ("critical", "InferlogPDTransportFailing"),
    "vllm-0.32/captured-pd-decode-proven": None,
    "vllm-0.32/captured-pd-decode-silent-recompute": ("warning", "InferlogPDPartial"),
    "vllm-0.32/captured-pool-too-small": ("critical", "InferlogEngineStartFailed"),
    "vllm-0.32/captured-pty-requests": None,
    "vllm-0.32/captured-serve": None,
    "sglang_router-0.3.2/captured-no-workers": None,
    # reported in public
    "vllm-0.21/field-jit-two-hours-after-ready": ("critical", "InferlogJitAfterReady"),
    "vllm-0.20/field-last-words-are-jit": ("critical", "InferlogJitAfterReady"),
    "vllm-0.11/field-late-read": ("critical", "InferlogKVReadAfterExpiry"),
    "vllm-0.11/field-engine-core-died": ("critical", "InferlogEngineDead"),
    "vllm-0.11/field-engine-id-mismatch": ("warning", "InferlogKVHandshakeFailures"),
    "vllm-0.13/field-recovered-and-failed": ("critical", "InferlogPDRecomputing"),
    "vllm-0.14/field-fatal-error-cut": ("critical", "InferlogEngineDead"),
    "sglang-0.5.5/field-empty-time-header": ("critical", "InferlogEngineDead"),
    "sglang-0.5.4/field-aborted-transfer": None,
    "vllm-0.18/field-first-request-after-ready": None,
    "vllm-0.21/field-external-hits-and-spec": None,
    # rendered by the engines' format code
    "vllm-0.26/rendered-crash-oom": ("critical", "InferlogEngineOutOfMemory"),
    "vllm-0.26/rendered-decode-nixl-hma-corruption": ("critical", "InferlogPDCorruptionRisk"),
    "vllm-0.26/rendered-decode-nixl-recovered": ("critical", "InferlogPDRecomputing"),
    "vllm-0.33/rendered-decode-nixl": ("critical", "InferlogPDRecomputing"),
    "vllm-0.33/rendered-prefill-nixl": ("critical", "InferlogKVReadAfterExpiry"),
    "vllm-0.33/rendered-combined-dspark": ("warning", "InferlogUnknownEnvironmentVariable"),
    "sglang-0.5.17/rendered-pd-mismatch": ("critical", "InferlogKVCompatibilityMismatch"),
    "sglang-0.5.17/rendered-failures": ("critical", "InferlogEngineOutOfMemory"),
    "sglang-0.5.17/rendered-batch-lines": None,
}


def report(name: str, **settings: str) -> Report:
    """On one log."""
    return analyze(saved_logs([str(DATA / f"{name}.log")], year=2026), **settings)


@pytest.mark.parametrize("name", FIRST)
def test_the_cause_comes_first(name: str) -> None:
    """In the words of the alert."""
    findings = report(name).findings
    assert ((findings[0].severity, findings[0].alert) if findings else None) == FIRST[name]


def test_each_captured_log_is_in_the_table() -> None:
    """A new one must be judged by hand."""
    captured = {str(path.relative_to(DATA).with_suffix("")) for path in DATA.glob("*/captured-*.log")}
    assert captured <= FIRST.keys()


def test_who_knows_the_role_gets_the_sharper_answer() -> None:
    """A decode engine that must not compute prompts, and does for a minute."""
    findings = report("vllm-0.32/captured-pd-decode-silent-recompute", pd_role="decode", pd_expect="all").findings
    assert (findings[0].severity, findings[0].alert) == ("critical", "InferlogPDRouterBypass")


def test_evidence_has_counts_times_and_lines() -> None:
    """Of the death of prefill, as a person finds them in the file."""
    told = report("vllm-0.32/captured-pd-decode")
    found = next(each for each in told.findings if each.alert == "InferlogKVTransferFailures")
    lines = (DATA / "vllm-0.32/captured-pd-decode.log").read_bytes().decode().split("\n")
    by_reason = {each.text.split()[-1]: each for each in found.evidence}
    for reason, words in (("transfer_exception", "failed_transfer|transfer_exception"), ("notification", "notification_failed|notif")):
        numbers = [number for number, line in enumerate(lines, 1) if re.search(rf"NIXL transfer failure: \S*({words})", line)]
        each = by_reason[reason]
        assert (each.count, each.first.line, each.last.line) == (4, numbers[0], numbers[-1])
        assert each.first.time == each.last.time == 1795957991.0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.alert)
def test_each_row_has_an_alert_with_a_runbook(row) -> None:
    """That says why it matters, how sure it is, and what to do first."""
    words = advice(row.alert)
    assert all((words.title, words.why, words.sure, words.steps))
    assert all("\n" not in text for text in (words.why, words.sure, *words.steps))
