"""What probes, benchmarks and people are told of the engines."""

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from exporter.source import Source
from exporter.status import Engines, View, unread
from exporter.web import make_app
from tests.conftest import DATA
from tests.test_goldens import LOGS

from .conftest import (
    CORE,
    RANK0,
    READY,
    STOPPING,
    YEAR,
    Reading,
    arguments,
    connector,
    core,
    expired_and_failed,
    line,
    logo,
    read,
    skipped,
    stats,
)
from .test_jit import begins, ends, monitor
from .test_lifecycle import FATAL, HANG, error
from .test_start import HEADLESS
from .test_state import restarted
from .test_web import Client

STARTED = (logo(), core())
LOADING = line("Starting to load model /models/m...", RANK0, "03:12:30")
PATHS = ("/", "/api/v1/status", "/api/v1/events", "/engine/startup", "/engine/ready")


def asking(*sources: Source, history_read: bool = True, others: Engines | None = None) -> Client:
    """A client of an application with these sources, at the last time of their logs."""

    def look(view: View) -> Engines:
        return [engine for source in sources for engine in view(source, 0.0)] + (others or [])

    return Client(make_app(CollectorRegistry(), lambda: history_read, lambda: "", telemetry_path="/metrics", look=look))


def asked(reading: Reading, path: str) -> dict[str, Any]:
    """What is said of the only engine."""
    (engine,) = asking(reading.source).get(path).json()["engines"]
    return dict(engine)


def named(name: str, *lines: str) -> Source:
    """A source that has read these lines."""
    source = Source(name, year=YEAR)
    source.feed("".join(f"{each}\n" for each in lines).encode())
    return source


# -- /engine/startup ---------------------------------------------------------------------------------------------------


def test_startup_tells_the_phase_and_how_long_it_has_lasted() -> None:
    """By the clock of the log."""
    told = asked(read(*STARTED, LOADING, line("x", RANK0, "03:13:40")), "/engine/startup")

    assert ("starting", "load_weights", 70, 93) == (told["state"], told["phase"], told["phase_elapsed_seconds"], told["elapsed_seconds"])
    assert (None, None, {}) == (told["ready_at"], told["total_seconds"], told["phase_seconds"])


def test_startup_of_an_engine_that_serves_is_what_it_took() -> None:
    """No phase, and the seconds of those that were."""
    loaded = line("Model loading took 35.64 GiB memory and 71.40 seconds", RANK0, "03:13:41")
    told = asked(read(*STARTED, LOADING, loaded, READY), "/engine/startup")

    assert (None, None, None) == (told["phase"], told["phase_elapsed_seconds"], told["elapsed_seconds"])
    assert ({"load_weights": 71.4}, 94) == (told["phase_seconds"], told["total_seconds"])
    assert told["ready_at"] - told["started_at"] == 94


def test_startup_that_failed_tells_in_which_phase() -> None:
    """What an operator looks for first."""
    told = asked(read(*STARTED, LOADING, error("EngineCore failed to start.", "03:13:00")), "/engine/startup")

    assert ("failed", None, "load_weights") == (told["state"], told["phase"], told["failed_in_phase"])


# -- /engine/ready -----------------------------------------------------------------------------------------------------

SERVING = (*STARTED, line("x", at="03:15:00"), READY)
COMPILES = begins("03:16:00")
JIT_OPS = "Loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16"


