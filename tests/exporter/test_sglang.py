"""An SGLang engine from its lines: its life, its pools, its batches, its part in a pair, and its compiles."""

import pytest

from exporter.counters import Digest
from exporter.engine import Engine
from exporter.faults import Faults
from exporter.source import Source
from parsers import Log

from .conftest import read
from .sglang_lines import CRASH, PAIR, READY, SIGQUIT, WARMUP_FAILED, answer, arguments, decode, prefill, room, tagged

# -- life --------------------------------------------------------------------------------------------------------------


def test_the_engines_own_first_request_is_no_readiness() -> None:
    """It is answered before the ready line, and counts as tokens all the same."""
    start = (arguments(), prefill("02:01:00"), answer(at="02:01:01"))
    reading = read(*start)
    assert (reading.state, reading.value("engine_ready"), reading.value("prefill_tokens_total", "0", "computed")) == ("starting", 0, 1)

    reading = read(*start, tagged(READY, "02:01:05", ""))
    assert (reading.state, reading.value("startup_seconds", "total")) == ("serving", 65)


def test_a_ready_line_after_a_failed_warmup_is_not_believed() -> None:
    """Health checks are refused until one of them succeeds."""
    lines = (arguments(), answer(code=500), tagged(WARMUP_FAILED, tags=""), tagged(READY, tags=""), answer("GET /health", code=503))
    reading = read(*lines)
    assert (reading.state, reading.value("engine_ready")) == ("starting", 0)
    assert reading.value("config_hazards_total", "warmup_incomplete") == 1

    assert read(*lines, answer("GET /health")).value("engine_ready") == 1
    assert read(*lines, answer()).value("engine_ready") == 1
    assert read(*lines, arguments("02:05:00"), tagged(READY, "02:06:00", "")).value("engine_ready") == 1


@pytest.mark.parametrize("wording", [WARMUP_FAILED, "Disaggregation warmup failed (mode=decode), status code: 500"])
def test_a_failed_warmup_is_a_hazard_in_each_wording(wording: str) -> None:
    """Of one status or of several."""
    reading = read(arguments(), tagged(wording, tags=""), tagged(READY, tags=""))
    assert reading.state == "starting"
    assert reading.value("config_hazards_total", "warmup_incomplete") == 1


def test_arguments_that_are_printed_twice_are_one_start() -> None:
    """An engine within another program does so; a start that fails takes longer."""
    assert read(arguments(), arguments("02:00:01")).value("engine_starts_total") == 1
    assert read(arguments(), arguments("02:00:09")).value("engine_starts_total") == 2
    assert read(arguments(), tagged(READY, tags=""), arguments("02:00:01")).value("engine_starts_total") == 2


def test_a_log_that_begins_late_is_of_a_serving_engine() -> None:
    """Batches tell that it works."""
    assert read(decode()).state == "serving"
    assert read(prefill()).state == "serving"


@pytest.mark.parametrize(("nnodes", "node_rank", "state"), [(1, 0, "starting"), (2, 0, "starting"), (2, 1, "worker")])
def test_a_further_node_never_says_that_it_is_ready(nnodes: int, node_rank: int, state: str) -> None:
    """Its log is a worker's, also when it prints batches."""
    reading = read(arguments(nnodes=nnodes, node_rank=node_rank), decode())
    assert reading.state == state


@pytest.mark.parametrize("crash", [(), (tagged(CRASH),)])
def test_a_child_that_fails_before_readiness_is_a_failed_start(crash: tuple[str, ...]) -> None:
    """Afterwards it is a death."""
    reading = read(arguments(), *crash, tagged(SIGQUIT, tags=""))
    assert (reading.state, reading.value("engine_failures_total", "startup_failed")) == ("failed", 1)
    assert not reading.value("engine_failures_total", "engine_dead")

    reading = read(arguments(), tagged(READY, tags=""), *crash, tagged(SIGQUIT, tags=""))
    assert (reading.state, reading.value("engine_failures_total", "engine_dead")) == ("failed", 1)


