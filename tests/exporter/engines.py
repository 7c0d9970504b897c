"""An engine's own /metrics: a server in its place, and a decode engine whose log and figures are read."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from exporter.evidence.engine_metrics import EngineReading
from exporter.evidence.engine_text import figures, is_wanted

from .conftest import READY, Reading, connector, core, logo

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_800_000_000.0


def exposition(
    *,
    local: float = 0,
    external: float = 0,
    requests: float = 0,
    moved: float = 0,
    failed: float = 0,
    preempted: float = 0,
    generated: float = 0,
    running: float = 0,
    started: float | None = 1.7e9,
) -> str:
    """What vLLM 0.32 answers, as far as it matters, in its own words and among others."""
    engine = 'engine="0",model_name="m"'
    lines = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{engine}}} {running}",
        f"vllm:kv_cache_usage_perc{{{engine}}} 0.25",
        f"vllm:num_preemptions_total{{{engine}}} {preempted}",
        f"vllm:num_preemptions_created{{{engine}}} 1.7e+09",
        f"vllm:generation_tokens_total{{{engine}}} {generated}",
        f'vllm:prompt_tokens_by_source_total{{{engine},source="local_compute"}} {local}',
        f'vllm:prompt_tokens_by_source_total{{{engine},source="local_cache_hit"}} 0.0',
        f'vllm:prompt_tokens_by_source_total{{{engine},source="external_kv_transfer"}} {external}',
        f'vllm:time_to_first_token_seconds_bucket{{{engine},le="0.001"}} 0.0',
        f"vllm:time_to_first_token_seconds_count{{{engine}}} {requests}",
        f"vllm:nixl_xfer_time_seconds_count{{{engine}}} {moved}",
        f"vllm:nixl_num_failed_transfers_total{{{engine}}} {failed}",
    ]
    if started is not None:
        lines.append(f"process_start_time_seconds {started}")
    return "\n".join([*lines, ""])


class Engine:
    """A server in the engine's place; `answer` is what it does with a request."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()
        self.answer: Callable[[Any], None] = lambda handler: self.send(handler, exposition())
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def do_GET(self) -> None:
                engine.methods.append("GET")
                engine.headers.append(dict(self.headers))
                engine.answer(self)

            def log_message(self, *args: object) -> None:
                """Nobody wants to know."""

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    engine.methods.append(name)
                raise AttributeError(name)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(0.01), daemon=True)
        self.thread.start()

    @staticmethod
    def send(handler: Any, body: str | bytes, status: int = 200, **headers: str) -> None:
        """One whole answer."""
        data = body.encode() if isinstance(body, str) else body
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def says(self, **values: float) -> None:
        """From now on it has these figures."""
        self.answer = lambda handler: self.send(handler, exposition(**values))

    def close(self) -> None:
        """End it."""
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class Pair:
    """A decode engine whose log and figures are read."""

    def __init__(self, *lines: str, version: str = "0.32.0", role: str = "kv_consumer") -> None:
        self.reading = Reading().feed(logo(version), core(version), connector(role), READY, *lines, arrival=NOW)
        self.now = NOW
        self.total: dict[str, float] = {}

    def told(self, after: float = 10.0, *, started: float | None = 1.7e9, **more: float) -> "Pair":
        """One more reading, in which the totals are so much higher."""
        self.now += after
        self.total = {name: self.total.get(name, 0.0) + more.get(name, 0.0) for name in self.total.keys() | more.keys()}
        return self.take("", exposition(**self.total, started=started))

    def take(self, reason: str, text: str = "") -> "Pair":
        """A reading as it is."""
        found = figures(filter(is_wanted, text.encode().split(b"\n"))) if text else None
        self.reading.source.witness([EngineReading(self.now, reason, found)], [], self.now)
        return self

    def series(self, family: str, now: float | None = None) -> dict[tuple[str, ...], float]:
        """The series of a family, by now or later."""
        return self.reading.series(family, now or self.now)

    def check(self, name: str, now: float | None = None) -> str:
        """The status of a check."""
        (status,) = [status for (check, status), value in self.series("pd_evidence", now).items() if check == name and value == 1]
        return status

    @property
    def verdict(self) -> str:
        """The verdict."""
        (verdict,) = [labels[0] for labels, value in self.series("pd_verdict").items() if value == 1]
        return verdict

    @property
    def ratio(self) -> float | None:
        """The share that it computed itself."""
        return self.series("pd_local_prefill_ratio").get(("engine_metrics",))
