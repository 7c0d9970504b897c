"""What only the log of an SGLang pair tells of 0.5.17 and later, and its compiles and loads of 0.5.23."""

import pytest

from .conftest import Reading, read
from .sglang_lines import PAIR, READY, arguments, decode, room, tagged

RANKS = ("TP0", "TP1")
LAYOUT = "NIXL state layout rejected: peer={peer} ['NIXL prepared state component 0 (mamba) stride mismatch for peer {peer}: src[0]=4096, dst[0]=2048']"
DEAD = "prefill bootstrap_thread died on engine_rank={rank}; requests to this rank will time out in KVPoll.Bootstrapping"
BYPASSED = "Invalid request: Disaggregated request received without bootstrap room id. req.rid='secret'"


def started(mode: str = "prefill", *lines: str) -> Reading:
    """An engine of a pair, with some lines behind its start."""
    begun = arguments(tp_size=2, disaggregation_mode=mode, disaggregation_transfer_backend="nixl")
    return read(begun, tagged(READY, "02:00:10", ""), *lines)


def counted(reading: Reading, family: str) -> dict[tuple[str, ...], float]:
    """The series of a family that are not 0."""
    return {labels: value for labels, value in reading.series(family).items() if value}


def test_a_layout_that_is_rejected_is_a_mismatch() -> None:
    """Each rank checks the peer's; the requests that then fail have lines of their own."""
    reading = started("prefill", *(tagged(LAYOUT.format(peer="secret-peer"), "02:01:00", rank) for rank in RANKS))
    assert counted(reading, "kv_compatibility_checks_total") == {("nixl", "mismatch"): 2}
    assert reading.check("compatibility") == "fail"
    assert not [each for each in reading.source.samples(None) if "secret" in " ".join(each.labels)]


def test_a_rank_that_can_be_reached_no_more_is_a_failure() -> None:
    """Two of them are two: every request to either will time out."""
    reading = started("prefill", *(tagged(DEAD.format(rank=rank), "02:01:00", f"TP{rank}") for rank in (0, 1)))
    assert counted(reading, "kv_transfer_failures_total") == {("nixl", "bootstrap"): 2}
    assert reading.state == "serving"


def test_a_request_past_the_router_is_no_failed_transfer() -> None:
    """Nothing was tried: what fails is the check of the parameters that a router would have given."""
    reading = started("decode", decode("02:01:00"), tagged(BYPASSED, "02:01:01"))
    assert reading.check("params_injected") == "fail"
    assert counted(reading, "kv_transfer_failures_total") == {}
    assert not [each for each in reading.source.samples(None) if "secret" in " ".join(each.labels)]


def test_a_room_that_fails_counts_once_whatever_was_said_before() -> None:
    """Room 5 has NIXL's exception and its end, room 6 an exception of the worker's and its end on two ranks."""
    reading = started(
        "prefill",
        tagged("NIXL transport error for room 5: NIXL_ERR_REMOTE_DISCONNECT", "02:01:00"),
        room("Prefill transfer", 5, at="02:01:00"),
        tagged("Unexpected transfer worker error for room 6\nTraceback (most recent call last):\nKeyError: 6", "02:01:05"),
        room("Prefill transfer", 6, at="02:01:05"),
        room("Prefill transfer", 6, rank=1, at="02:01:05"),
    )
    assert counted(reading, "kv_transfer_failures_total") == {("nixl", "transfer"): 2}
    assert counted(reading, "transport_errors_total") == {("nixl",): 1}


@pytest.mark.parametrize(
    "text",
    [
        "retract_decode: aborted last request {id} due to OOM",
        "retract_decode: aborted request {id}: Retraction host KV pool exhausted. Aborting the request.",
        "retract_decode: aborted request {id}: Retracted under decode memory pressure without a KV backup. Retry later.",
    ],
)
def test_a_request_that_is_aborted_for_want_of_room_is_an_incident(text: str) -> None:
    """All ranks tell of it within the minute, and the engine goes on."""
    lines = [tagged(text.format(id="a: b due to"), at, rank) for rank in RANKS for at in ("02:01:00", "02:01:20")]
    reading = started("decode", *lines)
    assert counted(reading, "engine_failures_total") == {("kv_pool_exhausted",): 1}
    assert reading.state == "serving"


