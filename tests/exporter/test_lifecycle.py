"""The life of an engine: starts, readiness, stops, crashes, incidents, start-up phases."""

import pytest

from .compiles import begins, ends
from .conftest import (
    API,
    CORE,
    POST,
    RANK0,
    RANK1,
    READY,
    STOPPING,
    arguments,
    connector,
    core,
    line,
    logo,
    read,
    skipped,
    stats,
    transfers,
)

COMPILES = (logo(), READY, stats("03:19:00"), begins("03:20:00"))
FATAL = "EngineCore encountered a fatal error."
NOT_STARTED = "EngineCore failed to start."
WORKER_DIED = "Worker proc VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor."
HANG = "No available shared memory broadcast block found in 60 seconds."
MONITOR = "Triton kernel JIT compilation during inference: _fwd_kernel. This causes a latency spike; consider extending warmup."


def error(message: str, at: str, who: str = CORE) -> str:
    """A record of level ERROR."""
    return line(message, who, at, level="ERROR")


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "state", "ready"),
    [
        pytest.param([line("Using max model len 131072")], "unknown", 0, id="attached-late"),
        pytest.param([logo()], "starting", 0, id="start"),
        pytest.param([logo(), core(), READY], "serving", 1, id="ready"),
        pytest.param([READY], "serving", 1, id="ready-without-start"),
        pytest.param([logo(), POST], "serving", 1, id="answers-without-a-ready-line"),
        pytest.param([stats()], "serving", 1, id="tokens-without-a-ready-line"),
        pytest.param([logo(), stats(generation=0.0, running=0)], "starting", 0, id="an-idle-line-is-no-traffic"),
        pytest.param([logo(), 'INFO:     10.42.0.1:5 - "GET /health HTTP/1.1" 200 OK'], "starting", 0, id="a-probe-is-no-traffic"),
        pytest.param([logo(), READY, line(MONITOR, RANK0, level="WARNING")], "serving", 1, id="ready-then-jit"),
        pytest.param([logo(), READY, STOPPING], "stopped", 0, id="orderly-stop"),
        pytest.param([logo(), READY, "INFO:     Shutting down"], "stopped", 0, id="uvicorn-stops"),
        pytest.param([logo(), READY, error(FATAL, "03:20:00")], "failed", 0, id="crash"),
        pytest.param([logo(), READY, error(FATAL, "03:20:00"), STOPPING], "failed", 0, id="failed-wins-over-stopped"),
        pytest.param([logo(), READY, STOPPING, POST, stats(at="03:20:01")], "stopped", 0, id="answers-after-sigterm"),
        pytest.param([logo(), READY, error(FATAL, "03:20:00"), POST], "failed", 0, id="answers-after-a-crash"),
        pytest.param([logo(), READY, error(HANG, "03:20:00")], "stalled", 1, id="hang"),
        pytest.param([logo(), READY, error(HANG, "03:20:00"), stats(at="03:21:00")], "serving", 1, id="tokens-flow-again"),
        pytest.param([logo(), error(NOT_STARTED, "03:13:00")], "failed", 0, id="failed-start"),
    ],
)
def test_state_follows_the_lines_in_their_order(lines: list[str], state: str, ready: float) -> None:
    """Exactly one state is 1, and readiness goes with it."""
    reading = read(*lines)

    assert state == reading.state
    assert ready == reading.value("engine_ready")


def test_engine_is_known_by_its_header_alone() -> None:
    """A vLLM record that no rule knows still tells that vLLM writes this log."""
    reading = read(line("Resolved architecture: X"))

    assert "vllm" == reading.source.runtime
    assert "unknown" == reading.state


def test_ready_then_jit_counts_in_the_serving_phase_and_keeps_the_engine_ready() -> None:
    """The costliest incident: compiled after ready, nothing else looks wrong."""
    reading = read(logo(), core(), READY, line(MONITOR, RANK0, "03:16:00", level="WARNING"))

    assert 1 == reading.value("jit_events_total", "triton", "compile", "serving")
    assert 1 == reading.value("engine_ready")


