"""Small logs for the pipeline, what it makes of them, and a way to wait for a condition."""

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.checkpoint import StateFile
from exporter.config import Config, load
from exporter.daemon import Daemon
from exporter.source import Source

YEAR = 2026
DEMO_LOGS = ("dspark", "ngram", "pd-decode")
API = "APIServer pid=1"
CORE = "EngineCore pid=318"
RANK0, RANK1, RANK2, RANK3 = (f"Worker_TP{rank} pid={452 + rank}" for rank in range(4))

Labels = Mapping[str, str]


# -- lines of vLLM -----------------------------------------------------------------------------------------------------


def line(message: str, who: str = API, at: str = "03:14:20", *, level: str = "INFO", day: str = "07-14") -> str:
    """One record with vLLM 0.26's header."""
    return f"({who}) {level} {day} {at} [module.py:103] {message}"


def logo(version: str = "0.26.0", at: str = "03:12:07") -> str:
    """The API server's start line."""
    return line(f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}", API, at)


def core(version: str = "0.26.0", at: str = "03:12:15", who: str = CORE) -> str:
    """The engine core's start line."""
    config = "model='/models/m', speculative_config=None, max_seq_len=131072, tensor_parallel_size=8, served_model_name=m"
    return line(f"Initializing a V1 LLM engine (v{version}) with config: {config}", who, at)


def arguments(text: str, at: str = "03:12:07") -> str:
    """The line of the arguments that are no defaults."""
    return line(f"non-default args: {{'model': '/models/m', {text}}}", API, at)


def connector(role: str, policy: str = "recompute", more: str = "") -> str:
    """The arguments of an engine with NIXL."""
    config = f"kv_connector='NixlConnector', engine_id='e', kv_role='{role}', {more}kv_load_failure_policy='{policy}'"
    return arguments(f"'kv_transfer_config': KVTransferConfig({config})")


READY = "INFO:     Application startup complete."
STOPPING = line("[shutdown] API server: shutdown triggered", at="03:20:00")
POST = 'INFO:     10.42.3.17:41022 - "POST /v1/completions HTTP/1.1" 200 OK'


def stats(
    at: str = "03:14:20",
    *,
    prompt: float = 0.0,
    generation: float = 12.4,
    running: int = 1,
    engine: str = "Engine 000",
    more: str = "",
) -> str:
    """A periodic line; `more` is what follows the queue."""
    rates = f"Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {generation} tokens/s"
    return line(f"{engine}: {rates}, Running: {running} reqs, Waiting: 0 reqs{more}", API, at)


def transfers(number: int, at: str = "03:14:20", *, mean: float = 7.574, size: float = 6.937, more: str = "") -> str:
    """The connector's line of an interval; all zeros without a transfer, as vLLM prints it."""
    if not number:
        mean = size = 0
    values = (
        f"Num successful transfers={number}, Avg xfer time (ms)={mean}, P90 xfer time (ms)={mean}, Avg post time (ms)=0, "
        f"P90 post time (ms)=0, Avg MB per transfer={size}, Throughput (MB/s)={size}, Avg number of descriptors={number and 64.0}"
    )
    return line(f"KV Transfer metrics: {values}{more}", API, at)


def failure(kind: str, request: str | None = "cmpl-1", at: str = "03:14:20", who: str = RANK0) -> str:
    """A failure record of NIXL's connector."""
    named = f"'{request}'" if request else "None"
    return line(f"NIXL transfer failure: {kind} | Context: {{'failure_type': '{kind}', 'request_id': {named}}}", who, at, level="ERROR")


def skipped(request: str = "cmpl-1", at: str = "03:14:20", who: str = RANK0) -> str:
    """A worker leaves out the post-processing of a request whose load failed."""
    return line(f"Skipping KV post-processing for failed request {request}", who, at, level="WARNING")


# -- what the pipeline makes of them -----------------------------------------------------------------------------------


class Reading:
    """A source that is fed line by line, and its series."""

    def __init__(self, **settings: Any) -> None:
        self.source = Source("log", year=YEAR, **settings)

    def feed(self, *lines: str, arrival: float | None = None) -> "Reading":
        """Read whole lines; None for `arrival` is a saved log."""
        self.source.feed("".join(f"{each}\n" for each in lines).encode(), arrival)
        return self

    def series(self, family: str, now: float | None = None) -> dict[tuple[str, ...], float]:
        """All series of a family by their labels, without source and runtime."""
        return {each.labels: float(each.value) for each in self.source.samples(now) if each.family == family}

    def value(self, family: str, *labels: str, now: float | None = None) -> float | None:
        """One series' value, None when it is absent."""
        return self.series(family, now).get(labels)

    def one(self, family: str) -> str:
        """The first label of the series of a state set that is 1."""
        (chosen,) = [labels for labels, value in self.series(family).items() if value == 1]
        return chosen[0]

    @property
    def state(self) -> str:
        """The engine's state."""
        return self.one("engine_state")

    @property
    def verdict(self) -> str:
        """The verdict on P/D."""
        return self.one("pd_verdict")

    def check(self, name: str) -> str:
        """The status of one check of the verdict."""
        (status,) = [status for (check, status), value in self.series("pd_evidence").items() if check == name and value == 1]
        return status


