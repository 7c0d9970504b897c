"""The exposition: families, formats, several sources, series that vanish, counters born at 0, gauges that expire."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter import saved
from exporter.config import RESERVED_LABELS
from exporter.exposition import Snapshot, SnapshotCollector, SourceSnapshot, exposition
from exporter.families import FAMILIES
from exporter.source import Source

from .conftest import DEMO_LOGS, READY, YEAR, Reading, connector, demo_log, inferlog, line, logo, parsed, read, selected, stats, transfers

ARRIVAL = 1_783_998_860.0


def snapshot(source: Source, now: float | None = None) -> SourceSnapshot:
    """All samples of a source."""
    (only,) = source.snapshots(now)
    return only


def whole(name: str) -> Source:
    """A bundled log, read to its end."""
    source = saved.open_source(demo_log(name), name)
    for _ in saved.read(demo_log(name), source):
        pass
    return source


def registry(*sources: Source) -> CollectorRegistry:
    """A registry that reads these sources at each scrape."""
    found = CollectorRegistry()
    found.register(SnapshotCollector(lambda: Snapshot([snapshot(source) for source in sources])))
    return found


# -- families ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_help_is_a_sentence(name: str) -> None:
    """It begins with a capital or a number, ends with a full stop, and says more than the name."""
    text = FAMILIES[name].help

    assert re.match(r"[A-Z0-9]", text)
    assert text.endswith(".")
    assert len(text.split()) >= 3
    assert "\n" not in text


@pytest.mark.parametrize("name", FAMILIES)
def test_counters_and_only_counters_end_in_total(name: str) -> None:
    """As Prometheus wants it."""
    assert ("counter" == FAMILIES[name].kind) == name.endswith("_total")


UNITS = {
    "duration": "_seconds",
    "timestamp": "_timestamp_seconds",
    "throughput": "_bytes_per_second",
    "memory": "_bytes",
    "lag": "_bytes",
    "usage": "_ratio",
    "hit": "_ratio",
    "acceptance_ratio": "_ratio",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_unit_stands_in_the_name(name: str) -> None:
    """Base units only, spelt out at the end of the name (before _total)."""
    stem = name.removesuffix("_total")

    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|gb|mib|gib|percent|percentage|secs?)(_|$)", stem)
    for word, unit in UNITS.items():
        if re.search(rf"(^|_){word}(_|$)", stem):
            assert stem.endswith(unit), f"{name} has no {unit}"


def test_labels_are_bounded_and_no_target_labels() -> None:
    """Names that Prometheus or Kubernetes give to targets are not ours."""
    avoided = {"type", "service", "env", "cluster", "zone", "stage", "pod", "namespace", "job", "instance", "request", "request_id", "host"}

    assert not avoided & {label for family in FAMILIES.values() for label in family.labels}


def test_no_static_label_can_have_the_name_of_a_family_label() -> None:
    """A static label `model` would vanish from engine_info, whose own label it is."""
    assert set() == {label for family in FAMILIES.values() for label in family.labels} - RESERVED_LABELS


# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEMO_LOGS)
def test_text_and_openmetrics_parse_back_to_the_same_values(name: str) -> None:
    """Two formats, one truth."""
    source = whole(name)
    text = parsed(generate_latest(registry(source)).decode())
    openmetrics = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_openmetrics(generate_openmetrics(registry(source)).decode())
        for sample in family.samples
    }

    assert len(text) > 50
    assert text == openmetrics


@pytest.mark.parametrize("name", DEMO_LOGS)
def test_every_family_has_help_and_type_before_its_series(name: str) -> None:
    """Each is told once."""
    text = exposition([snapshot(whole(name))])

    for series in {each for each, _ in parsed(text)}:
        assert 1 == text.count(f"# HELP {series} ")
        assert 1 == text.count(f"# TYPE {series} ")
        assert text.index(f"# TYPE {series} ") < text.index(f"\n{series}")


@pytest.mark.prometheus
@pytest.mark.parametrize("name", DEMO_LOGS)
def test_promtool_accepts_the_metrics_of_a_bundled_log(name: str, promtool: str) -> None:
    """No complaint at all: names, units, HELP, duplicates."""
    import subprocess

    metrics = inferlog("metrics", demo_log(name))
    assert 0 == metrics.returncode
    checked = subprocess.run([promtool, "check", "metrics"], input=metrics.stdout, capture_output=True, timeout=30, check=False)

    assert (0, b"", b"") == (checked.returncode, checked.stdout, checked.stderr)


# -- sources and labels ------------------------------------------------------------------------------------------------


def test_sources_stand_beside_each_other_in_one_family() -> None:
    """Every series says which source and which runtime it is from."""
    first, second = Source("a", year=YEAR), Source("b", year=YEAR)
    first.feed(f"{READY}\n".encode())
    second.feed(f"{logo()}\n".encode())
    text = exposition([snapshot(first), snapshot(second)])

    assert [1.0] == selected(text, "inferlog_engine_ready", source="a", runtime="vllm")
    assert [0.0] == selected(text, "inferlog_engine_ready", source="b", runtime="vllm")
    assert 1 == text.count("# TYPE inferlog_engine_ready gauge")


def test_static_labels_are_on_every_series_of_their_source() -> None:
    """A source without such a label has it empty, which Prometheus takes for absent."""
    first, second = Source("a", year=YEAR, labels={"pd_group": "g1", "tier": "gold"}), Source("b", year=YEAR, labels={"tier": "tin"})
    for source in (first, second):
        source.feed(f"{READY}\n".encode())
    series = parsed(exposition([snapshot(first), snapshot(second)]))

    labels = [dict(pairs) for name, pairs in series if name != "inferlog_build_info"]
    assert {("g1", "gold")} == {(each["pd_group"], each["tier"]) for each in labels if each["source"] == "a"}
    assert {("", "tin")} == {(each["pd_group"], each["tier"]) for each in labels if each["source"] == "b"}


def test_label_values_are_escaped() -> None:
    """Static labels are free text."""
    source = Source("a", year=YEAR, labels={"note": 'a "b"\\c\nd'})
    source.feed(f"{READY}\n".encode())

    assert [1.0] == selected(exposition([snapshot(source)]), "inferlog_engine_ready", note='a "b"\\c\nd')


def test_log_of_nobody_has_its_lines_and_no_engine() -> None:
    """Without any known line there is no engine to tell of."""
    reading = read("hello", "world")

    assert 2 == reading.value("log_lines_total", "unknown")
    assert {} == reading.series("engine_state")


# -- series that come and go -------------------------------------------------------------------------------------------


def test_vanished_gauge_is_absent_at_the_next_scrape() -> None:
    """A new process has no KV size yet: the old one's series is gone, not frozen."""
    source = Source("a", year=YEAR)
    found = registry(source)
    source.feed(f"{logo()}\n{line('GPU KV cache size: 640 tokens')}\n".encode())
    assert [640.0] == selected(generate_latest(found).decode(), "inferlog_kv_cache_size_tokens")

    source.feed(f"{logo(at='03:30:00')}\n".encode())
    assert [] == selected(generate_latest(found).decode(), "inferlog_kv_cache_size_tokens")


