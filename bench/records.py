"""The log of a decode engine of vLLM 0.33, record by record, with what each adds to the truth.

Every fact can be counted in one way only: a start is unbroken up to `Application startup complete.`, so that all compiles are those of
an engine that serves; one process tells of compiles, so that none is the same fact from another rank; the peer of a failed handshake,
an expired request and a compatibility hash are there once each.
"""

import random
import time

from bench.truth import Truth

MIB = 1024 * 1024
_FIRST_SECOND = 1_785_542_400  # 2026-08-01, 00:00:00: what the headers print
_POOL = 20_000
_SELDOM = 0.05
_PATHS = [("POST", "/v1/chat/completions", True)] * 9 + [("POST", "/v1/completions", True)] * 4 + [("POST", "/tokenize", True)]
_PROBES = [("GET", "/health", False)] * 4 + [("GET", "/metrics", False)] * 2 + [("GET", "/v1/models", False)]
_STATUSES = ["200 OK"] * 47 + ["400 Bad Request", "404 Not Found", "500 Internal Server Error"]
_KERNELS = ("_fwd_grouped_kernel_stage1", "fused_moe_kernel", "_topk_softmax_kernel", "merge_attn_states_kernel", "act_quant_kernel")
_MONITORS = ("Triton kernel", "TileLang kernel", "CuTeDSL")
_ROLE = (
    "KVTransferConfig(kv_connector='NixlConnector', engine_id='{id}', kv_buffer_device='cuda', kv_role='kv_consumer', "
    "kv_parallel_size=1, kv_connector_extra_config={{}}, kv_load_failure_policy='recompute')"
)
_SAMPLING = (
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, temperature={temperature}, watermarking=None, "
    "top_p=1.0, top_k=0, min_p=0.0, seed=None, stop=[], stop_token_ids=[], bad_words=[], thinking_token_budget=None, "
    "include_stop_str_in_output=False, ignore_eos=False, max_tokens={tokens}, min_tokens=0, logprobs=None, prompt_logprobs=None, "
    "skip_special_tokens=True, spaces_between_special_tokens=True, structured_outputs=None, extra_args={{'kv_transfer_params': "
    "{{'do_remote_decode': False, 'do_remote_prefill': True, 'remote_engine_id': '{engine}', 'remote_block_ids': [{blocks}], "
    "'remote_host': '10.0.0.7', 'remote_port': 5600}}}})"
)
_GAUGES = (
    "prompt_tokens_per_second", "generation_tokens_per_second", "requests_running", 'requests_waiting{queue="waiting"}',
    'requests_waiting{queue="deferred"}', "kv_cache_usage_ratio", 'prefix_cache_hit_ratio{cache="local"}', 'prefix_cache_hit_ratio{cache="external"}',
)  # fmt: skip
_DEFERRED, _EXTERNAL = _GAUGES[4], _GAUGES[7]