@pytest.mark.parametrize(
    ("lines", "code", "strict"),
    [
        pytest.param([], 503, 503, id="nothing-is-known"),
        pytest.param([*STARTED], 503, 503, id="starting"),
        pytest.param([*SERVING], 200, 200, id="ready"),
        pytest.param([stats()], 200, 200, id="traffic-tells"),
        pytest.param([*SERVING, COMPILES], 200, 503, id="compiles-later"),
        pytest.param([*SERVING, COMPILES, ends("03:16:09")], 200, 200, id="compiled"),
        pytest.param([*SERVING, COMPILES, line("x", at="03:31:01")], 200, 200, id="a-compile-without-end-is-forgotten"),
        pytest.param([*STARTED, begins("03:14:00"), line("x", at="03:15:00"), READY], 503, 503, id="warm-up-goes-on"),
        pytest.param([*STARTED, begins("03:14:00"), line("x", at="03:15:00"), READY, ends("03:15:09")], 200, 200, id="warm-up-is-over"),
        pytest.param([*SERVING, begins("03:15:00")], 200, 503, id="compiles-in-the-second-of-the-ready-line"),
        pytest.param([*SERVING, JIT_OPS], 200, 503, id="compiles-by-a-line-without-a-time"),
        pytest.param([*STARTED, JIT_OPS, line("x", at="03:15:00"), READY], 503, 503, id="warm-up-goes-on-without-a-time"),
        pytest.param(
            [*STARTED, begins("03:14:00"), READY, begins("03:14:05", kernel="b"), ends("03:14:09")], 200, 503, id="a-kernel-after-warm-up"
        ),
        pytest.param([*SERVING, error(FATAL, "03:20:00"), begins("03:20:20"), READY], 503, 503, id="next-process-warms-up"),
        pytest.param([*SERVING, error(HANG, "03:20:00")], 200, 200, id="stalled"),
        pytest.param([*SERVING, STOPPING], 503, 503, id="stopped"),
        pytest.param([*SERVING, error(FATAL, "03:20:00")], 503, 503, id="failed"),
        pytest.param([*SERVING, logo(at="03:30:00")], 503, 503, id="next-process"),
        pytest.param([line(HEADLESS), READY], 503, 503, id="a-worker-has-no-readiness"),
    ],
)
def test_ready_is_latched_at_the_first_true_readiness(lines: list[str], code: int, strict: int) -> None:
    """Warm-up over and HTTP up; what compiles later concerns only who asks with `strict`."""
    reading = read(*lines)
    for source in (reading.source, restarted(reading.source)[0]):
        client = asking(source)
        assert (code, strict) == (client.get("/engine/ready").status_code, client.get("/engine/ready?strict=1").status_code)
        assert (code == 200) == client.get("/engine/ready").json()["ready"]
    one_by_one = Reading()
    for each in lines:
        one_by_one.feed(each)
    assert code == asking(one_by_one.source).get("/engine/ready").status_code


def test_several_sources_are_ready_when_all_are() -> None:
    """Or the one that is asked for; a worker beside others is not asked."""
    client = asking(named("a", *SERVING), named("b", *STARTED), named("w", line(HEADLESS)))
    assert [503, 200, 503, 503] == [
        client.get(f"/engine/ready{query}").status_code for query in ("", "?source=a", "?source=b", "?source=w")
    ]

    assert 200 == asking(named("a", *SERVING), named("w", line(HEADLESS))).get("/engine/ready").status_code
    assert 503 == asking().get("/engine/ready").status_code


def test_engines_of_one_source_have_a_name_each() -> None:
    """The name of the source stands for all of them."""
    source = named("compose", f"prefill-1  | {logo()}", f"decode-1   | {logo()}", f"decode-1   | {READY}")
    client = asking(source)

    assert ["compose/prefill-1", "compose/decode-1"] == [each["source"] for each in client.get("/api/v1/status").json()["engines"]]
    queries = ("compose", "compose/decode-1", "compose/prefill-1", "compo", "decode-1")
    assert [503, 200, 503, 404, 404] == [client.get(f"/engine/ready?source={each}").status_code for each in queries]


def test_readiness_says_how_it_is_known() -> None:
    """By the engine's own line, or by its traffic."""
    assert "ready line" == asked(read(*SERVING), "/engine/ready")["known_by"]
    assert "traffic" == asked(read(stats()), "/engine/ready")["known_by"]
    assert ["tilelang"] == asked(read(*SERVING, COMPILES), "/engine/ready")["compiling"]


# -- while the history is read -----------------------------------------------------------------------------------------


