"""A prefill and a decode vLLM on loopback, a proxy before them, and clients: what real_pair.py drives and breaks.

The engines' Python runs this file to make a tiny model of random weights: real_engines.py DIR
"""

import argparse
import contextlib
import http.server
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

LOOPBACK = "127.0.0.1"
MODEL = "tiny"
REQUEST_SECONDS = 120.0
START_SECONDS = 300.0
ROOT = Path(__file__).parent.parent
_END_SECONDS = 30.0
_FIRST_BYTE = 3  # tokens of the tiny model: three special ones, and one for each byte
_LEAST_PROMPT, _MORE_PROMPT, _ANSWER = 300, 600, 24  # tokens; more than a block, and few enough for a small machine

Params = dict[str, Any] | None


def make_model(folder: Path) -> None:
    """Two layers that babble. Each byte is a token: nothing is trained and nothing is downloaded."""
    import torch  # type: ignore[import-not-found]
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-not-found]
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # type: ignore[import-not-found]

    special = ["<s>", "</s>", "<pad>"]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytewise = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    bytewise.pre_tokenizer, bytewise.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bos, eos, pad = special
    PreTrainedTokenizerFast(tokenizer_object=bytewise, bos_token=bos, eos_token=eos, pad_token=pad).save_pretrained(folder)
    layers = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 4096}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    config = LlamaConfig(vocab_size=len(pieces), bos_token_id=0, eos_token_id=1, pad_token_id=2, **layers, **heads)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return int(listener.getsockname()[1])


class Figures:
    """One answer of a /metrics."""

    def __init__(self, url: str) -> None:
        # Not at the top: the engines' Python has neither of them.
        import httpx
        from prometheus_client.parser import text_string_to_metric_families

        answer = httpx.get(f"{url}/metrics", timeout=20, trust_env=False, follow_redirects=True).raise_for_status()
        self._samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]

    def get(self, name: str, **labels: str) -> float | None:
        """The sum of all series with these labels, None without any."""
        values = [sample.value for sample in self._samples if sample.name == name and labels.items() <= sample.labels.items()]
        return sum(values) if values else None

    def of(self, name: str, **labels: str) -> float:
        """The same, 0 for a counter that has not begun."""
        return self.get(name, **labels) or 0.0

    def label(self, name: str, label: str, **labels: str) -> str:
        """The label of the series that is 1."""
        found = (each for each in self._samples if each.name == name and each.value == 1 and labels.items() <= each.labels.items())
        return next((each.labels[label] for each in found), "")


def answers(url: str) -> bool:
    """Whether somebody says yes there."""
    import httpx

    try:
        return httpx.get(url, timeout=5, trust_env=False).is_success
    except httpx.HTTPError:
        return False


