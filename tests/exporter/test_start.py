"""What a start tells of itself: the phases between two lines, and the engine's first line in each generation."""

import pytest

from .conftest import CORE, RANK0, RANK1, READY, arguments, core, line, logo, read, stats


@pytest.mark.parametrize("kind", ["an", "a V0", "a V1"])
def test_engine_tells_its_version_and_settings_in_every_generation(kind: str) -> None:
    """V0 prints its configuration as V1 does, under another name."""
    config = "model='/models/m', max_seq_len=4096, tensor_parallel_size=2, pipeline_parallel_size=1, kv_cache_dtype=auto"
    reading = read(line(f"Initializing {kind} LLM engine (v0.6.3.post1) with config: {config}", CORE))

    assert "starting" == reading.state
    assert 1 == reading.value("engine_starts_total")
    assert ("0.6.3.post1", "m") == next(iter(reading.series("engine_info")))[:2]
    assert 4096 == reading.value("max_model_len_tokens")
    assert 2 == reading.value("engine_parallel_size", "tp")


HEADLESS = "Launching 2 data parallel engine(s) in headless mode, with head node address tcp://10.0.0.1:29550."
FOLLOWER = (
    "Launching vLLM (v0.32.0) headless multiproc executor, with head node address 10.0.0.1:29501 for torch.distributed process group."
)


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        pytest.param([line(HEADLESS)], 1, id="data-parallel"),
        pytest.param([line(FOLLOWER)], 1, id="one-engine-on-several-nodes"),
        pytest.param([line(HEADLESS), core(who="EngineCore_DP2 pid=318"), core(who="EngineCore_DP3 pid=319")], 1, id="with-its-engines"),
        pytest.param([line(HEADLESS), core(), line(HEADLESS, at="03:30:00"), core(at="03:30:09")], 2, id="again"),
    ],
)
def test_headless_node_is_a_worker(lines: list[str], starts: float) -> None:
    """A node without an API server is no engine that somebody can ask, and never ready."""
    reading = read(*lines)

    assert "worker" == reading.state
    assert 0 == reading.value("engine_ready")
    assert starts == reading.value("engine_starts_total")


def test_headless_node_that_dies_has_failed() -> None:
    """The version is the engine's, and a death is no failed start."""
    reading = read(line(HEADLESS), core("0.26.0"), line("EngineCore encountered a fatal error.", CORE, "03:20:00", level="ERROR"))

    assert "failed" == reading.state
    assert 1 == reading.value("engine_failures_total", "engine_dead")
    assert "0.26.0" == next(iter(reading.series("engine_info")))[0]


@pytest.mark.parametrize(
    ("text", "experts"),
    [
        pytest.param("'tensor_parallel_size': 4, 'data_parallel_size': 2, 'enable_expert_parallel': True", 8, id="over-all-ranks"),
        pytest.param("'tensor_parallel_size': 4, 'enable_expert_parallel': True", 4, id="one-engine"),
        pytest.param("'tensor_parallel_size': 4", None, id="off"),
        pytest.param("'enable_expert_parallel': True", None, id="nothing-known"),
        pytest.param(
            "'tensor_parallel_size': 4, 'prefill_context_parallel_size': 2, 'enable_expert_parallel': True", None, id="more-dimensions"
        ),
    ],
)
def test_experts_are_spread_over_tensor_and_data_parallel_ranks(text: str, experts: float | None) -> None:
    """The size is told where all that it is made of is known."""
    assert experts == read(logo(), arguments(text)).value("engine_parallel_size", "ep")