# -- new processes -----------------------------------------------------------------------------------------------------


def test_other_process_names_within_one_start_are_the_same_start() -> None:
    """API server, engine core and DP engines each print a start line of one engine."""
    reading = read(
        logo(),
        core(who="EngineCore_DP0 pid=318"),
        core(who="EngineCore_DP1 pid=319"),
        READY,
    )

    assert 1 == reading.value("engine_starts_total")


def test_same_start_line_by_the_same_process_name_is_a_new_process_whatever_its_pid() -> None:
    """In a container the API server is always pid 1; elsewhere its pid changes."""
    reading = read(logo(), logo(at="03:13:00"))
    assert 2 == reading.value("engine_starts_total")

    reading.feed("(APIServer pid=99) INFO 07-14 03:14:00 [m.py:1]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.0")
    assert 3 == reading.value("engine_starts_total")


@pytest.mark.parametrize(
    "before", [[], [READY], [READY, STOPPING], [error(FATAL, "03:20:00")]], ids=["starting", "ready", "stopped", "failed"]
)
def test_new_process_resets_readiness_in_any_state(before: list[str]) -> None:
    """Whatever the old process was, the new one is starting."""
    reading = read(logo(), core(), *before, logo(at="03:30:00"))

    assert "starting" == reading.state
    assert 0 == reading.value("engine_ready")
    assert None is reading.value("engine_ready_timestamp_seconds")
    assert 2 == reading.value("engine_starts_total")


def test_core_line_of_the_second_start_folds_into_it() -> None:
    """After a restart the engine core's line belongs to the API server's start again."""
    reading = read(logo(), core(), READY, logo(at="03:30:00"), core(at="03:30:08"), READY)

    assert 2 == reading.value("engine_starts_total")
    assert "serving" == reading.state


def test_other_engine_core_of_a_failed_start_is_no_new_start() -> None:
    """DP engine 1 prints its start line a second after DP engine 0 failed: one start, one failed engine."""
    reading = read(
        logo(),
        core(who="EngineCore_DP0 pid=318", at="03:12:15"),
        error(NOT_STARTED, "03:12:16", "EngineCore_DP0 pid=318"),
        core(who="EngineCore_DP1 pid=319", at="03:12:17"),
    )

    assert 1 == reading.value("engine_starts_total")
    assert "failed" == reading.state


def test_new_process_resets_settings_capacity_and_evidence_but_no_counter() -> None:
    """Gauges and evidence are the current process's; counters never fall."""
    reading = read(
        logo(),
        connector("kv_consumer"),
        core(),
        line("Available KV cache memory: 18.08 GiB", RANK0),
        line("GPU KV cache size: 2,493,464 tokens", CORE),
        line("Maximum concurrency for 1,048,576 tokens per request: 2.38x", CORE),
        line("Model loading took 35.64 GiB memory and 71.40 seconds", RANK0),
        line("NIXL compatibility check passed (hash: 3f0c8a5b)", RANK0),
        line("Transfer plan: TransferTopology(tp_ratio=1, num_kv_heads=8, local_tp=4, remote_tp=4, remote_pp=0)", RANK0),
        line("Unknown vLLM environment variable detected: VLLM_X", level="WARNING"),
        READY,
        POST,
        stats(more=", GPU KV cache usage: 0.9%"),
        transfers(4),
        line(MONITOR, RANK0, level="WARNING"),
        error(FATAL, "03:20:00"),
    )
    counters = {family: dict(reading.series(family)) for family in COUNTERS}
    assert all(sum(values.values()) > 0 for values in counters.values())
    assert "pass" == reading.check("transfers_growing")

    reading.feed(logo("0.32.0", at="03:30:00"))

    for family in GONE:
        assert {} == reading.series(family), family
    assert [("0.32.0", "", "", "", "", "", "")] == [labels[:7] for labels in reading.series("engine_info")]
    assert "unknown" == reading.one("pd_role")
    assert {"unknown"} <= {reading.check("transfers_growing"), reading.check("compatibility")}
    for family, before in counters.items():
        after = reading.series(family)
        assert all(after[labels] >= value for labels, value in before.items()), family