BORN = {
    "engine_starts_total": [()],
    "engine_failures_total": [
        (kind,)
        for kind in (
            "startup_failed",
            "engine_dead",
            "worker_died",
            "gpu_oom",
            "cuda_error",
            "collective_timeout",
            "rpc_timeout",
            "hang",
        )
    ],
    "config_hazards_total": [
        (kind,) for kind in ("unknown_env", "fp8_kv_unscaled", "chat_template_missing", "warmup_incomplete", "stats_disabled")
    ],
    "jit_events_total": [
        ("triton", "compile", "serving"),
        ("tilelang", "compile", "serving"),
        ("cutedsl", "compile", "serving"),
        ("triton", "autotune", "startup"),
        ("triton", "autotune", "serving"),
        ("tilelang", "compile", "startup"),
        ("flashinfer", "autotune", "startup"),
        ("inductor", "compile", "startup"),
        ("inductor", "compile", "serving"),
    ],
    "compile_cache_total": [("inductor", "hit"), ("inductor", "miss")],
    "kv_recomputed_requests_total": [()],
    "kv_recomputed_tokens_total": [()],
    "kv_load_failed_requests_total": [()],
    "log_lines_total": [(level,) for level in ("INFO", "WARNING", "ERROR", "CRITICAL", "unknown")],
    "unrecognised_lines_total": [(level,) for level in ("WARNING", "ERROR", "CRITICAL")],
}
BORN_WITH_NIXL = {
    "kv_transfers_total": [("0", "nixl")],
    "kv_transfer_bytes_total": [("0", "nixl")],
    "kv_transfer_seconds_total": [("0", "nixl")],
    "kv_transfer_post_seconds_total": [("0", "nixl")],
    "kv_transfer_empty_intervals_total": [("0", "nixl")],
    "kv_transfer_failures_total": [
        ("nixl", reason)
        for reason in (
            "handshake_setup",
            "handshake",
            "transfer_setup",
            "transfer",
            "transfer_exception",
            "transfer_release",
            "notification",
            "registration",
        )
    ],
    "kv_compatibility_checks_total": [("nixl", result) for result in ("passed", "mismatch", "undecodable")],
    "kv_expired_requests_total": [("nixl",)],
    "kv_reads_after_expiry_total": [("nixl",)],
}
BORN_LATE = {
    "http_responses_total": [("2xx",), ("3xx",), ("4xx",), ("5xx",)],
    "jit_observed_total": [("log", "startup"), ("log", "serving")],
    "jit_seconds_total": [("tilelang", "serving"), ("triton", "serving"), ("inductor", "startup")],
    "transport_errors_total": [("nixl",)],
}