def test_eight_ranks_that_die_are_one_incident() -> None:
    """Each prints a traceback of its own."""
    reading = read(*(f"{tagged(CRASH, tags=f'TP{rank}')}\ntorch.OutOfMemoryError: CUDA out of memory. x" for rank in range(8)))
    assert reading.value("engine_failures_total", "scheduler_exception") == 1
    assert reading.value("engine_failures_total", "gpu_oom") == 1


def test_an_orderly_shutdown_stops_the_engine() -> None:
    """SIGTERM, mostly."""
    assert (
        read(decode(), tagged("SIGTERM received. signum=15 frame=None. Draining requests and shutting down...", tags="")).state == "stopped"
    )


def test_an_engine_without_batch_lines_says_too_little() -> None:
    """`--log-level warning` leaves nothing but access lines."""
    assert read(*[answer()] * 20).value("config_hazard_active", "log_level_too_high") == 1
    assert read(*[answer()] * 19).value("config_hazard_active", "log_level_too_high") is None
    assert read(decode(), *[answer()] * 50).value("config_hazard_active", "log_level_too_high") is None


@pytest.mark.parametrize(
    ("line", "silent"),
    [
        ("Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.", True),
        ("DSpark gamma mismatch: using gamma=7 (from speculative_num_draft_tokens=8) but draft config block_size=5.", True),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 4096", True),
        ("Error in request: hello", True),
        ("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 06:59:39.", True),
        ("Triton kernel '_fwd' took 6.83 s to compile after serving started. Serving-time compilation can stall the engine", True),
        (READY, False),
        ("Load weight end. type=M, dtype=torch.bfloat16, avail mem=37.80 GB, mem usage=40.10 GB.", False),
        ("max_total_num_tokens=800, max_prefill_tokens=1, max_running_requests=33, context_len=400", False),
        (prefill().partition("] ")[2], False),
    ],
)
def test_a_warning_does_not_tell_that_an_engine_speaks(line: str, silent: bool) -> None:
    """It is what is left at `--log-level warning`."""
    assert read(tagged(line), *[answer()] * 21).value("config_hazard_active", "log_level_too_high") == (1 if silent else None)


def test_arguments_are_read_as_arguments() -> None:
    """What stands in a key's text, or in another object, is none; secrets are nowhere."""
    reading = read(arguments(tp_size=4, hooks={"dp_size": 7}, speculative_algorithm="EAGLE", speculative_num_draft_tokens=4))
    assert reading.series("engine_parallel_size") == {("tp",): 4}
    assert reading.series("spec_draft_length") == {("eagle",): 3}
    assert "sk-secret" not in repr(list(reading.source.samples(None)))


@pytest.mark.parametrize(
    ("tp", "load", "capture", "memory"),
    [(1, 25.0, 40.0, 17 * 2**30), (2, 20.0, 30.0, 2 * 2**30), (None, 20.0, 30.0, 2 * 2**30)],
)
def test_a_single_rank_has_no_tag(tp: int | None, load: float, capture: float, memory: float) -> None:
    """Its target and draft model add up; lines without a tag of several ranks cannot be told apart."""
    weights = "Load weight end. elapsed={:.2f} s, type=M, avail mem=60.00 GB, mem usage={:.2f} GB."
    end = "Capture target {} CUDA graph end. elapsed={:.2f} s, mem usage=1.00 GB, avail mem=28.33 GB."
    lines = (weights.format(20, 15), weights.format(5, 2), end.format("prefill", 10), end.format("verify", 30))
    reading = read(arguments(**({"tp_size": tp} if tp else {})), *(tagged(each, tags="") for each in lines))
    assert reading.series("startup_seconds") == {("load_weights",): load, ("graph_capture",): capture}
    assert reading.value("engine_memory_bytes", "", "weights") == memory


# -- batches -----------------------------------------------------------------------------------------------------------


def test_only_the_first_pipeline_stage_counts() -> None:
    """Each stage prints the same batches, and so does each part of a context that is computed in parallel."""
    reading = read(
        *(prefill(tags=f"PP{stage} TP0", new=512) for stage in range(4)),
        decode(tags="PP1 TP0", running=7),
        prefill(tags="ATTN_CP1 TP4", new=512),
    )
    assert reading.value("prefill_tokens_total", "0", "computed") == 512
    assert reading.series("requests_running") == {("0",): 0}


