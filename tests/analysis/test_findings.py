"""The true cause of each saved log comes first, and a healthy log has no finding."""

import re
from pathlib import Path

import pytest

from exporter.analysis.advice import advice
from exporter.analysis.analyze import analyze
from exporter.analysis.findings import ROWS
from exporter.analysis.inputs import saved_logs
from exporter.analysis.report import Finding, Report
from tests.conftest import DATA
from tests.exporter.conftest import POST, READY, connector, core, failure, line, logo, stats, transfers

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
    "vllm-0.32/captured-pd-decode-silent-recompute": ("warning", "InferlogPDRouterBypass"),
    "vllm-0.32/captured-pd-recompute": ("critical", "InferlogPDRecomputing"),
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


def of_lines(tmp_path: Path, *lines: str, **settings: str) -> list[Finding]:
    """Those in a log that is written here."""
    path = tmp_path / "decode.log"
    path.write_text("".join(f"{each}\n" for each in lines))
    return list(analyze(saved_logs([str(path)], year=2026), **settings).findings)


def told(findings: list[Finding] | tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(each.severity, each.alert) for each in findings]


REFUSED = 'INFO:     10.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
DIED = line("AsyncLLM output_handler failed.", level="ERROR")


def test_errors_of_which_nothing_tells_the_cause(tmp_path: Path) -> None:
    """What the log says, and what it does not; where a cause is known they are evidence of that alone."""
    healthy = [logo("0.32.0"), core("0.32.0"), READY, POST, POST]
    [finding] = of_lines(tmp_path, *healthy, REFUSED, REFUSED, POST)
    assert (finding.severity, finding.alert, finding.first.line, finding.last.line) == ("warning", "InferlogRequestsFail", 6, 7)
    assert [(each.text, each.count) for each in finding.evidence] == [
        ("requests answered 5xx (3 answered 2xx), and no line that is known says why", 2)
    ]
    assert told(of_lines(tmp_path, *healthy, DIED, REFUSED)) == [("critical", "InferlogEngineDead")]
    assert told(of_lines(tmp_path, *healthy, REFUSED, DIED)) == [("critical", "InferlogEngineDead"), ("warning", "InferlogRequestsFail")]


FETCHED, COMPUTED, BOTH = (10, 0.0), (0, 300.0), (5, 300.0)
"""Of an interval: transfers, and tokens of prompts that were computed here each second."""


def pair(*intervals: tuple[int, float], role: str = "kv_both") -> list[str]:
    """A decode engine that serves ten requests in each of the intervals."""
    lines = [logo("0.32.0"), core("0.32.0"), connector(role, "fail"), READY]
    for at, (moved, rate) in enumerate(intervals):
        clock = f"03:{15 + at // 6:02}:{at % 6 * 10:02}"
        lines += [*[POST] * 10, stats(clock, prompt=rate, generation=50.0)]
        if moved:
            lines.append(transfers(moved, clock))
    return lines


BYPASS, PARTIAL = ("warning", "InferlogPDRouterBypass"), ("warning", "InferlogPDPartial")


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([FETCHED] * 12, []),
        ([*[FETCHED] * 4, *[COMPUTED] * 4], [BYPASS]),
        ([*[FETCHED] * 4, *[COMPUTED] * 4, *[FETCHED] * 4], [BYPASS]),
        ([*[FETCHED] * 4, *[BOTH] * 8], [PARTIAL]),
        ([*[FETCHED] * 4, *[BOTH] * 8, *[COMPUTED] * 4], [PARTIAL]),  # a mixed engine, whose long prompts ceased
        ([BOTH, COMPUTED] * 6, [PARTIAL]),
        ([COMPUTED] * 8, []),  # it may be no part of a pair at all
    ],
    ids=["fetches", "bypassed", "bypassed for a while", "mixed", "mixed, then direct", "by turns", "never fetched"],
)
def test_a_bypass_in_hindsight(tmp_path: Path, intervals: list[tuple[int, float]], expected: list[tuple[str, str]]) -> None:
    """Of an engine of both roles: it fetched everything, then nothing, and never both at a time."""
    findings = of_lines(tmp_path, *pair(*intervals))
    assert told(findings) == expected
    assert all("--pd-role decode --pd-expect all" in each.sure for each in findings if each.alert == BYPASS[1])
    assert BYPASS not in told(of_lines(tmp_path, *pair(*intervals), pd_expect="mixed"))


def test_a_bypass_behind_failed_transfers_is_what_follows_from_them(tmp_path: Path) -> None:
    """A router that sends requests past a prefill engine that is gone."""
    lines = pair(*[FETCHED] * 4, *[COMPUTED] * 4)
    at = next(at for at, each in enumerate(lines) if "03:15:40" in each)
    died = [failure("transfer_exception", f"cmpl-{number}", at="03:15:39") for number in range(4)]
    assert BYPASS not in told(of_lines(tmp_path, *lines[:at], *died, *lines[at:]))


def test_what_clients_saw_is_evidence() -> None:
    """Answers of class 5xx, with the lines in which they are."""
    for name, alert in (
        ("vllm-0.32/captured-pd-decode", "InferlogPDTransportFailing"),
        ("vllm-0.32/captured-json-worker-killed", "InferlogEngineDead"),
    ):
        lines = (DATA / f"{name}.log").read_bytes().split(b"\n")
        numbers = [number for number, line in enumerate(lines, 1) if re.search(rb'HTTP/1.1\\*" 500', line)]
        found = report(name)
        [each] = [each for finding in found.findings if finding.alert == alert for each in finding.evidence if "5xx" in each.text]
        assert (each.count, each.first.line, each.last.line) == (6, numbers[0], numbers[-1])
        entries = [entry for entry in found.timeline if "5xx" in entry.text]
        assert [check.why.rpartition(", ")[2] for check in found.checklist if check.name == "nothing failed"] == ["6 requests answered 5xx"]
        assert (entries[0].first.line, entries[-1].last.line) == (numbers[0], numbers[-1])


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
