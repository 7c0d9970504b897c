"""Nothing that a user wrote, no id, key or host gets out: every output of every command and page is searched."""

import base64
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from exporter import cli
from exporter.config import RESERVED_PATHS
from tests.exporter.conftest import Running, free_port, line, logo, wait_for
from tests.privacy.canaries import CANARIES, HEX, HOST, WORD, leaks, logs

SECRETS = {"INFERLOG_PASSWORD": WORD, "HF_TOKEN": WORD, "AWS_SECRET_ACCESS_KEY": HEX}
"""In the environment of every process here."""

NO_OUTPUT_OF_LOGS = {
    "run": "searched below",
    "demo": "reads bundled logs only",
    "drift": "reads the source of an engine, and no log",
    "replay": "writes the log itself, as it is told to",
}
OTHER_ARGUMENTS: dict[str, Callable[[Path], list[str]]] = {
    "export": lambda folder: ["alerts", str(folder / "exported")],
    "capacity": lambda folder: [str(min(folder.glob("*.log")))],
}
"""Of commands that do not take logs, or only one."""
FORMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "analyze": ((), ("--format=json",), ("--format=html",)),
    "backfill": (("--output=/dev/stdout", "--interval=1h"),),
    "check": ((), ("--json",)),
}
"""What a command can print."""


def command(name: str, files: Sequence[Path], folder: Path, form: Sequence[str] = ()) -> bytes:
    """All that a command prints and writes."""
    arguments = OTHER_ARGUMENTS[name](folder) if name in OTHER_ARGUMENTS else [str(file) for file in files]
    done = subprocess.run(
        [sys.executable, "-m", "exporter", name, *arguments, *form], capture_output=True, timeout=60, check=False, env=os.environ | SECRETS
    )
    assert done.returncode in {0, 1}, f"inferlog {name} cannot be called so: tell OTHER_ARGUMENTS how. {done.stderr.decode()}"
    return done.stdout + done.stderr


def ask(daemon: Running, path: str, method: str = "GET", **headers: str) -> bytes:
    """Headers and body of an answer, as they are sent."""
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.port}{path}", method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as response:
            body: bytes = response.read()
            return body if headers.get("Accept-Encoding") == "gzip" else response.headers.as_bytes() + body
    except urllib.error.HTTPError as error:
        with error:
            return error.headers.as_bytes() + error.read()


def pages(daemon: Running) -> Iterator[tuple[str, bytes]]:
    """Every page there is, and some that there are not."""
    for path in sorted(RESERVED_PATHS | {"/", "/metrics", "/nothing", "/runbooks/nothing"}):
        yield f"GET {path}", ask(daemon, path or "/")
        yield f"GET {path}?", ask(daemon, f"{path or '/'}?{WORD}={WORD}&name[]={WORD}", Cookie=WORD, Referer=WORD)
    yield "POST /-/reload", ask(daemon, "/-/reload", "POST")
    yield "GET a word", ask(daemon, f"/{WORD}")
    yield "OpenMetrics", ask(daemon, "/metrics", Accept="application/openmetrics-text;version=1.0.0")
    yield "gzip", ask(daemon, "/metrics", **{"Accept-Encoding": "gzip"})


def outputs(contents: dict[str, bytes], folder: Path, *more: str) -> Iterator[tuple[str, bytes]]:
    """All that anybody gets to see of some logs, by where."""
    files = []
    for name, content in contents.items():
        files.append(folder / f"{name}.log")
        files[-1].write_bytes(content)
    for name in cli.main.commands.keys() - NO_OUTPUT_OF_LOGS.keys():
        for form in FORMS.get(name, ((),)):
            yield " ".join((name, *form)), command(name, files, folder, form)
    state = folder / "state.json"
    arguments = [argument for file in files for argument in ("--log", str(file))]
    arguments += ["--state-file", str(state), "--web.enable-lifecycle", "--log.level", "debug", *more]
    daemon = Running(folder, free_port(), *arguments, prefix=["env", *(f"{key}={value}" for key, value in SECRETS.items())])
    try:
        daemon.wait_ready()
        if "--config" in more:
            wait_for(lambda: Engine.tokens, "the engine to be asked")
        yield from pages(daemon)
    finally:
        daemon.end()
    yield "state file", state.read_bytes()
    yield "our own log", daemon.errors.read_bytes()