@pytest.mark.parametrize(("family", "labels"), [(family, each) for family, sets in BORN.items() for each in sets])
def test_counter_is_born_at_0_once_the_runtime_is_known(family: str, labels: tuple[str, ...]) -> None:
    """increase() misses the first event of a series that is born at 1."""
    assert 0 == read(line("Using max model len 4096", level="DEBUG")).value(family, *labels)


@pytest.mark.parametrize(("family", "labels"), [(family, each) for family, sets in BORN_WITH_NIXL.items() for each in sets])
def test_counter_is_born_at_0_once_the_connector_is_known(family: str, labels: tuple[str, ...]) -> None:
    """Labels that are learnt from the log come with the arguments of the engine; without them there is no series."""
    assert None is read(line("Using max model len 4096")).value(family, *labels)
    assert 0 == read(logo(), connector("kv_consumer")).value(family, *labels)


@pytest.mark.parametrize("family", BORN_LATE)
def test_counter_that_no_rule_raises_is_born_at_0_too(family: str) -> None:
    """The first 5xx, the first sighting and the first native error are increases as well."""
    assert dict.fromkeys(BORN_LATE[family], 0.0).items() <= read(logo(), connector("kv_consumer")).series(family).items()


@pytest.mark.parametrize(("version", "value"), [("0.26.0", None), ("0.32.0", 0)])
def test_counter_is_born_only_where_the_engine_prints_its_number(version: str, value: float | None) -> None:
    """The interval line has a failure number from 0.32 on; before, 0 would be a claim."""
    reading = read(logo(version), connector("kv_consumer"))

    assert value == reading.value("kv_transfer_reported_failures_total", "0", "nixl")


def test_spec_counters_are_born_with_their_method() -> None:
    """The method is fixed per engine process."""
    method = "'speculative_config': {'method': 'dspark', 'num_speculative_tokens': 5}"
    reading = read(logo(), line(f"non-default args: {{'model': '/models/m', {method}}}"))

    assert {("0", "dspark"): 0} == reading.series("spec_drafts_total")
    assert {("0", "dspark"): 0} == reading.series("spec_accepted_tokens_total")


# -- gauges that expire ------------------------------------------------------------------------------------------------

PERIODIC = (
    "requests_running",
    "requests_waiting",
    "prompt_tokens_per_second",
    "generation_tokens_per_second",
    "kv_transfer_duration_seconds",
)