def test_a_value_stays_until_its_own_line_is_old() -> None:
    """Prefill and decode batches have different fields, and an idle engine prints none."""
    source = Source("sglang", year=2026)
    source.feed((decode(running=5, pair=PAIR) + "\n").encode(), arrival=1000.0)
    source.feed((prefill("02:01:30") + "\n").encode(), arrival=1090.0)

    def told(now: float) -> set[str]:
        return {each.family for each in source.samples(now) if each.family in ("generation_tokens_per_second", "prompt_tokens_per_second")}

    assert told(1100.0) == {"generation_tokens_per_second", "prompt_tokens_per_second"}
    assert told(1300.0) == {"prompt_tokens_per_second"}
    assert told(1500.0) == set()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("", {}),
        ("cap len: 4.50, ", {("spec_cap_length",): 4.5}),
        ("cap len: 4.50, block accept len: 3.60, ", {("spec_cap_length",): 4.5, ("spec_block_acceptance_length",): 3.6}),
        (
            "est uncap acc len: 3.66 [3.58, 3.74], ",
            {
                ("spec_uncapped_acceptance_length", "mean"): 3.66,
                ("spec_uncapped_acceptance_length", "low"): 3.58,
                ("spec_uncapped_acceptance_length", "high"): 3.74,
            },
        ),
    ],
)
def test_lengths_of_blocks_that_are_cut_are_told(fields: str, told: dict[tuple[str, ...], float]) -> None:
    """DSpark prints them in some of its modes only."""
    reading = read(arguments(speculative_algorithm="DSPARK"), decode(pair=f"accept len: 3.10, accept rate: 0.42, {fields}"))
    families = ("spec_cap_length", "spec_block_acceptance_length", "spec_uncapped_acceptance_length")
    assert told == {(each.family, *each.labels[2:]): each.value for each in reading.source.samples(None) if each.family in families}
    assert reading.value("spec_acceptance_length", "0", "dspark") == 3.1


def test_the_length_of_drafts_is_told_by_several_lines() -> None:
    """The arguments, the draft model's start, and a complaint about another length, which names the model's own."""
    begins = "Initialized DSpark draft runner. attention_backend=fa3, model=M, gamma={}, verify_num_draft_tokens=6, mask_token_id=1, markov_head=H"
    mismatch = "DSpark gamma mismatch: using gamma=7 (from speculative_num_draft_tokens=8) but draft config block_size=5."
    assert read(tagged(begins.format(5))).series("spec_draft_length") == {("dspark",): 5}
    assert read(tagged(begins.format(5))).series("spec_block_size") == {}
    given = arguments(speculative_algorithm="DSPARK", speculative_num_draft_tokens=8)
    for lines in ([given, tagged(mismatch), tagged(begins.format(7))], [tagged(mismatch, tags="")]):
        reading = read(*lines)
        assert reading.series("spec_draft_length") == {("dspark",): 7}
        assert reading.series("spec_block_size") == {("dspark",): 5}
        assert reading.value("config_hazard_active", "draft_length_mismatch") == 1


@pytest.mark.parametrize(
    ("lines", "probes"),
    [
        ([prefill(at="02:00:01"), answer("GET /health", "02:00:02")], 1),
        ([prefill(at="02:00:01", new=256), answer("GET /health_generate", "02:00:02")], 1),
        ([prefill(at="02:00:01"), answer("GET /health", "02:00:09")], 0),
        ([prefill(at="02:00:01"), answer(at="02:00:02"), answer("GET /health", "02:00:02")], 0),
        ([prefill(at="02:00:01"), answer("GET /health", "02:00:02", 503)], 0),
        ([prefill(at="02:00:01", cached=16), answer("GET /health", "02:00:02")], 0),
        ([prefill(at="02:00:01", new=250), answer("GET /health", "02:00:02")], 0),
        ([answer("GET /health", "02:00:02"), prefill(at="02:00:02")], 0),
        ([prefill(at="02:00:01"), answer("GET /health", "02:00:02"), answer("GET /health", "02:00:02")], 1),
        ([prefill("02:00:01", "DP0 TP0"), prefill("02:00:01", "DP1 TP4"), answer("GET /health", "02:00:02")], 1),
    ],
    ids=["probe", "page", "late", "request", "refused", "cached", "odd", "before", "two-answers", "two-ranks"],
)
def test_a_probe_is_a_small_batch_and_its_answer(lines: list[str], probes: int) -> None:
    """Without other traffic between them."""
    assert read(*lines).value("probe_batches_total") == probes