class Records:
    """One engine and those that take its place. Each method adds a record's lines to `lines`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same corpus each time
        self.truth = Truth()
        self.lines: list[str] = []
        self._second = _FIRST_SECOND
        self._pid = 1000
        self._answers = [self._answer() for _ in range(_POOL)]
        self._requests = [self._request() for _ in range(_POOL // 10)]
        self.next_second()

    def next_second(self) -> None:
        """Time goes by in the log."""
        self._second += 1
        self.stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime(self._second))
        self._api = f"(APIServer pid={self._pid}) "

    def _head(self, process: str, where: str, level: str = "INFO") -> str:
        pid = self._pid + {"A": 0, "E": 90}.get(process[0], 200 + int(process[-1]) if process[-1].isdigit() else 200)
        return f"({process} pid={pid}) {level} {self.stamp} [{where}] "

    def _hex(self, digits: int) -> str:
        return f"{self.random.getrandbits(4 * digits):0{digits}x}"

    def _number(self, most: float, digits: int = 1) -> str:
        return f"{self.random.random() * most:.{digits}f}"

    # -- what fills a log ----------------------------------------------------------------------------------------------

    def _answer(self) -> tuple[str, str]:
        """An access line, and the class that it counts in."""
        pick = self.random.choice
        method, path, counts = pick(_PATHS + _PROBES)
        status = pick(_STATUSES) if counts else "200 OK"
        client = f"10.0.{self.random.randrange(8)}.{self.random.randrange(256)}:{self.random.randrange(1024, 65536)}"
        return f'INFO:     {client} - "{method} {path} HTTP/1.1" {status}', f"{status[0]}xx" if counts else ""

    def access(self) -> None:
        """One answer."""
        line, code = self.random.choice(self._answers)
        self.lines.append(self._api + line)
        if code:
            self.truth.add(f'http_responses_total{{code="{code}"}}')

    def _request(self) -> str:
        blocks = ", ".join(str(self.random.randrange(9000)) for _ in range(self.random.randrange(4, 40)))
        sampling = _SAMPLING.format(
            temperature=self.random.choice((0.0, 0.6, 1.0)), tokens=self.random.randrange(16, 8192), engine=self._hex(32), blocks=blocks
        )
        return f"Received request chatcmpl-{self._hex(16)}-0: params: {sampling}, lora_request: None."

    def request(self) -> None:
        """One request, as --enable-log-requests prints it."""
        self.lines.append(f"{self._api}INFO {self.stamp} [request_logger.py:65] {self.random.choice(self._requests)}")

    # -- periodic lines ------------------------------------------------------------------------------------------------

    def stats(self, *, external: bool | None = None) -> None:
        """The main line; fields come and go."""
        chance, truth = self.random.random, self.truth
        prompt, generation, usage, hits, fetched = (self._number(most) for most in (9000, 2000, 100, 100, 100))
        running, waiting, deferred = (
            self.random.randrange(64),
            self.random.randrange(20),
            self.random.randrange(1, 9) * (chance() < _SELDOM),
        )
        external = chance() > _SELDOM if external is None else external
        self.lines.append(
            f"{self._head('APIServer', 'loggers.py:335')}Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: "
            f"{generation} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, {f'Deferred: {deferred} reqs, ' * bool(deferred)}"
            f"GPU KV cache usage: {usage}%, Prefix cache hit rate: {hits}%{f', External prefix cache hit rate: {fetched}%' * external}"
        )
        values = (float(prompt), float(generation), running, waiting, deferred, float(usage) / 100, float(hits) / 100, float(fetched) / 100)
        for selector, value in zip(_GAUGES, values, strict=True):
            known = {_DEFERRED: deferred or selector in truth.values, _EXTERNAL: external}.get(selector, True)
            if known:  # a queue that was told of is empty where it is left out, a rate stays
                truth.set(selector, value)

    def transfers(self) -> None:
        """NIXL's line."""
        count, failed = self.random.randrange(1, 64), self.random.randrange(1, 4) * (self.random.random() < _SELDOM)
        mean, post, size = self._number(20, 3), self._number(9, 3), self._number(80, 3)
        self.lines.append(
            f"{self._head('APIServer', 'metrics.py:108')}KV Transfer metrics: Num successful transfers={count}, Avg xfer time (ms)={mean}, "
            f"P90 xfer time (ms)={self._number(40, 3)}, Avg post time (ms)={post}, P90 post time (ms)={self._number(12, 3)}, "
            f"Avg MB per transfer={size}, Throughput (MB/s)={self._number(25000, 3)}, Avg number of descriptors={self._number(900)}, "
            f"Num failed transfers={failed}, Num KV expired reqs=0, Num notifs after expiry=0"
        )
        self.truth.add("kv_transfers_total", count)
        self.truth.add("kv_transfer_reported_failures_total", failed)
        self.truth.add("kv_transfer_bytes_total", count * float(size) * MIB)
        self.truth.add("kv_transfer_seconds_total", count * float(mean) / 1000)

    def speculation(self) -> None:
        """The line of speculative decoding."""
        drafts = self.random.randrange(50, 900)
        drafted, accepted = drafts * 3, self.random.randrange(drafts, drafts * 2)
        positions = ", ".join(self._number(1, 3) for _ in range(3))
        self.lines.append(
            f"{self._head('APIServer', 'metrics.py:105')}SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted "
            f"throughput: {accepted / 10:.2f} tokens/s, Drafted throughput: {drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: "
            f"{drafted} tokens, Per-position acceptance rate: {positions}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
        )
        self.truth.add("spec_accepted_tokens_total", accepted)
        self.truth.add("spec_draft_tokens_total", drafted)

    # -- rare ones -----------------------------------------------------------------------------------------------------

    def compile(self) -> None:
        """A kernel that is compiled while the engine serves."""
        self.lines.append(
            f"{self._head('Worker_TP0', 'jit_monitor.py:140', 'WARNING')}{self.random.choice(_MONITORS)} JIT compilation during inference: "
            f"{self.random.choice(_KERNELS)}. This causes a latency spike; consider extending warmup to cover this shape/config."
        )
        self.truth.add("jit_events_total")
        self.truth.add('jit_events_total{phase="serving"}')

    def handshake(self) -> None:
        """A failed handshake with its traceback, whose lines repeat the header."""
        head = self._head(f"Worker_TP{self.random.randrange(8)}", "base_worker.py:1435", "ERROR")
        self.lines += (
            (
                f"{head}NIXL transfer failure: handshake_setup_failed | Context: {{'failure_type': 'handshake_setup_failed', 'request_id': None, "
                f"'engine_id': '{self._hex(32)}', 'remote_engine_id': '{self._hex(32)}'}}"
            ),
            f"{head}Traceback (most recent call last):",
            f'{head}  File "/opt/vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py", line 1458, in done_callback',
            f"{head}    remote_agents, clock_offset = f.result()",
            f"{head}zmq.error.Again: Resource temporarily unavailable",
        )
        self.truth.add("kv_transfer_failures_total")
        self.truth.add('kv_transfer_failures_total{reason="handshake_setup"}')

    def recompute(self) -> None:
        """Requests whose KV could not be loaded."""
        requests, tokens = self.random.randrange(1, 5), self.random.randrange(256, 30_000)
        self.lines.append(
            f"{self._head('EngineCore', 'scheduler.py:2813', 'WARNING')}Recovered from KV load failure: {requests} request(s) rescheduled "
            f"({tokens} tokens affected)."
        )
        self.truth.add("kv_recomputed_requests_total", requests)
        self.truth.add("kv_recomputed_tokens_total", tokens)

    def expired(self) -> None:
        """A request whose KV nobody fetched in time."""
        self.lines.append(
            f"{self._head(f'Worker_TP{self.random.randrange(8)}', 'base_worker.py:2036', 'WARNING')}Releasing expired KV blocks for request "
            f"chatcmpl-{self._hex(16)}-{self._hex(8)} which were retrieved by 0 remote worker(s) before lease expired."
        )
        self.truth.add("kv_expired_requests_total")

    def compatible(self) -> None:
        """A rank that agrees with a peer."""
        self.lines.append(
            f"{self._head(f'Worker_TP{self.random.randrange(8)}', 'base_worker.py:1210')}NIXL compatibility check passed (hash: {self._hex(64)})"
        )
        self.truth.add("kv_compatibility_checks_total")
        self.truth.add('kv_compatibility_checks_total{result="passed"}')

    def start(self) -> None:
        """Another engine process, up to where it serves."""
        self._pid = self._pid % 60_000 + 1000
        self._api = f"(APIServer pid={self._pid}) "
        size, concurrency = self.random.randrange(1_000_000, 2_000_000), self._number(9, 2)
        args = f"{{'model': '/models/m', 'max_model_len': 131072, 'tensor_parallel_size': 8, 'kv_transfer_config': {_ROLE.format(id=self._hex(32))!r}}}"
        self.lines += (
            f"{self._head('APIServer', 'launcher.py:367')} ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.33.0",
            f"{self._head('APIServer', 'launcher.py:367')}  █▄█▀ █     █     █     █  model   /models/m",
            f"{self._head('APIServer', 'startup.py:96')}non-default args: {args}",
            (
                f"{self._head('EngineCore', 'core.py:139')}Initializing a V1 LLM engine (v0.33.0) with config: model='/models/m', "
                "speculative_config=None, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=8, pipeline_parallel_size=1, "
                "data_parallel_size=1, kv_cache_dtype=auto, device_config=cuda, seed=0, served_model_name=m, enable_prefix_caching=True"
            ),
            f"{self._head('Worker_TP0', 'default_loader.py:506')}Loading weights took {self._number(90, 2)} seconds",
            (
                f"{self._head('EngineCore', 'kv_cache_utils.py:1147')}GPU KV cache size: {size:,} tokens, Maximum concurrency for 131,072 tokens "
                f"per request: {concurrency}x"
            ),
            f"{self._head('EngineCore', 'core.py:405')}init engine (profile, create kv cache, warmup model) took {self._number(300, 2)} s",
            f"{self._head('APIServer', 'entry.py:139')}Starting vLLM server on http://0.0.0.0:8000",
            f"{self._api}INFO:     Started server process [{self._pid}]",
            f"{self._api}INFO:     Waiting for application startup.",
            f"{self._api}INFO:     Application startup complete.",
        )
        self.truth.forget(_GAUGES)
        self.truth.add("engine_starts_total")
        self.truth.set("engine_ready", 1)
        self.truth.set('jit_events_total{phase="startup"}', 0)
        self.truth.set("kv_cache_size_tokens", size)
        self.truth.set("kv_cache_max_concurrency", float(concurrency))