def test_nothing_is_said_of_engines_until_the_history_is_read() -> None:
    """The status says so, the others are 503, and the page stays a page."""
    client = asking(named("a", *SERVING), history_read=False)

    assert {"reading_history": True, "engines": []}.items() <= client.get("/api/v1/status").json().items()
    assert [503, 503, 503] == [client.get(path).status_code for path in ("/api/v1/events", "/engine/startup", "/engine/ready")]
    page = client.get("/")
    assert 200 == page.status_code
    assert "Reading the history" in page.text
    assert "<h2>" not in page.text


def test_a_source_that_came_later_is_not_judged_by_half_its_history() -> None:
    """It is named, unknown, and not ready."""
    client = asking(named("a", *SERVING), others=[unread(named("late", *SERVING))])

    assert [("a", False), ("late", True)] == [
        (each["source"], each["reading_history"]) for each in client.get("/api/v1/status").json()["engines"]
    ]
    assert 503 == client.get("/engine/ready").status_code
    assert "Reading its history" in client.get("/").text


@pytest.mark.parametrize("path", PATHS)
def test_answers_about_engines_are_read_only_and_have_a_head(path: str) -> None:
    """A slash behind them is another path; POST is refused."""
    client = asking(named("a", *SERVING))

    assert [200, 405] == [client.request(method, path).status_code for method in ("HEAD", "POST")]
    assert path == "/" or 404 == client.get(f"{path}/").status_code
    assert path == "/" or 404 == client.get(f"{path}?source=nobody").status_code


# -- /api/v1/status ----------------------------------------------------------------------------------------------------


def test_status_tells_what_the_engine_is_and_holds() -> None:
    """On one page."""
    told = asked(
        read(
            *STARTED,
            arguments("'served_model_name': ['chat']"),
            line("GPU KV cache size: 640 tokens", CORE),
            *SERVING[2:],
        ),
        "/api/v1/status",
    )

    assert ("serving", "0.26.0", "chat", 1) == (told["state"], told["version"], told["model"], told["starts"])
    assert 8 == len(told["settings_hash"])
    assert {"dp_rank 0, pool device": 640} == told["capacity"]["kv_cache_size_tokens"]
    assert 131072 == told["capacity"]["max_model_len_tokens"]
    assert (True, "ready line", True) == tuple(told["readiness"][key] for key in ("ready", "known_by", "in_warmup_grace"))
    assert (None, None) == (told["changed_since_previous_start"], told["previous_process"])


def test_status_tells_incidents_hazards_and_compiles() -> None:
    """Counted as the metrics count them."""
    told = asked(
        read(
            *SERVING,
            line("Unknown vLLM environment variable detected: VLLM_X", level="WARNING"),
            monitor(at="03:50:00"),
            error(FATAL, "03:51:00"),
        ),
        "/api/v1/status",
    )

    assert ({"engine_dead": 1}, ["unknown_env"], {"service": 1}) == (told["failures"], told["hazards"], told["jit"]["incidents"])
    assert ["service"] == list(told["jit"]["last_incident_at"])


def test_status_tells_the_verdict_with_failing_checks_and_since_when() -> None:
    """As far as somebody looked."""
    reading = read(logo("0.32.0"), connector("kv_consumer"), skipped(), stats())
    told = asked(reading, "/api/v1/status")["pd"]
    assert ("recomputing", "decode", "fail") == (told["verdict"], told["role"], told["checks"]["no_recompute"])
    assert told["since"] == told["failing"]["no_recompute"]

    later = asked(reading.feed(line("x", at="03:20:00")), "/api/v1/status")["pd"]
    assert (told["verdict"], told["since"], told["failing"]) == (later["verdict"], later["since"], later["failing"])


