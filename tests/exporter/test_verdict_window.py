"""How long evidence counts: the last two intervals with requests, and five quiet minutes."""

import pytest

from .conftest import API, CORE, POST, READY, STOPPING, Reading, arguments, failure, line, logo, read, skipped, stats, transfers
from .test_verdict import CONSUMER, LATE, MISMATCH, decode, failing, healthy, local, quiet

NO_STATS = line("AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid incomplete stats.", level="WARNING")


def test_a_mismatch_is_over_when_two_clean_intervals_had_transfers() -> None:
    """The peer that did not fit is gone; a transfer implies that the others do."""
    reading = read(*decode(), *healthy("03:14:00"), *healthy("03:14:10"), *MISMATCH, *healthy("03:14:30"), *healthy("03:14:40"))
    assert "fail" == reading.check("compatibility")
    assert "unproven" == reading.verdict

    reading.feed(*healthy("03:14:50"))
    assert "pass" == reading.check("compatibility")
    assert "proven" == reading.verdict


def test_a_mismatch_that_goes_on_is_not_hidden_by_transfers_from_another_peer() -> None:
    """In each interval a request meets the peer that does not fit."""
    reading = read(*decode(), *healthy("03:14:00"), *MISMATCH)
    for second in range(10, 60, 10):
        reading.feed(*healthy(f"03:15:{second}"), failure("handshake_failed", f"cmpl-{second}", f"03:15:{second}"))

    assert "fail" == reading.check("compatibility")


# -- window ------------------------------------------------------------------------------------------------------------


def test_worse_at_once_better_after_two_clean_intervals_with_requests() -> None:
    """The failure counts before any periodic line, and leaves only when two intervals with requests are clean."""
    reading = read(*decode(), *healthy("03:14:10"), *healthy("03:14:20"))
    assert "proven" == reading.verdict

    reading.feed(failure("transfer_failed", at="03:14:22"), skipped(at="03:14:22"))
    assert "recomputing" == reading.verdict

    reading.feed(*healthy("03:14:30"))
    assert "recomputing" == reading.verdict

    reading.feed(*healthy("03:14:40"))
    assert "recomputing" == reading.verdict

    reading.feed(*healthy("03:14:50"))
    assert "proven" == reading.verdict


def test_intervals_without_requests_do_not_make_it_better() -> None:
    """Nothing was tried in them."""
    reading = read(*decode(), *healthy("03:14:10"), skipped(at="03:14:12"), *healthy("03:14:20"))
    for minute in range(15, 19):
        reading.feed(quiet(f"03:{minute}:00"))

    assert "recomputing" == reading.verdict


def test_recomputing_becomes_router_bypass_when_the_evidence_has_left_the_window() -> None:
    """The load failure is two intervals old, and since then no transfer was tried."""
    reading = read(*decode(), skipped(at="03:14:05"), *local("03:14:10"))
    assert "recomputing" == reading.verdict

    reading.feed(*local("03:14:20"), *local("03:14:30"))
    assert "router_bypass" == reading.verdict


def test_never_connected_stands_until_its_evidence_left_the_window() -> None:
    """After a first success it cannot come back."""
    reading = read(*decode(policy="fail"), failure("handshake_failed"), failing(1))
    assert "never_connected" == reading.verdict

    reading.feed(*healthy("03:14:30"), *healthy("03:14:40"), *healthy("03:14:50"), failure("handshake_failed", "cmpl-8", "03:14:52"))
    assert "never_connected" != reading.verdict


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        pytest.param(decode(policy="fail"), "never_connected", id="whole"),
        pytest.param([READY], "transport_failing", id="without-a-start-line"),
        pytest.param([*decode(policy="fail"), NO_STATS], "transport_failing", id="prints-no-statistics"),
        pytest.param([stats("03:14:10")], "transport_failing", id="attached-while-it-served"),
        pytest.param([], "transport_failing", id="attached-to-a-failing-one"),
    ],
)
def test_a_log_that_begins_in_the_middle_cannot_tell_of_never(start: list[str], verdict: str) -> None:
    """KV may have come before its first line."""
    reading = read(*start, failure("handshake_setup_failed", None), failure("handshake_failed"), failing(1), pd_role="decode")

    assert verdict == reading.verdict


@pytest.mark.parametrize("end", [STOPPING, line("EngineCore encountered a fatal error.", CORE, "03:20:00", level="ERROR")])
def test_the_process_behind_an_end_is_innocent_though_only_its_ready_line_is_told(end: str) -> None:
    """Its start lines are lost, or its level is too high for them."""
    reading = read(*decode(), *healthy("03:14:10"), skipped(at="03:14:12"), end)
    assert "recomputing" == reading.verdict

    assert "unproven" == reading.feed(READY).verdict
    assert "never_connected" != reading.feed(failure("handshake_failed", at="03:21:00")).verdict


@pytest.mark.parametrize("off", ["", "'disable_log_stats': True, "])
def test_an_accident_is_over_though_no_periodic_line_tells_of_intervals(off: str) -> None:
    """Its level is WARNING, or it prints no statistics: what succeeds is never told of, but answers are."""
    start = [logo(), arguments(f"{off}'kv_transfer_config': {CONSUMER}")] if off else []
    reading = read(*start, READY, *[POST] * 30, failure("transfer_failed"), *[POST] * 8, pd_role="decode")
    assert "unproven" == reading.verdict

    reading.feed(failure("transfer_failed", "cmpl-2"), failure("transfer_failed", "cmpl-3"), *[POST] * 8)
    assert "transport_failing" == reading.verdict

    for _ in range(50):  # or all at once, as they are read behind a backlog
        reading.feed(POST)
    assert "unproven" == reading.verdict


