"""Which compiles of an engine that serves are one incident, and which may be its users' warm-up."""

from pathlib import Path

import pytest

from exporter.config import ConfigError, from_flags, load

from .conftest import POST, RANK1, READY, Reading, core, inferlog, line, logo, read, stats
from .test_jit import begins, ends, graph, monitor
from .test_state import restarted

STARTED = (logo(at="03:00:00"), core(at="03:00:10"), line("x", at="03:05:00"))
SERVING = (*STARTED, READY)  # since 03:05


def incidents(reading: Reading) -> tuple[float, float]:
    """In the grace, and in service."""
    found = reading.series("jit_incidents_total")
    return found["warmup_grace",], found["service",]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([*SERVING], (0, 0), id="born-at-0"),
        pytest.param([*STARTED, graph(38.0, at="03:04:00"), READY], (0, 0), id="start-only"),
        pytest.param([*SERVING, monitor(at="03:06:00")], (1, 0), id="users-warm-up"),
        pytest.param([*SERVING, monitor(at="03:14:59")], (1, 0), id="last-second-of-the-grace"),
        pytest.param([*SERVING, monitor(at="03:15:00")], (0, 1), id="grace-is-over"),
        pytest.param([*SERVING, *(monitor(f"k{n}", at=f"03:20:{n:02}") for n in range(40))], (0, 1), id="a-burst"),
        pytest.param([*SERVING, monitor("a", at="03:20:00"), monitor("b", at="03:21:00")], (0, 1), id="60-s"),
        pytest.param([*SERVING, monitor("a", at="03:20:00"), monitor("b", at="03:21:01")], (0, 2), id="61-s"),
        pytest.param(
            [*SERVING, monitor("a", at="03:20:00"), monitor("b", at="03:20:50"), monitor("c", at="03:21:40")], (0, 1), id="goes-on"
        ),
        pytest.param([*SERVING, monitor("a", at="03:14:50"), monitor("b", at="03:15:10")], (1, 1), id="beyond-the-grace"),
        pytest.param([*SERVING, monitor(at="03:20:00"), monitor(at="03:20:01", who=RANK1)], (0, 1), id="ranks"),
        pytest.param([*SERVING, monitor(at="03:20:00"), begins("03:20:00"), ends("03:20:09")], (0, 1), id="monitor-and-pair"),
        pytest.param([monitor(at="03:06:00")], (0, 1), id="nothing-else-is-known"),
        pytest.param([stats(at="03:05:00"), monitor(at="03:06:00")], (0, 1), id="ready-inferred-without-a-start"),
        pytest.param([*STARTED, POST, monitor(at="03:06:00")], (1, 0), id="ready-inferred-after-a-start"),
        pytest.param([line("x", at="03:05:00"), READY, monitor(at="03:06:00")], (1, 0), id="ready-line-alone"),
        pytest.param([*STARTED, monitor(at="03:06:00")], (1, 0), id="during-inference-before-ready"),
        pytest.param([*SERVING, monitor(at="03:20:00"), logo(at="03:20:10"), READY, monitor(at="03:20:40")], (1, 1), id="next-process"),
    ],
)
def test_a_burst_is_one_incident_of_its_period(lines: list[str], expected: tuple[float, float]) -> None:
    """Less than a minute between two compiles; what goes on after the grace is an incident of its own."""
    assert expected == incidents(read(*lines))


def test_the_time_is_that_of_the_last_compile_of_the_period() -> None:
    """An alert asks how long ago that was."""
    reading = read(*SERVING, monitor("a", at="03:06:00"), monitor("b", at="03:20:00"), monitor("c", at="03:20:30"))
    ready = reading.value("engine_ready_timestamp_seconds")
    times = reading.series("jit_incident_timestamp_seconds")

    assert ready is not None
    assert {("warmup_grace",): 60, ("service",): 930} == {period: at - ready for period, at in times.items()}


def test_immediate_leaves_no_grace() -> None:
    """For whoever warms up before the engine says that it is ready."""
    assert (0, 1) == incidents(read(*SERVING, monitor(at="03:05:00"), warmup_grace=0.0))
    assert (0, 0) == incidents(read(*STARTED, graph(38.0, at="03:04:00"), READY, warmup_grace=0.0))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([*STARTED], None, id="not-ready"),
        pytest.param([*SERVING], 1, id="just-ready"),
        pytest.param([*SERVING, line("x", at="03:14:59")], 1, id="nearly-over"),
        pytest.param([*SERVING, line("x", at="03:15:00")], 0, id="over"),
        pytest.param([stats(at="03:05:00")], 0, id="may-serve-for-days"),
    ],
)
def test_the_gauge_says_whether_the_grace_lasts(lines: list[str], expected: float | None) -> None:
    """By the clock of the log."""
    assert expected == read(*lines).value("engine_in_warmup_grace")


def test_a_burst_goes_on_after_a_restart_of_inferlog() -> None:
    """It is the same incident."""
    reading = read(*SERVING, monitor("a", at="03:20:00"))
    reading.source, _ = restarted(reading.source)

    assert (0, 1) == incidents(reading.feed(monitor("b", at="03:20:30")))


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h", 3600), ("45", 45), ("1.5m", 90), ("immediate", 0), ("0", 0), ("null", 600)],
)
def test_the_grace_is_a_duration_of_the_source(tmp_path: Path, text: str, seconds: float) -> None:
    """As people write it."""
    path = tmp_path / "inferlog.yaml"
    path.write_text(f"sources: [{{path: a.log, warmup_grace: {text}}}]")

    assert seconds == load(path).sources[0].warmup_grace


@pytest.mark.parametrize("text", ["-1", "10 minutes", "never", "yes", "25h", "[]", "1e3", "'٣'"])
def test_what_is_no_duration_is_refused(tmp_path: Path, text: str) -> None:
    """With the place and what is expected."""
    path = tmp_path / "inferlog.yaml"
    path.write_text(f"sources:\n  - path: a.log\n    warmup_grace: {text}\n")

    with pytest.raises(
        ConfigError, match=r'3:19: sources\[0\]\.warmup_grace: expected a duration of at most a day such as "10m", or "immediate"'
    ):
        load(path)


def test_the_grace_is_a_flag(tmp_path: Path) -> None:
    """Of `run` for its logs, and of `metrics`."""
    log = tmp_path / "engine.log"
    log.write_text("".join(f"{each}\n" for each in (*SERVING, monitor(at="03:06:00"))))

    assert 90 == from_flags(None, logs=[str(log)], source_defaults={"warmup_grace": 90.0}).sources[0].warmup_grace
    text = inferlog("metrics", str(log), "--warmup-grace", "immediate").stdout.decode()
    assert 'inferlog_jit_incidents_total{period="service",runtime="vllm",source="engine"} 1.0' in text
    refused = inferlog("metrics", str(log), "--warmup-grace", "soon")
    assert 2 == refused.returncode
    assert b"expected a duration" in refused.stderr