class Process:
    """A program in a process group of its own, and the file that takes what it prints."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=cwd, start_new_session=True
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the group, whose children may outlive the first of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """End the group as the kernel does when memory runs out."""
        self.signal(signal.SIGKILL)
        self._process.wait(_END_SECONDS)

    def end(self) -> None:
        """Ask it to end, and see to it that the whole group does."""
        if self.runs:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
        self.kill()


class Engine(Process):
    """One vLLM with NIXL over TCP on loopback."""

    def __init__(self, python: Path, folder: Path, model: Path, name: str, policy: str) -> None:
        self.name, self.url = name, f"http://{LOOPBACK}:{(port := free_port())}"
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu", "kv_load_failure_policy": policy}
        command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--served-model-name", MODEL]
        command += ["--max-model-len", "2048", "--enforce-eager", "--kv-transfer-config", json.dumps(transfer)]
        # Not bfloat16, for which vLLM takes AMX: virtual machines that claim to have it were seen to kill the worker (SIGILL).
        command += ["--dtype", "float32"]
        # A worker of its own looks for work in a loop for a second after each step: two of them leave two cores to nobody else.
        command += ["--distributed-executor-backend", "uni"]
        command += ["--host", LOOPBACK, "--port", str(port)]
        environment = os.environ | {
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else it is no `uni` on a CPU; the engine core stays a process of its own
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": "lo",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": LOOPBACK,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()),
        }
        super().__init__(command, folder / f"{name}.log", environment, folder)


class Proxy:
    """Sends a request to prefill and then, with the address of its KV, to decode."""

    def __init__(self, prefill: str, decode: str) -> None:
        self._prefill, self._decode = prefill, decode
        self.params: Callable[[dict[str, Any]], Params] = through
        """What it makes of the transfer parameters of a prefill answer."""
        self.may_decode = threading.Event()
        self.may_decode.set()
        self.prefilled = 0
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, body = proxy.route(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """It has no log: the engines' are what is looked at."""

        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/v1/completions"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def route(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of decode's answer, or of prefill's when that is none."""
        import httpx

        request = json.loads(body)
        nobody = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
        first = request | {"max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False} | nobody}
        # One request id for both: the engines' lines about it then name the same.
        headers = {"X-Request-Id": secrets.token_hex(8)}
        try:
            with httpx.Client(trust_env=False, timeout=REQUEST_SECONDS, headers=headers) as client:
                answer = client.post(f"{self._prefill}/v1/completions", json=first)
                if not answer.is_success:
                    return answer.status_code, answer.content
                params = self.params(answer.json()["kv_transfer_params"])
                self.prefilled += 1
                self.may_decode.wait(REQUEST_SECONDS)
                answer = client.post(f"{self._decode}/v1/completions", json=request | ({"kv_transfer_params": params} if params else {}))
                return answer.status_code, answer.content
        except httpx.HTTPError as error:
            return 502, repr(error).encode()

    def close(self) -> None:
        """Let go of the port."""
        self._server.shutdown()
        self._server.server_close()


def through(params: dict[str, Any]) -> Params:
    """As a proxy should."""
    return params


def left_out(params: dict[str, Any]) -> Params:
    """The silent bypass: decode is told nothing, computes the prompt itself, and answers 200."""
    return None


def wrong_port() -> Callable[[dict[str, Any]], Params]:
    """A side channel where nobody listens, of an engine that decode does not know: with one it knows it would not ask again."""
    wrong = {"remote_engine_id": secrets.token_hex(16), "remote_port": free_port()}
    return lambda params: params | wrong


class Pair:
    """The engines, the proxy and inferlog."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        import yaml

        self.engines = [Engine(options.engine_python, folder, options.model, name, options.policy) for name in ("prefill", "decode")]
        self.prefill, self.decode = self.engines
        self.proxy = Proxy(self.prefill.url, self.decode.url)
        self.url = f"http://{LOOPBACK}:{(port := free_port())}"
        sources = [{"name": each.name, "path": str(each.log), "pd_role": each.name, "pd_expect": "all"} for each in self.engines]
        if options.engine_metrics:
            sources = [each | {"engine_metrics_url": f"{engine.url}/metrics"} for each, engine in zip(sources, self.engines, strict=True)]
        config = folder / "inferlog.yaml"
        config.write_text(yaml.safe_dump({"web": {"listen_address": f"{LOOPBACK}:{port}"}, "sources": sources}))
        self.inferlog = Process([sys.executable, "-m", "exporter", "run", "--config", str(config)], folder / "inferlog.log", cwd=ROOT)

    def wait_ready(self) -> None:
        """Wait until all three answer. Raises RuntimeError when one ends."""
        for process, url in ((self.inferlog, f"{self.url}/-/ready"), *((each, f"{each.url}/health") for each in self.engines)):
            deadline = time.monotonic() + START_SECONDS
            while not answers(url):
                if not process.runs or time.monotonic() > deadline:
                    raise RuntimeError(f"{process.log.stem} does not start:\n{process.log.read_text(errors='replace')[-2000:]}")
                time.sleep(1)

    def end(self) -> None:
        """End all of it, decode first: it holds connections to prefill."""
        for each in (self.decode, self.prefill, self.inferlog):
            each.end()
        self.proxy.close()


class Traffic:
    """Clients that ask one request after the other, each with a prompt that no prefix cache knows."""

    def __init__(self, url: str, clients: int, *, once: bool = False) -> None:
        self._url, self._once = url, once
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask nothing more; what was asked goes on."""
        self._over.set()

    @property
    def runs(self) -> bool:
        """Whether an answer is still to come."""
        return any(thread.is_alive() for thread in self._threads)

    def _ask(self) -> None:
        import httpx

        with httpx.Client(trust_env=False, timeout=2 * REQUEST_SECONDS) as client:
            while not self._over.is_set():
                prompt = [_FIRST_BYTE + byte for byte in secrets.token_bytes(_LEAST_PROMPT + secrets.randbelow(_MORE_PROMPT))]
                request = {"model": MODEL, "prompt": prompt, "max_tokens": _ANSWER, "ignore_eos": True}
                with contextlib.suppress(httpx.HTTPError):  # the engines' own count of answers is compared, not ours
                    client.post(self._url, json=request)
                if self._once:
                    return


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