def warning(message: str) -> str:
    """A record of level WARNING of a rank that starts."""
    return line(message, RANK0, level="WARNING")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        pytest.param([arguments("'disable_log_stats': True")], "stats_disabled", id="statistics-off"),
        pytest.param([warning("FP8 KV cache is enabled but prefill queries are not quantized to FP8.")], "fp8_kv_unscaled", id="queries"),
        pytest.param(
            [warning("Found model.layers.0.k_scale in the checkpoint (e.g. a), but not found the expected name in the model (e.g. b).")],
            "fp8_kv_unscaled",
            id="dotted-name",
        ),
        pytest.param(
            [warning("No FlashInfer autotune cache entries found.Falling back to default tactics.")], "warmup_incomplete", id="tactics"
        ),
        pytest.param([line("Skipping FlashInfer autotune because it is disabled.", RANK0)], "warmup_incomplete", id="tuning-off"),
        pytest.param([warning("Skipping CUDA graph capture. To turn on CUDA graph capture, x")], "warmup_incomplete", id="no-graphs"),
        pytest.param(
            [
                warning(
                    "The connector X is collecting stats but does not implement the `build_kv_connector_stats` method. Stats will not be logged."
                )
            ],
            "kv_telemetry_missing",
            id="connector-without-statistics",
        ),
    ],
)
def test_hazards_of_a_start_are_active_until_the_next(lines: list[str], kind: str) -> None:
    """One sighting, active while the process lives."""
    reading = read(logo(), *lines, READY, stats())
    assert 1 == reading.value("config_hazards_total", kind)
    assert {(kind,): 1} == reading.series("config_hazard_active")

    reading.feed(logo(at="03:30:00"))
    assert {} == reading.series("config_hazard_active")


@pytest.mark.parametrize("text", ["'disable_log_stats': False", "'disable_log_requests': True"])
def test_statistics_that_are_on_are_no_hazard(text: str) -> None:
    """Only the argument that turns the periodic lines off counts."""
    assert {} == read(logo(), arguments(text)).series("config_hazard_active")


def tuning(word: str, at: str, who: str = RANK0) -> str:
    """FlashInfer's autotuner, with its own header."""
    return f"({who}) 2026-07-14 {at},000 - INFO - autotuner.py:256 - flashinfer.jit: [Autotuner]: Autotuning process {word}"


DRAFT = "Capturing model for DSpark speculator..."
CAPTURED = "Graph capturing finished in 46 secs, took 2.31 GiB"


@pytest.mark.parametrize(
    ("lines", "phase", "seconds"),
    [
        pytest.param([line(DRAFT, RANK0, "03:14:00"), line(CAPTURED, RANK0, "03:14:06")], "graph_capture_draft", 6, id="draft"),
        pytest.param([line(DRAFT, RANK0, "03:14:00"), line(CAPTURED, RANK0, "03:14:06")], "graph_capture", 46, id="the-whole-keeps-both"),
        pytest.param(
            [
                line(DRAFT, RANK0, "03:14:00"),
                line(DRAFT, RANK1, "03:14:00"),
                line(CAPTURED, RANK0, "03:14:06"),
                line(CAPTURED, RANK1, "03:14:09"),
            ],
            "graph_capture_draft",
            9,
            id="slowest-rank",
        ),
        pytest.param([line(CAPTURED, RANK0, "03:14:06")], "graph_capture_draft", None, id="no-draft"),
        pytest.param([line(DRAFT, RANK0, "03:14:00"), line(CAPTURED, RANK1, "03:14:06")], "graph_capture_draft", None, id="another-rank"),
        pytest.param([line("Graph capturing finished in 18 secs.")], "graph_capture", 18, id="v0"),
        pytest.param([tuning("starts ...", "03:14:00"), tuning("ends", "03:14:21")], "autotune", 21, id="autotune"),
        pytest.param(
            [
                tuning("starts ...", "03:14:00"),
                tuning("starts ...", "03:14:00", RANK1),
                tuning("ends", "03:14:21"),
                tuning("ends", "03:14:25", RANK1),
            ],
            "autotune",
            25,
            id="slowest-tuner",
        ),
        pytest.param([READY, tuning("starts ...", "03:16:00"), tuning("ends", "03:16:21")], "autotune", None, id="tuning-while-serving"),
    ],
)
def test_phases_between_two_lines_take_the_time_of_the_log(lines: list[str], phase: str, seconds: float | None) -> None:
    """A phase that no line gives a duration lasts from the line that begins it to the one that ends it, in one process."""
    assert seconds == read(logo(), core(), *lines).value("startup_seconds", phase)