COUNTERS = (
    "engine_starts_total",
    "engine_failures_total",
    "config_hazards_total",
    "http_responses_total",
    "jit_events_total",
    "jit_observed_total",
    "kv_transfers_total",
    "kv_transfer_bytes_total",
    "kv_compatibility_checks_total",
    "log_lines_total",
)
GONE = (
    "kv_cache_size_tokens",
    "kv_cache_size_bytes",
    "kv_cache_max_concurrency",
    "max_model_len_tokens",
    "engine_memory_bytes",
    "engine_parallel_size",
    "kv_compatible_ranks",
    "kv_transfer_plan_info",
    "config_hazard_active",
    "startup_seconds",
    "engine_ready_timestamp_seconds",
    "requests_running",
    "kv_cache_usage_ratio",
    "kv_transfer_duration_seconds",
    "stats_timestamp_seconds",
)


def test_engine_info_names_what_the_process_was_started_with() -> None:
    """Version, model, connector, role, policy and speculation come from the start-up lines."""
    reading = read(
        logo("0.26.0"),
        arguments(
            "'served_model_name': ['chat'], 'kv_cache_dtype': 'fp8', 'speculative_config': {'method': 'dspark', 'num_speculative_tokens': 5}, "
            "'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', kv_role='kv_consumer', kv_load_failure_policy='fail')"
        ),
    )

    ((labels, value),) = reading.series("engine_info").items()
    assert ("0.26.0", "chat", "NixlConnector", "kv_consumer", "fail", "dspark", "fp8") == labels[:7]
    assert 1 == value
    assert {("dspark",): 5} == reading.series("spec_draft_length")


def test_settings_hash_differs_with_a_setting_and_not_with_the_version() -> None:
    """The hash is for comparing pods: the same settings under another version have the same hash."""
    hashes = [
        next(iter(read(logo(version), arguments(f"'max_model_len': {length}")).series("engine_info")))[7]
        for version, length in (("0.26.0", 4096), ("0.32.0", 4096), ("0.26.0", 8192))
    ]

    assert hashes[0] == hashes[1] != hashes[2]


def test_evidence_of_the_old_process_says_nothing_about_the_new_one() -> None:
    """A decode engine that recomputed is innocent after its restart."""
    reading = read(logo("0.32.0"), connector("kv_consumer"), skipped(), stats())
    assert "recomputing" == reading.verdict

    reading.feed(logo("0.32.0", at="03:30:00"), connector("kv_consumer"))
    assert "unproven" == reading.verdict


# -- incidents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([error(FATAL, "03:20:00")], {"engine_dead": 1}, id="one"),
        pytest.param(
            [error(FATAL, "03:20:00"), error("AsyncLLM output_handler failed.", "03:20:01", API)], {"engine_dead": 1}, id="two-tell"
        ),
        pytest.param([error(FATAL, "03:20:00"), error(FATAL, "03:21:00")], {"engine_dead": 1}, id="60-s"),
        pytest.param([error(FATAL, "03:20:00"), error(FATAL, "03:21:01")], {"engine_dead": 2}, id="61-s"),
        pytest.param([error(FATAL, "03:20:00"), error(WORKER_DIED, "03:20:00")], {"engine_dead": 1, "worker_died": 1}, id="two-kinds"),
        pytest.param([error(WORKER_DIED, "03:20:00")], {"worker_died": 1}, id="exit-9-is-no-host-oom"),
        pytest.param(
            [error("RayWorkerProc rank=[3] died unexpectedly, shutting down executor.", "03:20:00")], {"worker_died": 1}, id="ray-worker"
        ),
        pytest.param(
            [error("RayWorkerProc rank=[2, 3] died unexpectedly, shutting down executor.", "03:20:00")],
            {"worker_died": 1},
            id="ray-workers",
        ),
        pytest.param(
            [
                error("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.34 GiB.", "03:20:00", RANK0),
                error("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.34 GiB.", "03:20:00", RANK1),
            ],
            {"gpu_oom": 1},
            id="two-ranks",
        ),
        pytest.param([error("TimeoutError: RPC call to execute_model timed out.", "03:20:00")], {"rpc_timeout": 1}, id="rpc"),
    ],
)
def test_failures_are_incidents_not_lines(lines: list[str], expected: dict[str, float]) -> None:
    """Failures of one kind within 60 s are one incident; another kind, or a later one, is another."""
    failures = read(logo(), core(), READY, *lines).series("engine_failures_total")

    assert expected == {labels[0]: value for labels, value in failures.items() if value}