@pytest.mark.parametrize(
    ("lines", "value", "disturbed"),
    [
        pytest.param([], None, [], id="nothing-is-known"),
        pytest.param([*STARTED], False, ["start-up"], id="starting"),
        pytest.param([*SERVING], True, [], id="idle"),
        pytest.param([*SERVING, COMPILES], False, ["compile"], id="compiles"),
        pytest.param([*SERVING, monitor(at="03:50:00")], False, ["compile"], id="compiled-just-now"),
        pytest.param([*SERVING, monitor(at="03:50:00"), line("x", at="03:51:01")], True, [], id="burst-is-over"),
        pytest.param([*SERVING, stats(running=3)], True, [], id="runs"),
        pytest.param([*SERVING, stats().replace("Waiting: 0", "Waiting: 2")], False, ["waiting requests"], id="requests-wait"),
        pytest.param([*SERVING, error(HANG, "03:20:00")], False, ["stalled"], id="stalled"),
        pytest.param([*SERVING, error(FATAL, "03:20:00")], False, ["failed"], id="failed"),
    ],
)
def test_status_tells_whether_a_benchmark_may_begin(lines: list[str], value: bool | None, disturbed: list[str]) -> None:
    """No start-up, no compile, nothing that waits."""
    assert {"value": value, "disturbed_by": disturbed} == asked(read(*lines), "/api/v1/status")["quiescent"]


# -- what changed since the previous start -----------------------------------------------------------------------------


def process(version: str, tokens: str, at: str, length: int = 4096) -> list[str]:
    """The first words of a process, up to its pool."""
    return [
        logo(version, at),
        arguments(f"'max_model_len': {length}, 'tensor_parallel_size': 2", at),
        line(f"GPU KV cache size: {tokens} tokens", CORE, at),
    ]


def test_what_changed_since_the_previous_start() -> None:
    """Version, settings, pool; a process that did not live to tell its pool is skipped."""
    reading = read(
        *process("0.26.0", "2,493,464", "03:00:00"), READY, logo("0.32.0", at="04:00:00"), error("EngineCore failed to start.", "04:01:00")
    )
    reading.feed(*process("0.32.0", "1,100,000", "05:00:00", length=8192))
    told = asked(reading, "/api/v1/status")

    assert {
        "kv_cache_size_tokens": {"dp_rank 0, device": {"before": 2493464, "now": 1100000}},
        "settings": {"max_model_len": {"before": "4096", "now": "8192"}},
    } == told["changed_since_previous_start"]
    assert ("0.32.0", "failed") == (told["previous_process"]["version"], told["previous_process"]["ended"])


def test_a_start_that_has_not_come_so_far_has_lost_nothing() -> None:
    """And one that comes up as before has changed in nothing; that its predecessor ended without a word is told."""
    reading = read(*process("0.26.0", "640", "03:00:00"), READY, logo("0.26.0", at="04:00:00"))
    assert {} == asked(reading, "/api/v1/status")["changed_since_previous_start"]

    told = asked(reading.feed(*process("0.26.0", "640", "04:00:00")[1:]), "/api/v1/status")
    assert ({}, "without a word") == (told["changed_since_previous_start"], told["previous_process"]["ended"])


def test_what_was_before_survives_a_restart_of_inferlog() -> None:
    """With the last events, the kernels, and since when the verdict holds."""
    reading = read(*process("0.26.0", "2,493,464", "03:00:00"), READY, monitor(at="03:40:00"), *process("0.32.0", "640", "05:00:00"))
    before = [asked(reading, path) for path in ("/api/v1/status", "/api/v1/events")]
    reading.source, _ = restarted(reading.source)

    assert before == [asked(reading, path) for path in ("/api/v1/status", "/api/v1/events")]
    assert {"version", "kv_cache_size_tokens"} == before[0]["changed_since_previous_start"].keys()


# -- users -------------------------------------------------------------------------------------------------------------


def test_no_answer_has_a_word_of_a_user() -> None:
    """Ids, hosts, names of variables, prompts and keys."""
    canary = "canary-7f3a"
    lines = [
        *STARTED,
        arguments(f"'api_key': ['{canary}'], 'chat_template': '/{canary}/x.jinja', 'max_model_len': 4096"),
        READY,
        *expired_and_failed(canary, canary.upper()),
        f'INFO:     10.1.2.3:5 - "GET /v1/{canary} HTTP/1.1" 200 OK',
        line(f"Received request {canary}: prompt: '{canary}'"),
        line(f"Remote engine at {canary}:5600 changed from {canary} to {canary}."),
        error(f"ValueError: {canary}", "03:20:00"),
        f"RuntimeError: {canary}",
    ]
    client = asking(read(*lines, *lines).source)

    for path in PATHS:
        text = client.get(path).text
        assert "kv_load_skipped" in text or path not in ("/", "/api/v1/events")
        assert canary not in text.lower()
        assert "10.1.2.3" not in text


