"""Two engines' own metrics, by the names that the engines give them, from a server of ours: each answer tells of a little more work."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)


class Engine:
    """An engine that is asked for its metrics; `slow` is what the incident makes of it."""

    def __init__(self, work: Callable[[CollectorRegistry], Callable[[bool], None]]) -> None:
        self.slow = self.refuses = False
        registry = CollectorRegistry()
        step = work(registry)
        lock = threading.Lock()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                # The exporter asks at an address of its own, so that it can be refused what Prometheus gets.
                if engine.refuses and self.path == "/own":
                    self.send_error(500)
                    return
                with lock:
                    step(engine.slow)
                    body = generate_latest(registry)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def end(self) -> None:
        """No more answers."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def vllm(registry: CollectorRegistry) -> Callable[[bool], None]:
    """What vLLM counts; in the incident the first token takes half a minute and prompts are computed here."""
    engine = {"engine": "0"}

    def counter(name: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", name, ("engine", *labels), registry=registry)

    def gauge(name: str) -> Gauge:
        return Gauge(f"vllm:{name}", name, ("engine",), registry=registry)

    def histogram(name: str) -> Histogram:
        return Histogram(f"vllm:{name}", name, ("engine",), buckets=_BUCKETS, registry=registry)

    first_token, transfer = histogram("time_to_first_token_seconds"), histogram("nixl_xfer_time_seconds")
    prompt, generated, by_source = counter("prompt_tokens"), counter("generation_tokens"), counter("prompt_tokens_by_source", "source")
    queries, hits = counter("prefix_cache_queries"), counter("prefix_cache_hits")
    drafted, accepted = counter("spec_decode_num_draft_tokens"), counter("spec_decode_num_accepted_tokens")
    preempted = counter("num_preemptions")
    running, waiting, usage = gauge("num_requests_running"), gauge("num_requests_waiting"), gauge("kv_cache_usage_perc")

    def step(slow: bool) -> None:
        for _ in range(4):
            first_token.labels(**engine).observe(33 if slow else 0.2)
        prompt.labels(**engine).inc(4000)
        generated.labels(**engine).inc(60 if slow else 400)
        by_source.labels(**engine, source="local_compute").inc(3900 if slow else 40)
        by_source.labels(**engine, source="external_kv_transfer").inc(100 if slow else 3960)
        queries.labels(**engine).inc(4000)
        hits.labels(**engine).inc(200 if slow else 3000)
        drafted.labels(**engine).inc(300)
        accepted.labels(**engine).inc(6 if slow else 180)
        preempted.labels(**engine).inc(2 if slow else 0)
        if not slow:
            transfer.labels(**engine).observe(0.2)
        running.labels(**engine).set(12 if slow else 4)
        waiting.labels(**engine).set(30 if slow else 0)
        usage.labels(**engine).set(0.99 if slow else 0.31)

    return step


def sglang(registry: CollectorRegistry) -> Callable[[bool], None]:
    """What SGLang counts."""

    def gauge(name: str) -> Gauge:
        return Gauge(f"sglang:{name}", name, registry=registry)

    first_token = Histogram("sglang:time_to_first_token_seconds", "time to first token", buckets=_BUCKETS, registry=registry)
    gauges = {
        gauge("num_running_reqs"): (4, 12),
        gauge("num_queue_reqs"): (0, 21),
        gauge("token_usage"): (0.4, 1.0),
        gauge("cache_hit_rate"): (0.7, 0.1),
        gauge("gen_throughput"): (420.0, 12.0),
        gauge("spec_accept_length"): (3.1, 1.1),
    }

    def step(slow: bool) -> None:
        first_token.observe(18 if slow else 0.3)
        for each, values in gauges.items():
            each.set(values[slow])

    return step