class Engine(http.server.BaseHTTPRequestHandler):
    """An engine whose own metrics are full of canaries: models, adapters and engines are named by users."""

    tokens: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        """Answer, and remember the token."""
        self.tokens.append(self.headers["Authorization"])
        labels = f'{{engine="{WORD}",model_name="{WORD}",lora="{HEX}"}}'
        names = ("vllm:prompt_tokens_total", "vllm:num_preemptions_total", "vllm:num_requests_running", f"vllm:{WORD}_total")
        body = "".join(f"# TYPE {name} counter\n{name}{labels} 1.0\n" for name in names).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Path]:
    """A configuration with a source whose engine is asked for its own metrics, with a token."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (tmp_path / "token").write_text(WORD)
    (tmp_path / "witnessed.txt").write_text(f"{logo()}\n")
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    config = tmp_path / "inferlog.yaml"
    config.write_text(f"sources: [{{name: witnessed, path: witnessed.txt, engine_metrics_url: '{url}', engine_metrics_token_file: token}}]")
    yield config
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_canary_is_found_in_any_output(tmp_path: Path, witness: Path) -> None:
    """Prompts, answers, ids, keys, hosts and arguments of each engine, bare and wrapped, and secrets of the environment."""
    contents = logs()
    assert all(leaks(content) for content in contents.values())
    told = dict(outputs(contents, tmp_path, "--config", str(witness)))
    searched = {where: leaks(output) for where, output in told.items()}
    assert {} == {where: found for where, found in searched.items() if found}
    # What was searched is the real thing: all logs were read, and lines with canaries in them were understood.
    kinds = {json.loads(event)["event"] for event in told["events"].splitlines()}
    assert {"hazard", "engine_failure", "interval_stats", "http_responses"} <= kinds
    assert len(kinds) > 30
    assert f"Bearer {WORD}" in Engine.tokens
    assert all(f'source="{name}"'.encode() in told["GET /metrics"] for name in contents)


@pytest.mark.slow
def test_the_search_finds_a_leak_that_is_planted(tmp_path: Path) -> None:
    """A model's name is shown on purpose: one that is a canary is found wherever it is shown. Our log tells a path's name."""
    planted = "".join(
        f"{each}\n"
        for each in (
            logo(),
            line(f"non-default args: {{'model': '/models/m', 'served_model_name': ['{WORD}']}}"),
            line("Application startup complete."),
        )
    )
    missing = tmp_path / f"{HEX}.log"
    found = {where: leaks(output) for where, output in outputs({"planted": planted.encode()}, tmp_path, "--log", str(missing))}
    for where in (
        "metrics",
        "events",
        "analyze",
        "analyze --format=json",
        "analyze --format=html",
        "GET /metrics",
        "OpenMetrics",
        "gzip",
        "GET ",
        "state file",
        "our own log",
    ):
        assert found[where], where


@pytest.mark.parametrize(
    "dress",
    [
        lambda canary: canary.encode(),
        lambda canary: canary.upper().encode(),
        lambda canary: canary[3:].encode(),
        lambda canary: canary[:9].encode(),
        lambda canary: canary[::-1].encode(),
        lambda canary: base64.b64encode(f"ab{canary}".encode()),
        lambda canary: base64.urlsafe_b64encode(f"b{canary}".encode()),
        lambda canary: f"x{canary.encode().hex()}y".encode(),
        lambda canary: "".join(f"%{byte:02X}" for byte in canary.encode()).encode(),
        lambda canary: "".join(f"\\u{ord(each):04x}" for each in canary).encode(),
        lambda canary: gzip.compress(canary.encode()),
        lambda canary: json.dumps({"a": [canary]}).encode(),
    ],
)
@pytest.mark.parametrize("canary", CANARIES)
def test_the_search_sees_through_dresses(canary: str, dress: Callable[[str], bytes]) -> None:
    """Cut, encoded, compressed."""
    assert leaks(dress(canary))


def test_the_search_finds_nothing_in_nothing() -> None:
    """Else it would prove nothing."""
    assert not leaks(b"inferlog_log_lines_total 1 0123456789abcdef0123456789abcdef 198.51.100.7")
    assert HOST in CANARIES