def test_a_known_page_size_tells_probes_better() -> None:
    """A request of 256 tokens is none, where a page has 64."""
    probe = (tagged(READY, tags=""), prefill(at="02:00:01", new=256), answer("GET /health", "02:00:02"))
    assert read(arguments(page_size=64), *probe).value("probe_batches_total") == 0
    assert read(arguments(page_size=256), *probe).value("probe_batches_total") == 1


def test_ranks_tell_of_one_retraction() -> None:
    """A rank that says it again means another one."""
    told = "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 8192, #new_token_ratio: 0.4120 -> 0.7015"
    reading = read(*(tagged(told, tags=f"TP{rank}") for rank in range(4)), tagged(told, "02:00:01"), tagged(told, tags="DP1 TP4"))
    assert reading.series("requests_retracted_total") == {("0",): 4, ("1",): 2}


@pytest.mark.parametrize("stages", ["TP{}", "PP{} TP0"])
def test_ranks_may_be_several_retractions_apart(stages: str) -> None:
    """Each rank prints its lines together, so that the next one's first is not about the last of those."""
    told = "KV cache pool is full. Retract requests. #retracted_reqs: {}, #new_tokens_gained: 8192, #new_token_ratio: 0.4120 -> 0.7015"
    cut = "Request length is longer than the KV cache pool size or the max context length. Truncated. self.x=1"
    lines = (told.format(1), told.format(2), told.format(2), cut, cut)
    reading = read(*(tagged(line, tags=stages.format(rank)) for rank in range(4) for line in lines))
    assert reading.series("requests_retracted_total") == {("0",): 5}
    assert reading.value("requests_truncated_total") == 2


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_what_was_sent_for_another_request_fails_the_one_that_waited() -> None:
    """The engine notices, and says so on each rank: no transfer has failed, but its request."""
    told = "Context corruption detected: Request 9c1f (bootstrap_room={}) received metadata from bootstrap_room=12. Metadata buffer index: 5. This"
    reading = read(decode(pair=PAIR), *(tagged(told.format(number), tags=f"TP{rank}") for rank in range(2) for number in (11, 13)))
    assert reading.value("kv_load_failed_requests_total") == 2
    assert not sum(reading.series("kv_transfer_failures_total").values())
    assert "9c1f" not in repr(list(reading.source.samples(None)))


@pytest.mark.parametrize(
    "why", ["register to bootstrap server after 5 retries", "register to bootstrap server: x", "connect to bootstrap server: 500, x"]
)
def test_a_rank_that_is_not_registered_is_told(why: str) -> None:
    """Each rank registers itself, and none is found by decode engines."""
    reading = read(*(tagged(f"Prefill instance failed to {why}", tags=f"TP{rank}") for rank in range(4)))
    assert reading.series("kv_transfer_failures_total")["unknown", "registration"] == 4


def test_ranks_tell_of_one_failed_room() -> None:
    """A room may fail in two ways, and a request without a room is known by its id."""
    reading = read(
        *(room("Decode transfer", rank=rank) for rank in range(4)),
        room("Decode transfer", at="02:05:00"),
        room("Decode transfer", 2),
        room("Decode handshake"),
        room("Prefill bootstrap"),
        room("Prefill transfer", None),
        room("Prefill transfer", None),
    )
    assert reading.series("kv_transfer_failures_total") == {
        ("unknown", "transfer"): 3,
        ("unknown", "handshake"): 1,
        ("unknown", "bootstrap"): 1,
    }