@pytest.mark.parametrize(
    "line_of_the_end",
    [error(WORKER_DIED, "03:20:01"), error("[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", "03:20:01", API)],
    ids=["worker", "core"],
)
def test_deaths_after_an_orderly_shutdown_are_part_of_it(line_of_the_end: str) -> None:
    """Whoever is ended by a signal says that it died."""
    reading = read(logo(), core(), READY, STOPPING, line_of_the_end)

    assert "stopped" == reading.state
    assert 0 == sum(reading.series("engine_failures_total").values())


@pytest.mark.parametrize("end", [STOPPING, error(FATAL, "03:20:00")], ids=["stopped", "failed"])
def test_ready_line_after_an_end_is_another_process(end: str) -> None:
    """Its start lines are not in the log when the level is WARNING."""
    reading = read(logo(), core(), READY, end, READY, POST)

    assert "serving" == reading.state
    assert 1 == reading.value("engine_ready")
    assert reading.value("startup_seconds", "total") is None


def test_failure_of_the_next_process_is_an_incident_of_its_own() -> None:
    """A crash loop faster than a minute counts each crash."""
    reading = read(logo(), READY, error(FATAL, "03:20:00"), logo(at="03:20:10"), READY, error(FATAL, "03:20:40"))

    assert 2 == reading.value("engine_failures_total", "engine_dead")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([error(WORKER_DIED, "03:13:00")], id="worker-dies"),
        pytest.param([error(NOT_STARTED, "03:13:00"), error(WORKER_DIED, "03:13:01")], id="worker-dies-after"),
        pytest.param([error(WORKER_DIED, "03:13:00"), error(NOT_STARTED, "03:13:01")], id="worker-dies-before"),
        pytest.param([error(NOT_STARTED, "03:13:00"), error("AsyncLLM output_handler failed.", "03:13:02", API)], id="api-finds-it-dead"),
        pytest.param(
            [
                error("WorkerProc failed to start.", "03:13:00", RANK0),
                error(NOT_STARTED, "03:13:01"),
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
            ],
            id="three-tell",
        ),
    ],
)
def test_deaths_inside_a_failed_start_belong_to_it(lines: list[str]) -> None:
    """A start that fails is one startup_failed, whoever dies."""
    failures = read(logo(), core(), *lines).series("engine_failures_total")

    assert {"startup_failed": 1} == {labels[0]: value for labels, value in failures.items() if value}


def test_api_server_that_dies_before_any_engine_is_a_failed_start() -> None:
    """A traceback that no logger printed, before the engine core's first line."""
    reading = read(
        logo(),
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/usr/local/bin/vllm", line 8, in <module>',
        "(APIServer pid=1) ValueError: Repo id must be in the form repo_name",
    )

    assert 1 == reading.value("engine_failures_total", "startup_failed")
    assert "failed" == reading.state