@pytest.mark.parametrize(
    ("times", "after", "there"),
    [
        pytest.param(["03:14:20"], 120, True, id="two-minutes"),
        pytest.param(["03:14:20"], 121, False, id="longer"),
        pytest.param(["03:14:10", "03:14:20"], 121, False, id="three-short-intervals"),
        pytest.param(["03:13:20", "03:14:20"], 180, True, id="three-intervals-of-a-minute"),
        pytest.param(["03:13:20", "03:14:20"], 181, False, id="longer-than-three-minutes"),
    ],
)
def test_periodic_gauges_expire_after_three_intervals_or_two_minutes(times: list[str], after: float, there: bool) -> None:
    """By the arrival of the last line, whichever is longer."""
    reading = Reading()
    for at in times:
        reading.feed(stats(at), transfers(4, at), arrival=ARRIVAL)

    for family in PERIODIC:
        assert there == bool(reading.series(family, now=ARRIVAL + after)), family
    assert 4.0 * len(times) == reading.value("kv_transfers_total", "0", "nixl", now=ARRIVAL + after)
    assert reading.series("stats_timestamp_seconds", now=ARRIVAL + after)


def test_gauge_comes_back_with_the_next_line() -> None:
    """Expiry forgets nothing but the value."""
    reading = Reading()
    reading.feed(stats("03:14:20"), arrival=ARRIVAL)
    assert {} == reading.series("requests_running", now=ARRIVAL + 1000)

    reading.feed(stats("03:31:00", running=5), arrival=ARRIVAL + 1000)
    assert {("0",): 5} == reading.series("requests_running", now=ARRIVAL + 1001)


def test_each_dp_engine_expires_by_its_own_lines() -> None:
    """An engine that went silent is not kept alive by its neighbour."""
    reading = Reading()
    reading.feed(stats("03:14:20", engine="Engine 000"), stats("03:14:20", engine="Engine 001"), arrival=ARRIVAL)
    for second in range(10, 60, 10):
        reading.feed(stats(f"03:15:{second}", engine="Engine 000"), arrival=ARRIVAL + 40 + second)

    assert {("0",), ("1",)} == set(reading.series("requests_running", now=ARRIVAL + 120))
    assert {("0",)} == set(reading.series("requests_running", now=ARRIVAL + 121))


def test_one_shot_reading_never_expires() -> None:
    """A saved log has no such clock: the last values stay."""
    reading = read(stats("03:14:20"), transfers(4), line("x", at="23:59:59"))

    for family in PERIODIC:
        assert reading.series(family), family


def test_capacity_never_expires() -> None:
    """What is printed once at the start is true until the next start."""
    reading = Reading()
    reading.feed(logo(), line("GPU KV cache size: 640 tokens"), READY, arrival=ARRIVAL)

    assert {("0", "device"): 640} == reading.series("kv_cache_size_tokens", now=ARRIVAL + 1e7)


# -- time --------------------------------------------------------------------------------------------------------------


def test_log_over_new_year_begins_in_the_old_year(tmp_path: Path) -> None:
    """Written from December 2025 to January 2026; 2025-12-31 23:50:00 UTC is 1767225000."""
    import os

    log = tmp_path / "engine.log"
    log.write_text(
        "(APIServer pid=1) INFO 12-31 23:50:00 [m.py:1]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.0\n"
        "(APIServer pid=1) INFO 01-01 00:10:00 [m.py:1] Using max model len 4096\n"
    )
    os.utime(log, (1767226200, 1767226200))  # 2026-01-01 00:10:00 UTC
    source = saved.open_source(str(log), "engine")
    for _ in saved.read(str(log), source):
        pass

    assert 1767225000 == {each.family: each.value for each in source.samples(None)}["engine_start_timestamp_seconds"]


def test_wrapping_time_is_the_time_of_an_event() -> None:
    """CRI's own time has a year and a zone; 2026-07-14 03:12:07 at +02:00 is 1783991527 s after the epoch."""
    reading = read(f"2026-07-14T03:12:07.000000000+02:00 stdout F {logo()}")

    assert 1783991527 == reading.value("engine_start_timestamp_seconds")