@pytest.mark.parametrize(
    ("lines", "role", "verdict_"),
    [
        ([decode()], "none", "not_disaggregated"),
        ([decode(pair=PAIR)], "decode", "unproven"),
        ([prefill().replace("#pending-token: 0", "#pending-token: 0, #bootstrap-req: 0, #inflight-req: 0")], "prefill", "not_judged"),
        ([arguments(disaggregation_mode="decode", disaggregation_transfer_backend="nixl")], "decode", "unproven"),
        ([arguments(disaggregation_mode="prefill", disaggregation_transfer_backend="nixl")], "prefill", "not_judged"),
        ([arguments(disaggregation_mode="null", disaggregation_transfer_backend="mooncake")], "none", "not_disaggregated"),
        ([prefill()], "unknown", "not_judged"),
    ],
)
def test_the_role_is_in_the_arguments_and_in_the_batches(lines: list[str], role: str, verdict_: str) -> None:
    """Only an engine of a pair prints its queues."""
    reading = read(*lines)
    assert reading.value("pd_role", role) == 1
    assert reading.verdict == verdict_


def test_a_decoding_engine_that_generates_has_connected() -> None:
    """It cannot prefill itself. One failed room is no failing transport, many are."""
    rooms = [room("Decode transfer", number, at="02:00:20") for number in range(1, 10)]
    assert read(decode(pair=PAIR, running=9), rooms[0], decode("02:00:30", pair=PAIR)).verdict == "unproven"
    assert read(decode(pair=PAIR, running=9), *rooms, decode("02:00:30", pair=PAIR)).verdict == "transport_failing"
    assert read(arguments(disaggregation_mode="decode", disaggregation_transfer_backend="nixl"), *rooms).verdict == "never_connected"


def test_an_engine_without_batches_is_idle() -> None:
    """After five minutes by the log's clock, which its probes move on."""
    assert read(decode(pair=PAIR), answer("GET /health", "02:04:59")).verdict == "unproven"
    assert read(decode(pair=PAIR), answer("GET /health", "02:05:00")).verdict == "idle"
    assert read(decode(pair=PAIR), answer("GET /health", "02:05:00"), decode("02:05:01", pair=PAIR)).verdict == "unproven"


def test_request_statistics_prove_transfers() -> None:
    """With --enable-request-time-stats-logging; a health check's is no transfer."""
    told = "ReqTimeStats(rid={}, bootstrap_room={}, input_len=400, cached_input_len=0, output_len=1, attempts=1, type=decode): "
    took = "bootstrap_duration=1.00ms, alloc_wait_duration=1.00ms, transfer_duration=250.00ms, queue_duration=1.00ms"
    reading = read(
        arguments(disaggregation_mode="decode", disaggregation_transfer_backend="nixl"),
        tagged(told.format("9c1f", 7) + took),
        tagged(told.format("HEALTH_CHECK_0b5f", 0) + took),
        decode(pair=PAIR),
    )
    assert reading.series("kv_transfers_total") == {("0", "nixl"): 1}
    assert reading.series("kv_transfer_seconds_total") == {("0", "nixl"): 0.25}
    assert reading.verdict == "proven"


STATISTICS = "input_len=400, cached_input_len=0, output_len=1, attempts=1, type={}): {}"
DECODED = STATISTICS.format(
    "decode", "bootstrap_duration=1.00ms, alloc_wait_duration=1.00ms, transfer_duration=250.00ms, queue_duration=1.00ms, entry_time=1.123"
)
PREFILLED = STATISTICS.format(
    "prefill", "queue_duration=1.00ms, entry_time=1785736800.123, transfer_speed=4.00 GB/s, transfer_total=1024.00 MB"
)


