"""What a start tells of itself: the phases between two lines, and the engine's first line in each generation."""

import pytest

from .conftest import CORE, RANK0, RANK1, READY, core, line, logo, read


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
