"""In which phase a start is, how readiness is known, and what an engine that is no server or does nothing is called."""

import pytest

from exporter.source import Source
from tests.conftest import DATA

from .conftest import CORE, POST, RANK0, RANK1, READY, STOPPING, YEAR, Reading, core, line, logo, read, stats
from .test_lifecycle import HANG, error
from .test_start import FOLLOWER, HEADLESS

STARTED = (logo(), core())
LOADING = "Starting to load model /models/m..."
LOADED = "Model loading took 35.64 GiB memory and {} seconds"
INITIALISED = "init engine (profile, create kv cache, warmup model) took 213.08 s (compilation: 52.44 s)"


def meeting(rank: int) -> str:
    """A rank waits for the others."""
    return f"world_size=2 rank={rank} local_rank={rank} distributed_init_method=tcp://127.0.0.1:43877 backend=nccl"


def in_phase(reading: Reading) -> tuple[str, float]:
    """The phase that a start is in, and the seconds from the start to its beginning."""
    start, began = reading.value("engine_start_timestamp_seconds"), reading.value("engine_phase_start_timestamp_seconds")
    assert start is not None
    assert began is not None
    return reading.one("engine_startup_phase"), began - start


@pytest.mark.parametrize(
    ("lines", "phase", "after"),
    [
        pytest.param([], "unknown", 0, id="nothing-told"),
        pytest.param([line(meeting(0), RANK0, "03:12:20"), line(meeting(1), RANK1, "03:12:25")], "distributed_init", 13, id="ranks-meet"),
        pytest.param([line(LOADING, RANK0, "03:12:30")], "load_weights", 23, id="loads"),
        pytest.param([line("Using V2 Model Runner", RANK0, "03:12:30")], "load_weights", 23, id="second-runner"),
        pytest.param(
            [line(LOADING, RANK0, "03:12:30"), line(LOADING, RANK1, "03:12:31"), line(LOADED.format(30), RANK0, "03:13:00")],
            "load_weights",
            23,
            id="one-rank-still-loads",
        ),
        pytest.param(
            [line(LOADING, RANK0, "03:12:30"), line("Loading weights took 64.83 seconds", RANK0, "03:12:50")],
            "load_weights",
            23,
            id="read-is-not-loaded",
        ),
        pytest.param(
            [line(LOADING, RANK0, "03:12:30"), line(LOADED.format(30), RANK0, "03:13:00")], "init_engine", 53, id="between-phases"
        ),
        pytest.param([line(LOADED.format(30), RANK0, "03:13:00")], "init_engine", 53, id="its-beginning-was-not-told"),
        pytest.param([line("[backbone] Starting torch.compile", RANK0, "03:13:00")], "compile", 53, id="compiles"),
        pytest.param(
            [
                line("Dynamo bytecode transform time: 11.27 s", RANK0, "03:13:00"),
                line("torch.compile took 52.44 s in total", RANK0, "03:13:46"),
            ],
            "init_engine",
            99,
            id="compiled",
        ),
        pytest.param([line("JIT kernel warmup starting.", RANK0, "03:13:53")], "jit_warmup", 106, id="warms-up"),
        pytest.param([line("Capturing model for DSpark speculator...", RANK0, "03:14:00")], "graph_capture_draft", 113, id="captures"),
        pytest.param([line(LOADING, RANK0, "03:12:30"), line(INITIALISED, CORE, "03:16:00")], "unknown", 233, id="routes-are-next"),
    ],
)
def test_a_start_is_in_the_phase_that_began_last(lines: list[str], phase: str, after: float) -> None:
    """Until it ends for all ranks that began it; with when that was."""
    assert (phase, after) == in_phase(read(*STARTED, *lines))


@pytest.mark.parametrize("lines", [[READY], [POST], [error("EngineCore failed to start.", "03:13:00")]], ids=["ready", "traffic", "failed"])
def test_only_a_start_has_a_phase(lines: list[str]) -> None:
    """An engine that serves or failed is in none."""
    reading = read(*STARTED, line(LOADING, RANK0), *lines)

    assert {} == reading.series("engine_startup_phase") == reading.series("engine_phase_start_timestamp_seconds")