@pytest.mark.parametrize("own", [DECODED, PREFILLED])
@pytest.mark.parametrize("forged", [DECODED.replace("250.00", "99999999"), PREFILLED.replace("1024.00", "99999999")])
@pytest.mark.parametrize("end", ["", "[", f"[2026-08-03 02:00:00] {READY}", ", x"])
def test_an_id_cannot_tell_of_transfers(own: str, forged: str, end: str) -> None:
    """A client chooses it, and may put in what stands behind it."""
    reading = read(decode(), tagged(f"ReqTimeStats(rid=x, bootstrap_room=1, {forged}{end}, bootstrap_room=5, {own}"))
    assert reading.value("kv_transfer_seconds_total", "0", "unknown") in (None, 0, 0.25)
    assert reading.value("kv_transfer_bytes_total", "0", "unknown") in (None, 0, 2**30)
    assert reading.value("engine_ready_timestamp_seconds") == read(decode()).value("engine_ready_timestamp_seconds")
    genuine = read(decode(), tagged(f"ReqTimeStats(rid=x, bootstrap_room=5, {own}"))
    assert genuine.value("kv_transfer_seconds_total", "0", "unknown") == 0.25


# -- compiles ----------------------------------------------------------------------------------------------------------

LATE = "Triton kernel '_fwd_kernel' took 6.83 s to compile after serving started. Serving-time compilation can stall the engine"


@pytest.mark.parametrize(
    ("before", "phase"),
    [([], "serving"), ([arguments()], "startup"), ([arguments(), tagged(READY, tags="")], "serving")],
)
def test_serving_started_means_the_event_loop(before: list[str], phase: str) -> None:
    """Between a start and the ready line it is the engine's own first request that compiles."""
    assert read(*before, tagged(LATE)).series("jit_events_total")["triton", "compile", phase] == 1


def test_a_bar_tells_how_long_deepgemm_took() -> None:
    """Of the rank that said what it compiles; a bar that stands alone is nobody's."""
    compiling = "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=1536, K=4096, num_groups=1 with all Ms. It only takes a little time"
    bar = "\rDeepGEMM warmup:  48%|████▊     | 7864/16384 [00:51<00:55, 152.9it/s]\rDeepGEMM warmup: 100%|██████████| 16384/16384 [1:01:47<00:00, 4.4it/s]"
    reading = read(decode(), tagged(compiling), bar)
    assert reading.value("jit_seconds_total", "deepgemm", "serving") == 3707
    assert read(decode(), bar).value("jit_seconds_total", "deepgemm", "serving") == 0


COMPILING = "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=1536, K=4096, num_groups=1 with all Ms. It only takes a little time"


@pytest.mark.parametrize(
    ("after", "running"),
    [
        ((), 1),
        ((tagged(COMPILING.replace("1536", "4096"), "02:01:00"),), 1),
        ((prefill(tags="TP1"),), 1),
        (("DeepGEMM warmup: 100%|██████████| 16384/16384 [01:47<00:00, 152.88it/s]",), 0),
        ((tagged("Load weight end. type=M, dtype=torch.bfloat16, avail mem=37.80 GB, mem usage=40.10 GB."),), 0),
        ((prefill(),), 0),
        ((decode(),), 0),
        ((arguments("02:05:00"),), 0),
        ((answer(at="02:15:01"),), 0),
    ],
)
def test_deepgemm_compiles_until_its_rank_does_something_else(after: tuple[str, ...], running: float) -> None:
    """Its bar is at its end, or a line tells of another thing; for want of both it is forgotten after 15 minutes."""
    reading = read(arguments(), tagged(COMPILING), *after)
    assert reading.value("jit_in_progress", "deepgemm") == running


def test_a_record_behind_a_bar_takes_nothing_from_it() -> None:
    """The bar has no line break; both tell what they tell."""
    compiling = "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=1536, K=4096, num_groups=1 with all Ms. It only takes a little time"
    bar = "DeepGEMM warmup: 100%|██████████| 16384/16384 [01:47<00:00, 152.88it/s]"
    for before in ("", "\rDeepGEMM warmup:  48%|████▊     | 7864/16384 [00:51<00:55, 152.9it/s]\r"):
        reading = read(decode(), tagged(compiling), before + bar + decode(running=7))
        assert reading.value("jit_seconds_total", "deepgemm", "serving") == 107
        assert reading.value("requests_running", "0") == 7