@pytest.mark.parametrize(
    "text",
    [
        "Exception: Capture cuda graph failed: CUDA error: out of memory",
        "Exception: Capture frozen-KV MTP cuda graph failed: CUDA error: out of memory",
        "RuntimeError: Capture prefill CUDA graph failed: CUDA error: out of memory",
    ],
)
def test_graphs_that_cannot_be_captured_end_the_start(text: str) -> None:
    """The scheduler's traceback names them, on each rank."""
    trace = f'Scheduler hit an exception: Traceback (most recent call last):\n  File "scheduler.py", line 1, in run\n{text}\nPossible solutions:'
    reading = read(arguments(tp_size=2), *(tagged(trace, "02:01:00", rank) for rank in RANKS))
    assert reading.state == "failed"
    assert counted(reading, "engine_failures_total") == {("scheduler_exception",): 1, ("startup_failed",): 1}


def test_timeouts_that_are_told_once_in_a_life_are_known() -> None:
    """The requests that time out tell of it themselves."""
    reading = started(
        "decode",
        tagged("Some requests timed out when bootstrapping, which means prefill instances fail to receive the KV indices", "02:01:00"),
        tagged("Some requests fail to receive KV Cache transfer done signal after bootstrapping. If", "02:01:00"),
    )
    assert counted(reading, "unrecognised_lines_total") == {}
    assert counted(reading, "kv_transfer_failures_total") == {}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Compiled pinned Helion kernel _intra_matrices_wide for short", ("other", "compile", "serving")),
        ("fp8_fa_sm120 attention: compiling for S=4096 H=24 (once per shape)", ("cutedsl", "compile", "serving")),
        (
            "PCG capture stream is not set. This can be a Dynamo runtime recompilation or an optional VLM branch",
            ("inductor", "recompile", "serving"),
        ),
    ],
)
def test_kernels_that_come_first_while_it_serves_are_compiles(text: str, labels: tuple[str, ...]) -> None:
    """The ranks of one are one."""
    reading = started("prefill", *(tagged(text, "02:05:00", rank) for rank in RANKS))
    assert counted(reading, "jit_events_total") == {labels: 1}


def test_an_attention_kernel_compiles_until_the_rank_goes_on() -> None:
    """Its end has no line."""
    reading = started("decode", tagged("fp8_fa_sm120 attention: compiling for S=4096 H=24 (once per shape)", "02:05:00"))
    assert reading.value("jit_in_progress", "cutedsl") == 1
    assert reading.feed(decode("02:05:20")).value("jit_in_progress", "cutedsl") == 0


def test_weights_that_are_committed_behind_the_graphs_have_their_seconds() -> None:
    """The slowest rank's: what the start still waited for when the graphs were there."""
    text = "Load weight end. Committed real weights after CUDA graph capture in {:.2f} s (capture overlap window 61.20 s, startup overlap total 84.50 s)"
    reading = read(arguments(tp_size=2), tagged(text.format(9.5), "02:01:00", "TP0"), tagged(text.format(10), "02:01:01", "TP1"))
    assert reading.value("startup_seconds", "load_weights") == 10


@pytest.mark.parametrize("every", [1, 2, 10])
def test_failed_requests_are_told_however_often_batches_are(every: int) -> None:
    """Each second request fails, with 20 at work: as many as in ten seconds, whatever decode_log_interval says."""
    reading = started("decode")
    for second in range(100):
        at = f"02:0{1 + second // 60}:{second % 60:02}"
        if second % every == 0:
            reading.feed(decode(at, running=20, pair=PAIR))
        if second % 2:
            reading.feed(room("Decode transfer", second, at=at))
    assert reading.check("no_transfer_failure") == "fail"
    assert reading.verdict == "transport_failing"


@pytest.mark.parametrize("every", [1, 10])
def test_a_failed_request_among_many_is_an_accident(every: int) -> None:
    """Two of the 80 in two intervals are too few."""
    reading = started("decode")
    for second in range(0, 41, every):
        reading.feed(decode(f"02:01:{second:02}", running=40, pair=PAIR))
        if second in (20, 30):
            reading.feed(room("Decode transfer", second, at=f"02:01:{second:02}"))
    assert reading.check("no_transfer_failure") == "unknown"


@pytest.mark.parametrize(("at", "verdict"), [("02:25:59", "unproven"), ("02:26:00", "idle")])
def test_rare_batches_do_not_put_off_the_idle_time(at: str, verdict: str) -> None:
    """Its lines are no intervals: twenty minutes between two of them are a time in which it did nothing."""
    reading = started("decode", decode("02:01:00", pair=PAIR), decode("02:21:00", pair=PAIR), tagged("x", at, ""))
    assert reading.verdict == verdict
