"""What stands beside the verdict: since when, by which limits, how much prefill is local, and who prefills by behaviour."""

from pathlib import Path

import pytest

from exporter.pd_evidence import PdEvidence
from exporter.source import Source
from exporter.verdict import FailureLimits, Judgement, PairSettings, PdSettings, judge
from tests.conftest import DATA

from .conftest import API, CORE, POST, RANK0, Reading, failure, line, read, stats, transfers
from .test_verdict import decode, failing, healthy, local, quiet

# -- since when --------------------------------------------------------------------------------------------------------

READ = 1_783_998_860.0
"""2026-07-14 03:14:20 UTC."""


def test_verdict_keeps_the_time_of_the_line_that_brought_it() -> None:
    """It stands through lines that say the same, and a check that fails without a break keeps the first."""
    reading = read(*decode(), *healthy("03:14:10"), *healthy("03:14:20"), *healthy("03:14:30"))
    assert READ - 10 == reading.value("pd_verdict_timestamp_seconds")

    reading.feed(*local("03:14:40"), *local("03:14:50"), *local("03:15:00"))
    assert "router_bypass" == reading.verdict
    assert READ + 30 == reading.value("pd_verdict_timestamp_seconds")
    assert READ + 20 == reading.value("pd_check_failing_timestamp_seconds", "local_prefill_low")
    assert reading.value("pd_check_failing_timestamp_seconds", "no_recompute") is None

    reading.feed(*healthy("03:15:10"), *healthy("03:15:20"), *healthy("03:15:30"))
    assert "proven" == reading.verdict
    assert {} == reading.series("pd_check_failing_timestamp_seconds")


def test_idle_began_five_minutes_after_the_last_tokens() -> None:
    """No line brings it."""
    reading = read(*decode(), *healthy("03:14:10"), quiet("03:14:20"), line("x", API, "03:30:00"))

    assert READ + 300 == reading.value("pd_verdict_timestamp_seconds")


@pytest.mark.parametrize("breaks_off", [False, True])
def test_behind_an_idle_time_a_verdict_is_since_the_line_that_ended_it(breaks_off: bool) -> None:
    """Though the window looks as it did before, and nobody asked in between."""
    reading = read(*decode(), *healthy("03:14:10"), *healthy("03:14:20"), *([] if breaks_off else [quiet("03:14:30")]))
    assert READ - 10 == reading.value("pd_verdict_timestamp_seconds")

    reading.feed(*healthy("03:34:20"))
    assert ("proven", READ + 1200) == (reading.verdict, reading.value("pd_verdict_timestamp_seconds"))
    reading.feed(*healthy("03:34:30"))
    assert ("proven", READ + 1200) == (reading.verdict, reading.value("pd_verdict_timestamp_seconds"))


def test_what_is_wrong_is_since_before_the_idle_time() -> None:
    """It stood all the while."""
    reading = read(*decode(), *local("03:14:10"), *local("03:14:20"), quiet("03:14:30"), *local("03:34:20"))

    assert ("router_bypass", READ - 10) == (reading.verdict, reading.value("pd_verdict_timestamp_seconds"))