def test_decode_batches_after_a_failure_are_of_another_process() -> None:
    """The rank that failed prints none."""
    failed = read(arguments(), tagged(READY), decode("02:00:10"), tagged(CRASH, "02:00:20"), answer(at="02:00:30"), decode("02:00:40"))
    assert failed.state == "failed"
    assert failed.feed(decode("02:00:50")).state == "serving"


def test_a_watchdog_that_only_reports_tells_of_a_stall() -> None:
    """The engine is back with its next batch."""
    soft = tagged("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)")
    assert read(decode(), soft).state == "stalled"
    assert read(decode(), soft, decode()).state == "serving"
    assert read(decode(), soft, prefill()).state == "serving"
    assert read(decode(), soft).value("engine_failures_total", "watchdog_timeout") == 1


def test_a_capture_after_readiness_is_a_compile() -> None:
    """Before, it is a phase of the start."""
    end = "Capture target decode CUDA graph end. elapsed=3.00 s, mem usage=1.00 GB, avail mem=28.33 GB."
    reading = read(arguments(), tagged(end), tagged(READY, tags=""))
    assert reading.value("startup_seconds", "graph_capture") == 3
    assert ("cudagraph", "capture", "serving") not in reading.series("jit_events_total")

    reading = read(arguments(), tagged(READY, tags=""), tagged(end))
    assert reading.value("startup_seconds", "graph_capture") is None
    assert reading.value("jit_events_total", "cudagraph", "capture", "serving") == 1


def test_a_summary_stands_in_for_missing_lines() -> None:
    """The phases' own lines are by rank, and better."""
    told = tagged(
        "Engine startup timings (s): load_weight=26.30, kv_cache_allocation=1.22, scheduler_e2e=848.90, "
        "cuda_graph={target_prefill=1.00, target_decode=2.00, draft_extend=4.00}, tokenizer_e2e=854.21",
        tags="",
    )
    weights = tagged("Load weight end. elapsed=20.00 s, type=M, avail mem=71.33 GB, mem usage=21.88 GB.")
    assert read(weights, told).series("startup_seconds") == {
        ("load_weights",): 20.0,
        ("kv_profile",): 1.22,
        ("graph_capture",): 3.0,
        ("graph_capture_draft",): 4.0,
    }


# -- cost --------------------------------------------------------------------------------------------------------------


def test_hot_objects_have_few_attributes() -> None:
    """CPython finds up to 30 attributes of an object at once; with more a log takes a tenth longer."""
    assert len(vars(Log(2026).streams[""])) <= 30
    assert len(vars(Engine(Faults("x"), Digest()))) <= 30


# -- probes without access lines ---------------------------------------------------------------------------------------


def clockwork(*seconds: int) -> list[str]:
    """Batches of one token so many seconds after 02:00."""
    return [prefill(at=f"02:{second // 60:02}:{second % 60:02}") for second in seconds]


@pytest.mark.parametrize(
    ("lines", "probes"),
    [
        (clockwork(*range(0, 80, 10)), 8),
        (clockwork(*range(0, 120, 10)), 12),
        (clockwork(*range(0, 70, 10)), 0),
        (clockwork(0, 10, 20, 31, 40, 50, 60, 71), 8),
        (clockwork(0, 10, 20, 33, 40, 50, 60, 70), 0),
        (clockwork(0, 0, 0, 0, 0, 0, 0, 0), 0),
        ([*clockwork(0, 10, 20, 30), prefill(at="02:00:35", new=512), *clockwork(40, 50, 60, 70)], 0),
        ([*clockwork(0, 10, 20, 30), answer(at="02:00:35"), *clockwork(40, 50, 60, 70)], 0),
        ([prefill(at="01:59:00"), answer("GET /health", "01:59:01"), *clockwork(*range(0, 80, 10))], 1),
    ],
    ids=["eight", "twelve", "seven", "whole-seconds", "uneven", "a-burst", "work-between", "a-request-between", "answers-are-told"],
)
def test_clockwork_gives_probes_away(lines: list[str], probes: int) -> None:
    """Only where health checks print no answers, and their tokens count once."""
    reading = read(*lines)
    assert reading.value("probe_batches_total") == probes
    assert reading.value("probe_tokens_total") == probes
