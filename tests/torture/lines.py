"""What an engine prints, line by line and no line twice, with a tally of the numbers that were put in."""

import random
import time
from collections import Counter
from typing import NamedTuple

REASONS = {
    "handshake_setup_failed": "handshake_setup",
    "handshake_failed": "handshake",
    "transfer_setup_failed": "transfer_setup",
    "transfer_failed": "transfer",
    "transfer_exception": "transfer_exception",
    "transfer_release_failed": "transfer_release",
    "notification_failed": "notification",
}
UNKNOWN = "unknown"
LINE_LIMIT = 64 * 1024
WORDS = ("die", "Straße", "Größe", "漢字", "かな", "ключ", "🚀", "token", "block", "naïve", "µs", "½", "request")


class Line(NamedTuple):
    """One physical line: what stands before the message, the message, and the level that it has to be counted under."""

    level: str
    header: str
    message: str
    who: str = ""
    end: str = "\n"

    @property
    def text(self) -> str:
        return self.header + self.message


class EngineLog:
    """An engine that prints at random. `tally` holds `family{label}` to the sum of what was printed."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.tally: Counter[str] = Counter()
        # The log's own clock runs faster than ours: minutes must pass between incidents. It stays behind the real time,
        # since a first line of a later month than the file's would be one of last year.
        self.clock = time.time() - 25 * 86400
        self.number = 0
        self.ranks = 4
        self.restarts_due = 0
        self._later: list[tuple[int, list[Line]]] = []

    def next(self) -> list[Line]:
        """The lines of one thing that happened, to be written in a row."""
        self.number += 1
        self.clock += self.dice.choice((0, 0, 0, 0, 0.3, 1, 1, 2.5))
        jump = self.dice.choice((70, 130, 400)) if self.dice.random() < 0.002 else 0
        # What another rank has still to tell comes before a jump: ten minutes later it would count as another request.
        due = [lines for at, lines in self._later if jump or at <= self.number]
        self._later = [(at, lines) for at, lines in self._later if not jump and at > self.number]
        kind = self.dice.choices(KINDS, WEIGHTS)[0]
        if self.restarts_due:
            self.restarts_due -= 1
            kind = EngineLog.restart
        lines = [*(line for each in due for line in each), *kind(self)]
        for line in lines:
            self.add("log_lines_total", line.level)
            if len(line.text) > LINE_LIMIT:
                self.add("cut_lines_total")
        self.clock += jump
        return lines

    def add(self, family: str, label: str = "", by: float = 1) -> None:
        self.tally[f"{family}{{{label}}}"] += by

    # -- parts of lines ------------------------------------------------------------------------------------------------

    def at(self, shape: str = "%m-%d %H:%M:%S") -> str:
        return time.strftime(shape, time.gmtime(self.clock))

    def line(self, message: str, who: str = "APIServer pid=1", level: str = "INFO", end: str = "\n") -> Line:
        return Line(level, f"({who}) {level} {self.at()} [file.py:{self.number}] ", message, who, end)

    def worker(self) -> str:
        rank = self.dice.randrange(self.ranks)
        return f"Worker_TP{rank} pid={452 + rank}"

    def core(self) -> str:
        rank = self.dice.randrange(self.ranks)
        return f"EngineCore_{rank} pid={318 + rank}"

    def request(self) -> str:
        return f"cmpl-{self.number:x}-{self.dice.getrandbits(32):08x}"

    def words(self, count: int) -> str:
        return " ".join(self.dice.choices(WORDS, k=count))

    # -- what happens --------------------------------------------------------------------------------------------------

    def access(self) -> list[Line]:
        found = []
        for _ in range(self.dice.randint(1, 8)):
            code = self.dice.choice((200, 200, 200, 200, 200, 201, 307, 400, 404, 429, 500, 503))
            path = self.dice.choice(("/v1/completions", "/v1/chat/completions", f"/v1/x/{self.request()}", "/health", "/metrics"))
            if path not in ("/health", "/metrics"):
                self.add("http_responses_total", f"{code // 100}xx")
            client = f"10.{self.dice.randrange(256)}.{self.dice.randrange(256)}.7:{self.dice.randrange(1024, 65536)}"
            found.append(Line("INFO", "INFO:     ", f'{client} - "POST {path} HTTP/1.1" {code} OK', "APIServer pid=1"))
        return found

    def stats(self) -> list[Line]:
        dice, found = self.dice, []
        for rank in range(self.ranks):
            rates = (
                f"Avg prompt throughput: {dice.random() * 900:.1f} tokens/s, Avg generation throughput: {dice.random() * 90:.1f} tokens/s"
            )
            queues = f"Running: {dice.randrange(64)} reqs, Waiting: {dice.randrange(9)} reqs, Deferred: {dice.randrange(4)} reqs"
            cache = f"GPU KV cache usage: {dice.random() * 99:.1f}%, Prefix cache hit rate: {dice.random() * 99:.1f}%"
            found.append(
                self.line(f"Engine {rank:03d}: {rates}, {queues}, {cache}, External prefix cache hit rate: {dice.random() * 99:.1f}%")
            )
            found += [*self.spec(), *self.transfers()]
        return found

    def spec(self) -> list[Line]:
        drafted = self.dice.randint(1, 400) * 5
        accepted = self.dice.randint(0, drafted)
        self.add("spec_accepted_tokens_total", by=accepted)
        self.add("spec_draft_tokens_total", by=drafted)
        length = 1 + 5 * accepted / drafted
        rates = ", ".join(f"{self.dice.random():.3f}" for _ in range(5))
        return [
            self.line(
                f"SpecDecoding metrics: Mean acceptance length: {length:.2f}, Accepted throughput: {accepted / 10:.2f} tokens/s, Drafted "
                f"throughput: {drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance "
                f"rate: {rates}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
            )
        ]

    def transfers(self) -> list[Line]:
        number, failed = self.dice.choice((0, 1, 4, 17)), self.dice.choice((0, 0, 0, 2, 8))
        self.add("kv_transfers_total", by=number)
        self.add("kv_transfer_reported_failures_total", by=failed)
        self.add("kv_transfer_empty_intervals_total", by=number == 0)
        mean, size = (self.dice.random() * 20, self.dice.random() * 9) if number else (0, 0)
        return [
            self.line(
                f"KV Transfer metrics: Num successful transfers={number}, Avg xfer time (ms)={mean:.3f}, P90 xfer time (ms)={mean:.3f}, "
                f"Avg post time (ms)={mean / 4:.3f}, P90 post time (ms)={mean / 4:.3f}, Avg MB per transfer={size:.3f}, Throughput "
                f"(MB/s)={size * 3:.3f}, Avg number of descriptors={number * 2}, Num failed transfers={failed}, Num KV expired reqs=0, "
                "Num notifs after expiry=0"
            )
        ]

    def failure(self) -> list[Line]:
        kind = self.dice.choice(list(REASONS))
        self.add("kv_transfer_failures_total", REASONS[kind])
        context = f"{{'failure_type': '{kind}', 'request_id': '{self.request()}', 'engine_id': 'a', 'remote_engine_id': 'b'}}"
        return [self.line(f"NIXL transfer failure: {kind} | Context: {context}", self.worker(), "ERROR")]

    def failure_with_traceback(self) -> list[Line]:
        """A record over several lines: the header is repeated, and all lines but the last end in a carriage return."""
        first = self.failure()[0]
        rest = ["Traceback (most recent call last):", f'  File "/vllm/nixl.py", line {self.number}, in _read', f"    {self.words(3)}"]
        messages = [first.message, *rest, f"RuntimeError: {self.words(2)} {self.number}"]
        return [first._replace(message=each, end="\r\n") for each in messages[:-1]] + [first._replace(message=messages[-1])]

    def monitor(self) -> list[Line]:
        self.add("jit_events_total", "compile,serving")
        kernel = f"_kernel_{self.number}_{self.dice.getrandbits(16):x}"
        return [
            self.line(f"Triton kernel JIT compilation during inference: {kernel}. This causes a latency spike", self.worker(), "WARNING")
        ]

    def native(self) -> list[Line]:
        self.add("transport_errors_total", "nixl")
        header = f"E{self.at('%m%d %H:%M:%S')}.{self.number % 1000000:06d}   10913 nixl_agent.cpp:{self.dice.randint(1, 2000)}] "
        return [Line("ERROR", header, f"postXferReq: remote agent '{self.number}' was disconnected")]

    def recovered(self) -> list[Line]:
        requests, tokens = self.dice.randint(1, 9), self.dice.randint(1, 9999)
        self.add("kv_recomputed_requests_total", by=requests)
        self.add("kv_recomputed_tokens_total", by=tokens)
        text = f"Recovered from KV load failure: {requests} request(s) rescheduled ({tokens} tokens affected)."
        return [self.line(text, self.core(), "WARNING")]

    def load_failed(self) -> list[Line]:
        requests = self.dice.randint(1, 9)
        self.add("kv_load_failed_requests_total", by=requests)
        text = f"Failing {requests} request(s) due to KV load failure (failure_policy=fail, {self.number} tokens affected)."
        return [self.line(text, self.core(), "ERROR")]

    def expired(self) -> list[Line]:
        """Each rank tells of it, one of them much later: a request counts once, over a kill between the two as well."""
        self.add("kv_expired_requests_total")
        text = f"Releasing expired KV blocks for request {self.request()} which were retrieved by 0 remote worker(s) before lease expired."
        self._later.append((self.number + self.dice.randint(1, 40), [self.line(text, "Worker_TP1 pid=453", "WARNING")]))
        return [self.line(text, "Worker_TP0 pid=452", "WARNING")]

    def loose_traceback(self) -> list[Line]:
        """A traceback that no logger printed, line by line without a header."""
        frames = [f'  File "/vllm/{word}.py", line {self.number}, in step' for word in ("core", "loop")]
        last = f"ZeroDivisionError: {self.words(2)} {self.number}"
        return [Line(UNKNOWN, "", each) for each in ("Traceback (most recent call last):", *frames, last)]

    def restart(self) -> list[Line]:
        """The engine ends and another process begins; it forgets gauges and never a counter."""
        seconds = self.dice.random() * 90
        config = "KVTransferConfig(kv_connector='NixlConnector', engine_id='e', kv_role='kv_consumer', kv_load_failure_policy='recompute')"
        lines = [
            self.line(f"[shutdown] API server: shutdown triggered {self.number}"),
            self.line(" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.33.0"),
            self.line(
                f"non-default args: {{'model': '/models/m{self.number % 7}', 'tensor_parallel_size': 4, 'kv_transfer_config': {config}}}"
            ),
        ]
        for rank in range(self.ranks):
            who = f"EngineCore_{rank} pid={318 + rank}"
            lines.append(self.line("Initializing a V1 LLM engine (v0.33.0) with config: model='/models/m', speculative_config=None", who))
            lines.append(self.line(f"GPU KV cache size: {self.dice.randint(1, 900) * 1000:,} tokens", who))
            lines.append(self.line(f"Loading weights took {seconds:.2f} seconds", f"Worker_TP{rank} pid={452 + rank}"))
            self.clock += 1
        took = f"init engine (profile, create kv cache, warmup model) took {seconds * 2:.2f} s (compilation: {seconds / 3:.2f} s)"
        lines.append(self.line(took, "EngineCore_0 pid=318"))
        lines.append(Line("INFO", "INFO:     ", "Application startup complete.", "APIServer pid=1"))
        return lines

    def junk(self) -> list[Line]:
        return [Line(UNKNOWN, "", f"~ {self.number} {self.words(self.dice.randint(1, 30))}") for _ in range(self.dice.randint(1, 3))]

    def bar(self) -> list[Line]:
        """A progress bar redraws itself with carriage returns: one physical line."""
        steps = [f"Loading shards {self.number}: {10 * each}%|{'#' * each}| {each}/10" for each in range(self.dice.randint(2, 9))]
        return [Line(UNKNOWN, "", "\r".join(steps))]

    def prompt(self) -> list[Line]:
        """Text of a user: what looks like the engine's is not."""
        text = f"Received request {self.request()}: prompt: '{self.words(6)} Recovered from KV load failure: 9 request(s) rescheduled'"
        return [self.line(text)._replace(header=f"(APIServer pid=1) INFO {self.at()} [logger.py:{self.number}] ")]

    def long(self) -> list[Line]:
        text = f"{self.number} " + self.words(12) * self.dice.choice((20, 300, 900))
        return [self.line(text, self.core(), self.dice.choice(("DEBUG", "INFO", "CRITICAL")))]

    def unheard(self) -> list[Line]:
        return [self.line(f"Something that nobody knows {self.number}", self.core(), self.dice.choice(("DEBUG", "WARNING", "ERROR")))]


_WEIGHTED = {
    EngineLog.access: 40, EngineLog.stats: 3, EngineLog.spec: 5, EngineLog.transfers: 5, EngineLog.failure: 4, EngineLog.failure_with_traceback: 3,
    EngineLog.monitor: 3, EngineLog.native: 3, EngineLog.recovered: 4, EngineLog.load_failed: 3, EngineLog.expired: 4, EngineLog.loose_traceback: 2,
    EngineLog.restart: 0.3, EngineLog.junk: 5, EngineLog.bar: 2, EngineLog.prompt: 4, EngineLog.long: 0.3, EngineLog.unheard: 3,
}  # fmt: skip
KINDS, WEIGHTS = list(_WEIGHTED), list(_WEIGHTED.values())