# -- the page ----------------------------------------------------------------------------------------------------------


def test_page_loads_nothing_from_elsewhere_and_has_both_schemes() -> None:
    """No font, no picture, and of scripts the one that brings it up to date."""
    client = asking(read(*SERVING).source)
    script, page = '<script src="status.js" defer></script>', client.get("/").text
    text = page.replace(script, "") + client.get("/status.js").text

    assert script in page
    assert client.get("/status.js").headers["content-type"].startswith("text/javascript")
    assert not any(word in text for word in ("<script", "http://", "https://", "src=", "@import", "url("))
    assert "color-scheme: light dark" in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(
            [*STARTED, LOADING, line("x", RANK0, "03:13:40")], ["load_weights for 1 min 10 s", "starting for 1 min 33 s"], id="starting"
        ),
        pytest.param(
            [*STARTED, LOADING, error("EngineCore failed to start.", "03:13:00")], ["failed in phase", "startup_failed 1"], id="failed"
        ),
        pytest.param([*SERVING, COMPILES, line("x", at="03:16:09")], ["tilelang for 9 s", "no: compile"], id="compiles"),
        pytest.param([*SERVING, monitor(at="03:50:00")], ["1 in service (last 2026-07-14 03:50:00Z)"], id="jit"),
        pytest.param([logo("0.32.0"), connector("kv_consumer"), skipped(), stats()], ["recomputing", "no_recompute fails"], id="pd"),
        pytest.param(
            [*process("0.26.0", "2,493,464", "03:00:00"), *process("0.32.0", "640", "05:00:00")],
            ["0.26.0 → 0.32.0", "640 tokens"],
            id="changed",
        ),
        pytest.param([], ["unknown"], id="nothing"),
    ],
)
def test_page_says_what_matters(lines: list[str], words: list[str]) -> None:
    """In words."""
    text = asking(read(*lines).source).get("/").text

    assert [] == [word for word in words if word not in text]


@pytest.mark.parametrize("name", LOGS)
def test_every_real_log_has_all_answers(name: str) -> None:
    """Whatever is known of an engine, and whatever not."""
    source = Source("log", year=YEAR)
    data = (DATA / f"{name}.log").read_bytes()
    for part in (data[: len(data) // 3], data[len(data) // 3 :]):
        source.feed(part)
        client = asking(source)
        assert {200} == {client.get(path).status_code for path in PATHS[:-1]}
        assert client.get(PATHS[-1]).status_code in (200, 503)


def test_answers_are_json_whatever_the_engine_says() -> None:
    """A rate that is none becomes no number that JSON lacks."""
    spec = "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: 0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance rate: nan%"
    text = asking(read(*SERVING, stats(), line(spec)).source).get("/api/v1/status").text

    assert json.loads(text, parse_constant=pytest.fail)


def test_a_gateway_is_no_engine() -> None:
    """It neither starts nor becomes ready; what it tells of pairs is its own."""
    lines = (DATA / "sglang_router-0.3.2").glob("*.log")
    gateway = Source("router", year=YEAR)
    gateway.feed(b"".join(path.read_bytes() for path in sorted(lines)))
    client = asking(gateway, named("a", *SERVING))

    assert 200 == client.get("/engine/ready").status_code
    assert ["a"] == [each["source"] for each in client.get("/engine/startup").json()["engines"]]
    told = client.get("/api/v1/status?source=router").json()["engines"][0]
    assert ("sglang_router", "gateway") == (told["runtime"], told["state"])
    assert {"pair_selected", "params_injected"} == told["checks"].keys()
    assert "<h2>router" in client.get("/").text