def test_ctrl_c_during_a_start_is_no_failure() -> None:
    """A traceback that ends in KeyboardInterrupt is somebody's wish."""
    reading = read(logo(), "(APIServer pid=1) Traceback (most recent call last):", "(APIServer pid=1) KeyboardInterrupt")

    assert 0 == reading.value("engine_failures_total", "startup_failed")


def test_tokens_after_a_failure_are_of_another_process() -> None:
    """Its start lines were lost. The first periodic line may tell of tokens from before the failure, and answers of nothing."""
    failed = read(logo(), READY, stats("03:19:55"), error(FATAL, "03:20:00"), POST, stats("03:20:05"), POST)
    assert ("failed", 0) == (failed.state, failed.value("engine_ready"))

    failed.feed(stats("03:20:15", generation=0.0))
    assert "failed" == failed.state
    failed.feed(stats("03:20:25"))
    assert ("serving", 0) == (failed.state, failed.value("engine_ready_observed"))
    assert failed.value("engine_start_timestamp_seconds") is None
    assert 2 == failed.feed(error(FATAL, "03:20:40")).value("engine_failures_total", "engine_dead")


def test_answers_end_a_hang_where_no_periodic_line_is_printed() -> None:
    """With --disable-log-stats they are all there is."""
    reading = read(logo(), READY, error(HANG, "03:20:00"), POST, error(HANG, "05:20:00"))
    assert ("stalled", 2) == (reading.state, reading.value("engine_failures_total", "hang"))

    assert "serving" == reading.feed(POST).state
    assert "stalled" == read(logo(), READY, stats(), error(HANG, "03:20:00"), POST).state
    assert "stalled" == read(logo(), READY, POST, POST, error(HANG, "03:20:00")).state, "those before it do not"


@pytest.mark.parametrize(
    ("lines", "incidents"),
    [
        pytest.param([logo(), core(), error(HANG, "03:14:00")], 0, id="while-compiling"),
        pytest.param([*COMPILES, error(HANG, "03:21:00"), error(HANG, "03:22:00")], 0, id="while-it-serves-and-compiles"),
        pytest.param([*COMPILES, error(HANG, "03:21:00"), ends("03:21:30"), error(HANG, "03:22:00")], 1, id="after-a-compile"),
        pytest.param([*COMPILES, error(HANG, "03:36:00")], 1, id="no-compile-takes-so-long"),
        pytest.param([logo(), READY, error(HANG, "03:20:00")], 1, id="after-ready"),
        pytest.param([stats(), error(HANG, "03:20:00")], 1, id="after-traffic"),
        pytest.param([logo(), READY, *(error(HANG, f"03:{minute}:00") for minute in range(20, 40))], 1, id="each-minute"),
        pytest.param(
            [logo(), READY, error(HANG, "03:20:00"), stats("03:30:00", generation=0.0, prompt=0.0, running=3), error(HANG, "03:31:00")],
            1,
            id="no-tokens-between",
        ),
        pytest.param(
            [logo(), READY, error(HANG, "03:20:00"), stats("03:30:00"), error(HANG, "03:31:00")],
            2,
            id="tokens-between",
        ),
        pytest.param([logo(), READY, STOPPING, error(HANG, "03:21:00")], 0, id="while-stopping"),
    ],
)
def test_hang_is_one_incident_until_tokens_flow(lines: list[str], incidents: float) -> None:
    """Before readiness the complaint is normal; after it, it repeats each minute and is still one hang."""
    assert incidents == read(*lines).value("engine_failures_total", "hang")


@pytest.mark.parametrize(
    "record",
    [
        "[rank0]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
        "[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
        "[rank3]:[E714 03:20:11.402113 455 ProcessGroupNCCL.cpp:685] [PG ID 2 PG GUID 3 Rank 3] Watchdog caught collective operation timeout: W",
        "[rank3]:[E714 03:20:11.402113 455 ProcessGroupNCCL.cpp:685] [PG 0 (default_pg) Rank 3] Watchdog caught collective operation timeout: W",
    ],
)
def test_watchdog_of_every_torch_is_a_collective_timeout(record: str) -> None:
    """With a thread and a time, without them, and with the process group's name."""
    assert 1 == read(logo(), READY, record).value("engine_failures_total", "collective_timeout")


