"""Settings that hurt: which lines tell of one, and how often it counts."""

import pytest

from .conftest import (
    API,
    CORE,
    POST,
    READY,
    line,
    logo,
    read,
)


def error(message: str, at: str, who: str = CORE) -> str:
    """A record of level ERROR."""
    return line(message, who, at, level="ERROR")


def hazard(variable: str, who: str, at: str = "03:12:08") -> str:
    """An environment variable that vLLM does not know."""
    return line(f"Unknown vLLM environment variable detected: {variable}", who, at, level="WARNING")


@pytest.mark.parametrize(
    ("lines", "sightings"),
    [
        pytest.param([hazard("VLLM_A", API), hazard("VLLM_A", CORE, "03:12:10")], 1, id="two-processes-within-2-s"),
        pytest.param([hazard("VLLM_A", API), hazard("VLLM_A", CORE, "03:12:11")], 2, id="3-s-apart"),
        pytest.param([hazard("VLLM_A", API), hazard("VLLM_B", CORE)], 2, id="two-variables"),
        pytest.param([hazard("VLLM_A", API), hazard("VLLM_A", API)], 2, id="one-process-twice"),
    ],
)
def test_hazards_fold_over_processes(lines: list[str], sightings: float) -> None:
    """The same hazard from other processes within 2 s is one sighting."""
    reading = read(logo(), *lines)

    assert sightings == reading.value("config_hazards_total", "unknown_env")
    assert {("unknown_env",): 1} == reading.series("config_hazard_active")


WARNING = line("Something", level="WARNING")


@pytest.mark.parametrize(
    ("lines", "sightings"),
    [
        pytest.param([WARNING, READY, *[POST] * 20], 1, id="never-a-word"),
        pytest.param([READY, *[POST] * 20, error("x", "03:20:00"), *[POST] * 200, READY, *[POST] * 200], 1, id="an-error-later"),
        pytest.param([WARNING, READY, *[POST] * 19], 0, id="hardly-any-traffic"),
        pytest.param([READY, *[POST] * 50], 0, id="not-even-a-warning"),
        pytest.param([line("x"), WARNING, READY, *[POST] * 50], 0, id="information"),
        pytest.param([WARNING, *[POST] * 50], 0, id="begins-after-the-start"),
    ],
)
def test_engine_that_never_says_a_word_at_information_level_is_a_hazard(lines: list[str], sightings: float) -> None:
    """It serves, it warned, and still nothing of what matters is in its log: VLLM_LOGGING_LEVEL is too high."""
    reading = read(*lines)

    assert sightings == (reading.value("config_hazards_total", "log_level_too_high") or 0)
    assert (1 if sightings else None) == reading.value("config_hazard_active", "log_level_too_high")


def test_hazard_detail_is_in_no_series() -> None:
    """The name of a variable is free text of the user."""
    reading = read(logo(), hazard("VLLM_MY_SECRET_NAME", API))

    assert not [each for each in reading.source.samples(None) if any("SECRET" in label for label in each.labels)]