def test_a_mismatch_is_over_when_nothing_fails_any_more_though_no_line_tells_of_success() -> None:
    """Each request would fail with such a peer, and say so."""
    reading = read(READY, *[POST] * 30, *MISMATCH, *[POST] * 30, pd_role="decode")
    assert ("transport_failing", "fail") == (reading.verdict, reading.check("compatibility"))

    reading.feed(*[POST] * 30)
    assert ("unproven", "unknown") == (reading.verdict, reading.check("compatibility"))


@pytest.mark.parametrize("at_once", [True, False])
def test_answers_outlive_an_accident_wherever_a_block_ends(at_once: bool) -> None:
    """Those before it do not count as later ones."""
    lines = [
        READY,
        *[POST] * 45,
        failure("transfer_failed"),
        failure("transfer_failed", "cmpl-2"),
        failure("transfer_failed", "cmpl-3"),
        POST,
    ]
    reading = Reading(pd_role="decode")
    for block in [lines] if at_once else [[each] for each in lines]:
        reading.feed(*block)

    assert "transport_failing" == reading.verdict


def test_read_after_expiry_leaves_the_window_as_well() -> None:
    """Possible corruption is told while it is recent."""
    reading = read(*decode(), LATE, *healthy("03:14:10"))
    assert "corruption_risk" == reading.verdict

    reading.feed(*healthy("03:14:20"), *healthy("03:14:30"))
    assert "proven" == reading.verdict


def test_window_is_two_intervals_of_the_engine_whatever_its_dp_size() -> None:
    """Both DP engines print a line an interval; the failure is one interval old."""
    reading = read(*decode(), skipped(at="03:14:05"))
    for at in ("03:14:10", "03:14:20"):
        for engine in ("Engine 000", "Engine 001"):
            reading.feed(POST, stats(at, prompt=1.2, engine=engine), transfers(8, at))

    assert "recomputing" == reading.verdict


# -- idle --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "verdict"), [("03:19:19", "proven"), ("03:19:20", "idle"), ("04:30:00", "idle")])
def test_idle_after_five_quiet_minutes_by_the_clock_of_the_log(at: str, verdict: str) -> None:
    """Quiet since 03:14:20."""
    assert verdict == read(*decode(), *healthy("03:14:10"), quiet("03:14:20"), line("x", API, at)).verdict


def test_traffic_ends_the_idle_time() -> None:
    """The next interval with tokens is judged again."""
    reading = read(*decode(), *healthy("03:14:10"), quiet("03:14:20"), line("x", API, "03:30:00"))
    assert "idle" == reading.verdict

    reading.feed(*healthy("03:30:10"))
    assert "proven" == reading.verdict


def test_idle_does_not_hide_what_is_wrong() -> None:
    """The verdict that stood before the quiet time still holds."""
    reading = read(*decode(), *local("03:14:10"), *local("03:14:20"), quiet("03:14:30"), line("x", API, "03:30:00"))

    assert "router_bypass" == reading.verdict


def test_a_log_that_broke_off_proves_nothing_any_more() -> None:
    """The engine was killed, or its log is written elsewhere: no line told of quiet."""
    reading = Reading()
    start = 1_783_998_860.0  # 2026-07-14 03:14:20 UTC
    reading.feed(*decode(), *healthy("03:14:10"), *healthy("03:14:20"), arrival=start)

    assert 1 == reading.value("pd_verdict", "proven", now=start + 299)
    assert 1 == reading.value("pd_verdict", "idle", now=start + 300)
    assert start + 300 == reading.value("pd_verdict_timestamp_seconds", now=start + 900)


def test_idle_is_reached_live_though_the_log_is_silent() -> None:
    """Live, the event clock is the arrival time: ten minutes after the last line the engine is idle."""
    reading = Reading()
    start = 1_783_998_860.0  # 2026-07-14 03:14:20 UTC
    reading.feed(*decode(), *healthy("03:14:10"), quiet("03:14:20"), arrival=start)

    assert 1 == reading.value("pd_verdict", "idle", now=start + 600)


def test_engine_that_never_had_traffic_is_idle() -> None:
    """Ready for half an hour, and not one request."""
    assert "idle" == read(*decode(), line("x", API, "03:45:00")).verdict


def test_a_failure_that_the_line_of_an_interval_without_tokens_counts_too_is_one() -> None:
    """Its record is not of the interval that was closed before."""
    counted = ", Num failed transfers=1, Num KV expired reqs=0, Num notifs after expiry=0"
    reading = read(*decode(), *healthy("03:14:00"), *healthy("03:14:10"))
    reading.feed(failure("transfer_failed", at="03:14:15"), stats("03:14:20", generation=0.0, running=0), transfers(0, more=counted))
    assert "unproven" == reading.verdict

    reading.feed(failure("transfer_failed", "cmpl-2", "03:14:25"))
    assert "transport_failing" == reading.verdict