def test_the_next_start_begins_with_no_phase() -> None:
    """Whatever the process before was at."""
    assert ("unknown", 0) == in_phase(read(*STARTED, line(LOADING, RANK0), logo(at="03:30:00")))


@pytest.mark.parametrize(
    ("log", "phases"),
    [
        ("vllm-0.10/rendered-decode-nixl", "distributed_init load_weights init_engine compile"),
        ("vllm-0.26/rendered-combined-dspark", "distributed_init load_weights init_engine compile jit_warmup graph_capture_draft"),
        ("vllm-0.33/rendered-decode-nixl-hma", "distributed_init load_weights init_engine compile jit_warmup"),
        ("vllm-0.32/captured-serve", "distributed_init load_weights"),
        ("sglang-0.5.17/rendered-startup-dspark", "distributed_init load_weights jit_warmup init_engine graph_capture graph_capture_draft"),
        ("sglang-0.5.23/rendered-startup-dspark", "distributed_init load_weights jit_warmup init_engine graph_capture graph_capture_draft"),
    ],
)
def test_real_starts_go_through_their_phases(log: str, phases: str) -> None:
    """In the words of each release."""
    source, seen = Source("log", year=YEAR), {}
    for each in (DATA / f"{log}.log").read_bytes().splitlines(keepends=True):
        source.feed(each)
        seen |= {s.labels[0]: 1 for s in source.samples(None) if s.family == "engine_startup_phase" and s.value}
    assert set(phases.split()) == seen.keys() - {"unknown"}
    assert source.engine.life.ready is not None or "startup" in log


# -- readiness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "observed"),
    [
        pytest.param([*STARTED], None, id="not-ready"),
        pytest.param([*STARTED, READY], 1, id="told"),
        pytest.param([stats()], 0, id="beginning-rotated-away"),
        pytest.param([*STARTED, POST], 0, id="ready-line-is-missing"),
        pytest.param([*STARTED, POST, READY], 1, id="told-a-little-later"),
        pytest.param([*STARTED, READY, STOPPING], None, id="stopped"),
        pytest.param([*STARTED, READY, error(HANG, "03:20:00")], 1, id="stalled"),
        pytest.param([*STARTED, READY, logo(at="03:30:00"), POST], 0, id="next-process"),
    ],
)
def test_readiness_says_how_it_is_known(lines: list[str], observed: float | None) -> None:
    """By the engine's own line, or by traffic where the beginning of the log is gone."""
    assert observed == read(*lines).value("engine_ready_observed")


# -- a worker, and silence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [HEADLESS, FOLLOWER])
def test_a_worker_is_never_ready_and_never_stuck(start: str) -> None:
    """Its log has no end of a start, nor traffic; a helper's HTTP server makes no engine."""
    reading = read(line(start), line(LOADING, RANK0), READY, line(HANG, RANK0, "03:20:00", level="WARNING"))

    assert "worker" == reading.state
    assert 0 == reading.value("engine_ready")
    assert {} == reading.series("engine_startup_phase")
    assert 0 == reading.value("engine_failures_total", "hang")


def test_silence_is_no_stall() -> None:
    """Running requests, no tokens, then nothing: a prefill of 900,000 tokens looks the same for 17 minutes."""
    reading = read(*STARTED, READY, stats(at="03:16:00"), stats(at="03:16:10", generation=0.0, running=1))

    assert "serving" == reading.state


def test_another_witness_can_tell_of_a_stall_and_tokens_end_it() -> None:
    """The engine's own metrics stand still while requests run."""
    reading = read(*STARTED, READY, stats(at="03:16:00"))
    reading.source.engine.life.stall()
    assert ("stalled", 1) == (reading.state, reading.value("engine_ready"))

    assert "serving" == reading.feed(stats(at="03:33:00")).state


@pytest.mark.parametrize(
    "before", [[], [*STARTED], [*STARTED, READY, STOPPING], [line(HEADLESS)]], ids=["unknown", "starting", "stopped", "worker"]
)
def test_only_an_engine_that_serves_can_stall(before: list[str]) -> None:
    """Others have nothing to do, or do it without tokens."""
    reading = read(line("x"), *before)
    state = reading.state
    reading.source.engine.life.stall()

    assert state == reading.state