def read(*lines: str, **settings: Any) -> Reading:
    """What the pipeline makes of a small saved log."""
    return Reading(**settings).feed(*lines)


def demo_log(name: str) -> str:
    """The path of a bundled log."""
    return str(resources.files("exporter") / "demo_logs" / f"{name}.log")


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The series of a text exposition."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def selected(text: str, name: str, **labels: str) -> list[float]:
    """The values of all series with this name and at least these labels."""
    return [value for (each, pairs), value in parsed(text).items() if each == name and labels.items() <= dict(pairs).items()]


# -- real processes ----------------------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 15.0) -> Any:
    """The first true value of the condition; fails when the deadline passes."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        pause.wait(0.01)
    pytest.fail(f"waited {seconds:g} s for {what}")


def inferlog(*arguments: str, **settings: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run the command to its end."""
    return subprocess.run([sys.executable, "-m", "exporter", *arguments], capture_output=True, timeout=30, check=False, **settings)


class Running:
    """An `inferlog run` of its own."""

    def __init__(self, folder: Path, port: int, *arguments: str, stdin: int | None = subprocess.DEVNULL) -> None:
        self.port = port
        self.errors = folder / f"stderr-{port}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "exporter", "run", "--web.listen-address", f"127.0.0.1:{port}", *arguments],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def get(self, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
        """Status and body; status 0 while nobody listens."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with opener.open(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            if self.process.poll() is not None:
                pytest.fail(f"the daemon ended: {self.errors.read_text()}")
            return 0, ""

    def wait_ready(self) -> "Running":
        """Wait until the history is read."""
        wait_for(lambda: self.get("/-/ready")[0] == 200, "the daemon to be ready")
        return self

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of all series with these labels, None without any."""
        status, text = self.get()
        values = selected(text, name, **labels) if status == 200 else []
        return sum(values) if values else None

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait(10)

    def wait_value(self, expected: float, name: str, **labels: str) -> None:
        """Wait until the sum of these series is as expected."""
        wait_for(lambda: self.value(name, **labels) == expected, f"{name} {labels} to be {expected}; it is {self.value(name, **labels)}")

    def end(self) -> int:
        """Ask the process to end; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            raise
        finally:
            if self.process.stdout:
                self.process.stdout.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start daemons, each on a free port, and end those that a test left running."""
    started: list[Running] = []

    def start(*arguments: str, port: int | None = None, **settings: Any) -> Running:
        started.append(Running(tmp_path, port or free_port(), *arguments, **settings))
        return started[-1]

    yield start
    for each in started:
        each.end()


def free_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def expired_and_failed(request: str, variable: str) -> list[str]:
    """Lines that carry a request's id, a host or a user's word."""
    context = f"{{'failure_type': 'transfer_failed', 'request_id': '{request}', 'remote_host': '10.1.2.3'}}"
    return [
        line(f"Unknown vLLM environment variable detected: {variable}", level="WARNING"),
        line(f"NIXL transfer failure: transfer_failed | Context: {context}", RANK0, level="ERROR"),
        skipped(request),
        line(f"Releasing expired KV blocks for request {request} which were retrieved by 0 remote worker(s) before lease expired.", RANK0),
        line(f"Potentially invalid KV blocks for unrecognized request {request} were retrieved by a decode worker.", RANK0),
        line(f"Failing 1 request(s) due to KV load failure (failure_policy=fail, 9 tokens affected). Request IDs: {{'{request}'}}", CORE),
    ]


# -- a daemon in this process -------------------------------------------------------------------------------------------


class Node:
    """A configuration file, a state file, and the daemon that has them now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemon: Daemon | None = None
        self._state_file: StateFile | None = None

    def config(self, text: str) -> Config:
        """What a configuration file with this text says."""
        path = self.folder / "inferlog.yaml"
        path.write_text(text)
        return load(path)

    def start(self, text: str) -> Daemon:
        """A daemon whose threads do not run: the test says when it reads."""
        self._state_file = StateFile(self.folder / "state.json")
        self.daemon = Daemon(self.config(text), self._state_file)
        return self.daemon

    def kill(self) -> None:
        """Let go of everything without saving."""
        assert self.daemon
        assert self._state_file
        self.daemon._watcher.stop()
        for each in self.daemon.sources.values():
            each.close()
        self._state_file.close()
        self.daemon = None

    def scrape(self) -> dict[tuple[str, str, tuple[str, ...]], float]:
        """All series by source, family and labels."""
        assert self.daemon
        sources = self.daemon.snapshot().sources
        return {(each.common["source"], sample.family, sample.labels): float(sample.value) for each in sources for sample in each.samples}

    def counted(self, source: str = "engine") -> float | None:
        """Lines at INFO."""
        return self.scrape().get((source, "log_lines_total", ("INFO",)))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Where daemons come and go."""
    node = Node(tmp_path)
    yield node
    if node.daemon:
        node.kill()