def test_steady_traffic_is_not_judged_at_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict cannot be another one, and periodic lines are many."""
    judged: list[float | None] = []

    def counting(evidence: PdEvidence, settings: PdSettings, now: float | None) -> Judgement:
        judged.append(now)
        return judge(evidence, settings, now)

    monkeypatch.setattr("exporter.pair.judge", counting)
    reading = read(*decode(), *healthy("03:14:10"), *healthy("03:14:20"), *healthy("03:14:30"))
    judged.clear()
    reading.feed(*(each for minute in range(15, 30) for each in healthy(f"03:{minute}:00")))
    assert [] == judged

    reading.feed(*local("03:31:00"), transfers(1, "03:31:00"))
    assert [] == judged, "more of this second may follow"
    reading.feed(quiet("03:31:10"))
    assert 1 == len(judged)
    assert "partial" == reading.verdict
    assert READ + 1000 == reading.value("pd_verdict_timestamp_seconds")


def test_tokens_that_transfers_explain_no_more_are_judged() -> None:
    """The requests are as many and their prompts as long; fewer of them come by transfer."""
    reading = read(*decode())
    for at in ("03:14:10", "03:14:20", "03:14:30"):
        reading.feed(*[POST] * 4, stats(at, prompt=30.0, running=0), transfers(4, at))
    assert "proven" == reading.verdict

    for at in ("03:14:40", "03:14:50", "03:15:00"):
        reading.feed(*[POST] * 4, stats(at, prompt=30.0, running=0), transfers(1, at))
    assert ("unproven", READ + 30) == (reading.verdict, reading.value("pd_verdict_timestamp_seconds"))


# -- what is configured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (FailureLimits(), "transport_failing"),
        (FailureLimits(requests=3), "unproven"),
        (FailureLimits(share=0.25), "unproven"),
        (FailureLimits(requests=1, share=0.1), "transport_failing"),
    ],
)
def test_limits_of_failures_are_the_sources(limits: FailureLimits, verdict: str) -> None:
    """Two of ten attempts failed."""
    lines = [
        *decode(policy="fail"),
        *healthy("03:14:10"),
        failure("transfer_failed", "cmpl-1"),
        failure("transfer_failed", "cmpl-2"),
        failing(2),
    ]

    reading = Reading()
    reading.source.configure({}, pair=PairSettings(limits=limits), zone=None)

    assert verdict == reading.feed(*lines).verdict


# -- the share of local prefill ----------------------------------------------------------------------------------------

POOL = [
    line("Available KV cache memory: 1.00 GiB", RANK0),
    line("GPU KV cache size: 4,194,304 tokens", CORE),
]
"""256 bytes a token."""


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        pytest.param([*decode(), *local("03:14:10")], 1.0, id="nothing-came"),
        pytest.param([*decode(), *healthy("03:14:10")], None, id="bytes-of-unknown-worth"),
        pytest.param([*decode(), *POOL, POST, stats("03:14:10", prompt=0.0), transfers(1, "03:14:10", size=1.0)], 0.0, id="all-came"),
        pytest.param([*decode(), *POOL, POST, stats("03:14:10", prompt=409.6), transfers(1, "03:14:10", size=1.0)], 0.5, id="half-of-8192"),
        pytest.param([*decode("0.17.0"), *local("03:14:10")], None, id="prompt-throughput-counts-all"),
        pytest.param([*decode(role="kv_producer"), *local("03:14:10")], None, id="prefill"),
        pytest.param(decode(), None, id="nothing-served"),
    ],
)
def test_share_of_local_prefill(lines: list[str], share: float | None) -> None:
    """Computed tokens beside those that came, where the log tells what a token weighs."""
    assert share == read(*lines).value("pd_local_prefill_ratio", "log")


def test_lines_that_an_idle_engine_leaves_out_are_no_part_of_an_interval() -> None:
    """200 tokens/s for ten seconds of a minute are 2,000 tokens: half of what came by one transfer of 1 MiB."""
    reading = read(*decode(), *POOL, *healthy("03:14:00"), *healthy("03:14:10"), quiet("03:14:20"))
    reading.feed(POST, stats("03:15:20", prompt=204.8), transfers(1, "03:15:20", size=1.0))
    reading.feed(POST, stats("03:15:30", prompt=0.0), transfers(1, "03:15:30", size=1.0))

    assert 0.2 == reading.value("pd_local_prefill_ratio", "log")


# -- prefill by behaviour ----------------------------------------------------------------------------------------------


def test_one_token_an_answer_is_what_a_prefill_engine_generates() -> None:
    """Longer answers are not; and what a curl made it generate once is forgotten."""
    reading = read(*decode(role="kv_both"), POST, POST, stats("03:14:10", prompt=77.2, generation=0.2, running=0))
    assert "not_judged" == reading.verdict

    reading.feed(POST, stats("03:14:20", prompt=77.2, generation=1.6, running=0))
    assert "not_judged" != reading.verdict

    for at in ("03:14:30", "03:14:40"):
        reading.feed(POST, POST, stats(at, prompt=77.2, generation=0.2, running=0))
    assert "not_judged" == reading.verdict


@pytest.mark.parametrize(("generation", "verdict"), [(1.0, "not_judged"), (20.0, "router_bypass")])
def test_a_token_for_each_prompt_is_no_answer_where_no_access_line_tells_of_answers(generation: float, verdict: str) -> None:
    """A prefill engine with kv_both, of whose pair all KV is expected; or a decode engine that has not been given any."""
    lines = [stats(at, prompt=1000.0, generation=generation, running=0) for at in ("03:14:10", "03:14:20")]

    assert verdict == read(*decode(role="kv_both"), *lines, pd_expect="all").verdict


@pytest.mark.parametrize("path", sorted(DATA.glob("vllm-*/captured-pd-prefill*.log")), ids=lambda path: path.stem)
@pytest.mark.parametrize("access", [True, False])
@pytest.mark.parametrize("begins", [0.0, 0.8])
def test_real_prefill_engines_are_not_judged(path: Path, begins: float, access: bool) -> None:
    """Whether access lines are printed or not, at no line, also of a log that begins late."""
    reading, verdicts = Reading(), set()
    lines = path.read_text(encoding="utf-8").splitlines()
    for each in lines[int(begins * len(lines)) :]:
        if access or ' HTTP/1.1" ' not in each:
            reading.feed(each)
            verdicts.add(reading.source.engine.standing.verdict)

    assert verdicts <= {"", "not_judged"}


def test_a_reload_is_judged_with_the_next_line() -> None:
    """What is expected has changed, and steady lines bring no new evidence."""
    reading = read(*decode(), *local("03:14:10"), *local("03:14:20"), *local("03:14:30"))
    reading.source.configure({}, pair=PairSettings(expect="mixed"), zone=None)
    reading.feed(*local("03:14:40"))

    assert "unproven" == reading.verdict
    assert READ + 20 == reading.value("pd_verdict_timestamp_seconds")


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.log")), ids=lambda path: str(path.relative_to(DATA)))
def test_what_looks_the_same_is_judged_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict, its checks and their times are those that judging at every line would give."""

    def told() -> list[object]:
        source, found = Source("golden", year=2026), []
        for data in path.read_bytes().splitlines(keepends=True):
            source.feed(data)
            for engine in source.engines.values():
                standing = engine.standing
                now = (
                    standing.verdict,
                    standing.since and standing.since.time,
                    {check: head.time for check, head in standing.failing.items()},
                )
                if found[-1:] != [now]:
                    found.append(now)
        return found

    skipping = told()
    monkeypatch.setattr(PdEvidence, "_look", lambda evidence: setattr(evidence, "changed", True))
    assert told() == skipping