# -- start-up phases ---------------------------------------------------------------------------------------------------


def loaded(seconds: float, who: str, gib: float = 35.64) -> str:
    """A rank has its weights."""
    return line(f"Model loading took {gib} GiB memory and {seconds} seconds", who, "03:13:00")


@pytest.mark.parametrize(
    ("lines", "phase", "seconds"),
    [
        pytest.param([loaded(71.5, RANK0), loaded(78.25, RANK1)], "load_weights", 78.25, id="slowest-rank"),
        pytest.param(
            [loaded(71.5, RANK0), loaded(78.25, RANK1), loaded(4.5, RANK0), loaded(3.25, RANK1)],
            "load_weights",
            78.25 + 4.5,
            id="target-and-draft",
        ),
        pytest.param([line("Loading weights took 64.83 seconds", RANK0)], "load_weights", 64.83, id="reading-is-the-fall-back"),
        pytest.param([line("Loading weights took 64.83 seconds", RANK0), loaded(71.5, RANK0)], "load_weights", 71.5, id="loading-wins"),
        pytest.param([line("torch.compile took 52.44 s in total", RANK0)], "compile", 52.44, id="compile-fall-back"),
        pytest.param(
            [
                line("torch.compile took 52.44 s in total", RANK0),
                line("init engine (profile, create kv cache, warmup model) took 213.08 s (compilation: 50.25 s)", CORE),
            ],
            "compile",
            50.25,
            id="the-init-line-wins",
        ),
        pytest.param([line("JIT kernel warmup finished in 27.31s.", RANK0)], "jit_warmup", 27.31, id="jit-warmup"),
        pytest.param([line("DeepSeek V4 mHC TileLang warmup finished in 18.62 seconds.", RANK0)], "jit_warmup", 18.62, id="mhc"),
        pytest.param([line("Graph capturing finished in 46 secs, took 2.31 GiB", RANK0)], "graph_capture", 46, id="capture"),
        pytest.param(
            [line("init engine (profile, create kv cache, warmup model) took 213.08 seconds", CORE)], "init_engine", 213.08, id="init"
        ),
    ],
)
def test_startup_seconds_is_the_slowest_rank_summed_over_models(lines: list[str], phase: str, seconds: float) -> None:
    """First the slowest rank of each round, then the sum over target and draft."""
    assert pytest.approx(seconds) == read(logo(), core(), *lines).value("startup_seconds", phase)


def test_phases_that_were_not_told_are_absent() -> None:
    """What the log cannot tell is no 0."""
    assert {} == read(logo(), core()).series("startup_seconds")


def test_total_is_ready_minus_start_by_the_log() -> None:
    """The ready line of uvicorn has no time: the last timed line before it counts. 03:12:07 to 03:15:00 are 173 s."""
    assert 173 == read(logo(at="03:12:07"), core(), line("Starting vLLM server", API, "03:15:00"), READY).value("startup_seconds", "total")


def test_total_of_the_second_start_is_its_own() -> None:
    """03:30:00 to 03:31:40 are 100 s."""
    reading = read(logo(), READY, STOPPING, logo(at="03:30:00"), core(at="03:30:09"), line("Starting", API, "03:31:40"), READY)

    assert 100 == reading.value("startup_seconds", "total")


def test_weights_of_target_and_draft_sum_up_on_each_rank() -> None:
    """Memory of a rank is both models'."""
    reading = read(logo(), loaded(1.0, RANK0, 35.5), loaded(1.0, RANK1, 35.5), loaded(1.0, RANK0, 2.25))

    assert {("TP0", "weights"): 37.75 * 2**30, ("TP1", "weights"): 35.5 * 2**30} == reading.series("engine_memory_bytes")
