"""What `/api/v1/events` tells: what changed, the last first, and which kernels compiled."""

from exporter.history import EVENTS_LIMIT
from exporter.jit_incidents import KERNELS_LIMIT

from .conftest import POST, RANK1, STOPPING, Reading, connector, failure, logo, read, skipped, stats, transfers
from .test_api import SERVING, STARTED, asked
from .test_jit import begins, ends, monitor
from .test_lifecycle import FATAL, error


def events(reading: Reading) -> list[tuple[str, int]]:
    """Names and counts, the last first."""
    return [(each["event"], each["count"]) for each in asked(reading, "/api/v1/events")["events"]]


def test_a_verdict_that_changes_is_an_event() -> None:
    """Of a pair: what tells little is none, between others."""
    decode = [logo("0.32.0"), connector("kv_consumer"), stats(), transfers(4), stats("03:14:30"), transfers(4, "03:14:30")]
    reading = read(*decode, skipped(at="03:14:40"), stats("03:14:41"))

    verdicts = [each["verdict"] for each in asked(reading, "/api/v1/events")["events"] if each["event"] == "verdict"]
    assert ["recomputing", "proven"] == verdicts
    assert [] == [each for each in events(read(*SERVING, stats())) if each[0] == "verdict"]


def test_events_are_the_last_ones_first() -> None:
    """Those that tell of a change; what is periodic is in the metrics."""
    assert [("engine_failure", 1), ("engine_ready", 1), ("engine_started", 1), ("engine_started", 1)] == events(
        read(*SERVING, stats(), POST, error(FATAL, "03:20:00"))
    )


def test_last_words_of_a_shutdown_are_no_failure() -> None:
    """As they are none in the metrics."""
    names = [name for name, _ in events(read(*SERVING, STOPPING, error(FATAL, "03:20:00")))]

    assert "engine_stopping" in names
    assert "engine_failure" not in names


def test_events_are_in_the_order_of_their_last_time() -> None:
    """One that goes on for long is not behind what it outlasted."""
    reading = read(*SERVING, skipped("cmpl-1", "03:16:00"), failure("transfer_failed", at="03:16:10"), skipped("cmpl-2", "03:16:20"))

    assert [("kv_load_skipped", 2), ("kv_transfer_failure", 1)] == [each for each in events(reading) if each[0].startswith("kv_")]


def test_an_event_that_repeats_is_one_entry_that_counts() -> None:
    """A minute without it begins another."""
    warnings = [skipped(f"cmpl-{number}", at) for at in ("03:16:00", "03:16:59", "03:17:58", "03:18:59") for number in range(5)]
    reading = read(*SERVING, *warnings)

    assert [("kv_load_skipped", 5), ("kv_load_skipped", 15)] == events(reading)[:2]
    first = asked(reading, "/api/v1/events")["events"][1]
    assert 118 == first["last_at"] - first["first_at"]


def test_kernels_that_compiled_while_serving_are_named() -> None:
    """Once each, and at the most 64."""
    reading = read(
        *STARTED, begins("03:13:00", kernel="before"), ends("03:13:09", kernel="before"), *SERVING[2:], monitor("a"), monitor("a", RANK1)
    )
    (kernel,) = asked(reading, "/api/v1/events")["jit_kernels"]
    assert ("tilelang", "compile", "a", 1) == tuple(kernel[key] for key in ("backend", "kind", "kernel", "compiles"))

    told = asked(reading.feed(*(monitor(f"k{number}") for number in range(500))), "/api/v1/events")
    assert [f"k{number}" for number in range(500 - KERNELS_LIMIT, 500)] == [each["kernel"] for each in told["jit_kernels"]]
    assert 64 == KERNELS_LIMIT


def test_a_kernel_has_only_harmless_letters() -> None:
    """Its name is text of the engine, and as long as a label may be."""
    (kernel,) = asked(read(*SERVING, monitor("<script>alert`1`" + "x" * 200)), "/api/v1/events")["jit_kernels"]

    assert kernel["kernel"].startswith("_script_alert_1_xx")
    assert 96 == len(kernel["kernel"])


def test_events_are_bounded() -> None:
    """Whatever the log says."""
    minutes = [f"{hour:02}:{minute:02}:00" for hour in range(4, 24) for minute in range(0, 60, 2)]
    reading = read(*SERVING, *(error(FATAL, at) for at in minutes))

    assert EVENTS_LIMIT == len(events(reading))
