"""`format_drift`: 1 only where the log shows that something is missing."""

import pytest
from click.testing import CliRunner

from exporter.cli import main
from tests.drift.mutations import DATA, read

START = (
    "(APIServer pid=1) INFO 07-14 03:12:00 [api_utils.py:273] vLLM server version 0.33.0, serving model /models/m\n"
    "(EngineCore pid=318) INFO 07-14 03:12:05 [core.py:139] Initializing a V1 LLM engine (v0.33.0) with config: model='/models/m', tensor_parallel_size=1\n"
    "(EngineCore pid=318) INFO 07-14 03:12:20 [default_loader.py:1] Loading weights took 5.10 seconds\n"
)
SIZE = "(EngineCore pid=318) INFO 07-14 03:12:30 [kv_cache_utils.py:1] GPU KV cache size: 409,600 tokens, Maximum concurrency for 8,192 tokens per request: 50.00x\n"
BYTES = "(EngineCore pid=318) INFO 07-14 03:12:29 [gpu_worker.py:1] Available KV cache memory: 47.75 GiB\n"
INIT = "(EngineCore pid=318) INFO 07-14 03:12:50 [core.py:1] init engine (profile, create kv cache, warmup model) took 40.00 s\n"
READY = "INFO:     Application startup complete.\n"


def stats(second, text="Avg prompt throughput: 1.1 tokens/s", usage="GPU KV cache usage: 0.9%"):
    return (
        f"(APIServer pid=1) INFO 07-14 03:{13 + second // 60}:{second % 60:02d} [loggers.py:1] Engine 000: {text}, Avg generation throughput: 12.4 tokens/s, "
        f"Running: 8 reqs, Waiting: 0 reqs, {usage}, Prefix cache hit rate: 0.0%\n"
    )


COMPLETE = START + BYTES + SIZE + INIT + READY
TORN = stats(20)[:90] + "\n"
OTHER = "Mean prompt throughput: 1.1 tokens/s"
SPECULATES = START.replace(
    "tensor_parallel_size=1", "speculative_config=SpeculativeConfig(method='dspark', model='/models/d', num_spec_tokens=5)"
)
DRAFTS = (
    "(APIServer pid=1) INFO 07-14 03:15:20 [metrics.py:1] SpecDecoding metrics: Mean acceptance length: 3.10, Accepted throughput: 21.00 tokens/s, Drafted throughput: "
    "50.00 tokens/s, Accepted: 210 tokens, Drafted: 500 tokens, Per-position acceptance rate: 0.700, 0.600, 0.400, 0.300, 0.100, Avg Draft acceptance rate: 42.0%\n"
)
SERVED = stats(1) + stats(59) + stats(119)


def tagged(*texts, tags=" TP0"):
    return "".join(f"[2026-08-03 02:{at:02d}:00{'' if text.startswith(OWN) else tags}] {text}\n" for at, text in enumerate(texts))


OWN = ("server_args=", "INFO: ", "The ", "Qeht ", "Received ", "Qdeviecer ")
"""What SGLang's main process says, without a rank."""
ARGUMENTS = "server_args=ServerArgs(model_path='/models/m', tp_size=2, speculative_algorithm={}, speculative_num_draft_tokens=6)"
LOADED = (
    "Init torch distributed begin.", "Init torch distributed ends. elapsed=9.04 s, mem usage=1.34 GB",
    "Load weight begin. avail mem=93.21 GB", "Load weight end. elapsed=26.11 s, type=M, quant=fp8, avail mem=71.33 GB, mem usage=21.88 GB.",
)  # fmt: skip
POOLS = (
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 409600, K size: 12.00 GB, V size: 12.00 GB",
    "max_total_num_tokens=409600, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=64, context_len=32768, available_gpu_mem=9.80 GB",
)
FIRST_REQUEST = ("INFO:     Application startup complete.", 'INFO:     127.0.0.1:51010 - "POST /generate HTTP/1.1" 200 OK')
FIRED_UP = "The server is fired up and ready to roll!"
DECODES = (
    "Decode batch, #running-req: 5, #token: 1234, token usage: 0.12, {}cuda graph: True, gen throughput (token/s): 200.00, #queue-req: 0"
)
RATES = "accept len: 3.10, accept rate: 0.42, "


def sglang(*more, speculates="None", loaded=LOADED, pools=POOLS, ready=FIRED_UP):
    return tagged(ARGUMENTS.format(speculates), *loaded, *pools, *FIRST_REQUEST, ready, *more)


CASES = {
    "complete": (COMPLETE + stats(1), set()),
    "no size": (START + BYTES + INIT + READY + stats(1), {"kv_size"}),
    "no bytes": (START + SIZE + INIT + READY, {"kv_bytes"}),
    "no concurrency": (COMPLETE.replace("Maximum concurrency for", "Requests of"), {"max_concurrency"}),
    "no phase": (START + BYTES + SIZE + READY, {"startup_phases"}),
    "no graphs, but enforce_eager": (
        COMPLETE + "(EngineCore pid=318) INFO 07-14 03:12:51 [gpu_worker.py:1] Free memory on device (94.52/95.58 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 86.02 GiB). Actual usage is 35.64 GiB for weight, 2.11 GiB for peak activation, 0.52 GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. "
        "Current kv cache memory in use is 47.75 GiB.\n",
        set(),
    ),
    "a server that says nothing of its start": (COMPLETE.replace(READY, "").replace(SIZE, SIZE.replace("Maximum concurrency", "Requests")), {"max_concurrency"}),
    "graphs of which no line tells": (
        COMPLETE + "(EngineCore pid=318) INFO 07-14 03:12:51 [gpu_worker.py:1] Free memory on device (94.52/95.58 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 86.02 GiB). Actual usage is 35.64 GiB for weight, 2.11 GiB for peak activation, 0.52 GiB for non-torch memory, and 2.31 GiB for CUDAGraph memory. "
        "Current kv cache memory in use is 47.75 GiB.\n",
        {"startup_phases"},
    ),
    "not ready yet": (START + SIZE, set()),
    "begins after the start": (READY + stats(1) + stats(11), set()),
    "begins in the start": (SIZE + INIT + READY + stats(1), {"version"}),
    "stats lines without usage": (COMPLETE + stats(1, usage="GPU KV in use: 0.9%"), {"stats"}),
    "stats lines in other words": (COMPLETE + stats(1, OTHER), {"stats"}),
    "one torn line among good ones": (COMPLETE + stats(1) + TORN + stats(31), set()),
    "many torn lines, but over hours": (COMPLETE + stats(1) + TORN + TORN.replace(" 03:", " 04:") + TORN.replace(" 03:", " 05:"), set()),
    "three of them in a row": (COMPLETE + stats(1) + stats(11, OTHER) + stats(21, OTHER) + stats(31, OTHER), {"stats"}),
    "mended by the next start": (COMPLETE + stats(1, OTHER) + COMPLETE.replace(" 03:", " 05:") + stats(1).replace(" 03:", " 05:"), set()),
    "idle": (COMPLETE, set()),
    "a hang in other words": (
        COMPLETE + "(EngineCore pid=318) INFO 07-14 03:20:00 [shm_broadcast.py:1] Still no shared memory broadcast block after 60 seconds.\n",
        {"hang"},
    ),
    "dspark drafts": (SPECULATES + BYTES + SIZE + INIT + READY + SERVED + DRAFTS, set()),
    "dspark without a word of drafts": (SPECULATES + BYTES + SIZE + INIT + READY + SERVED, {"spec_decode"}),
    "dspark in other words": (SPECULATES + BYTES + SIZE + INIT + READY + SERVED + DRAFTS.replace("SpecDecoding metrics", "Drafts"), {"spec_decode"}),
    "sglang complete": (sglang(DECODES.format("")), set()),
    "sglang drafts": (sglang(DECODES.format(RATES), speculates="'EAGLE'"), set()),
    "sglang's early drafts had no rate": (sglang(DECODES.format("accept len: 3.10, "), speculates="'EAGLE'"), set()),
    "sglang's drafts without fields": (sglang(DECODES.format(""), speculates="'EAGLE'"), {"spec_decode"}),
    "sglang's dspark without fields": (sglang(DECODES.format(""), speculates="'DSPARK'"), {"spec_decode"}),
    "sglang's dspark without a rate": (sglang(DECODES.format("accept len: 3.10, "), speculates="'DSPARK'"), {"spec_decode"}),
    "sglang's dspark in other words": (sglang(DECODES.format("kept len: 3.10, kept rate: 0.42, "), speculates="'DSPARK'"), {"spec_decode"}),
    "sglang's dspark that has decoded nothing": (sglang(speculates="'DSPARK'"), set()),
    "sglang ready in other words": (sglang(ready="Qeht revres is up"), {"ready"}),
    "sglang not ready yet": (tagged(ARGUMENTS.format("None"), *LOADED, *POOLS, *FIRST_REQUEST), set()),
    "sglang serves and never said that it is ready": (
        tagged(ARGUMENTS.format("None"), *LOADED, *POOLS, *FIRST_REQUEST * 20, DECODES.format("")), {"ready"}
    ),
    "sglang's capture without an end": (sglang(loaded=(*LOADED, "Capture cuda graph begin. This can take up to several minutes. avail mem=9.80 GB")), {"startup_phases"}),
    "sglang's capture in other words": (
        sglang(loaded=(*LOADED, "Capture cuda graph begin. This can take up to several minutes. avail mem=9.80 GB", "Graphs are there after 9.1 s.")),
        {"startup_phases"},
    ),
    "sglang's bytes without pools": (
        sglang(pools=("DSV4 memory calculation: bytes_per_full_token=16221.44, available_bytes=38.90 GB, c128_state_fixed=0.92 GB, full_token=2513920", POOLS[1])),
        {"kv_size"},
    ),
    "sglang's pools by a name of their own": (
        sglang(pools=("Q KV store. dtype: torch.uint8, #tokens: 409600, K size: 12.00 GB, V size: 0.00 GB", *POOLS)), {"kv_size"}
    ),
    "sglang's draft pool and upper bound are no pools": (
        sglang("Post-capture KV sizing: draft KV cache allocated. dtype: torch.bfloat16, #tokens: 409600, KV size: 1.00 GB",
               pools=(*POOLS, "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 999999, K size: 9.00 GB, V size: 9.00 GB")), set()
    ),
    "sglang's decode lines without a rate": (sglang(DECODES.format("").replace("gen throughput", "speed")), {"batches"}),
    "sglang's prefill lines without cached tokens": (
        sglang("Prefill batch, #new-seq: 1, #new-token: 9, #reused: 0, token usage: 0.00, #running-req: 0, #queue-req: 0"), {"batches"}
    ),
    "a torn prefill line": (sglang("Prefill batch, #new-seq: 1, #new-token: 9, #cac"), set()),
    "sglang's failures of a pair in other words": (
        sglang("Broken request rang=0 decode_req.req.rid='9c1f' decode_req.req.bootstrap_room=7"), {"pd_failures"}
    ),
    "sglang's bar without a session": (
        tagged(ARGUMENTS.format("None"), *LOADED)
        + "DeepGEMM warmup: 100%|██████████| 16384/16384 [01:47<00:00, 152.88it/s]\n",
        {"deepgemm"},
    ),
    "sglang dies": (
        sglang("Scheduler hit an exception: Traceback (most recent call last):", "Received sigquit from a child process. It usually means the child failed."), set()
    ),
    "sglang dies in other words": (
        sglang("Scheduler hit an exception: Traceback (most recent call last):", "Qdeviecer a ngis"), {"engine_death"}
    ),
    "sglang dies without a word": (sglang("Scheduler hit an exception: Traceback (most recent call last):"), set()),
    "a user's words": (COMPLETE + "(APIServer pid=1) INFO 07-14 03:20:00 [x.py:1] Received request a: prompt: 'KV cache size: none'\n", set()),
}  # fmt: skip


@pytest.mark.parametrize(("log", "drifted"), CASES.values(), ids=CASES)
def test_what_is_missing_is_named(log, drifted, tmp_path):
    """And nothing else."""
    assert read(log, tmp_path / "log")[1] == drifted


def test_real_logs_have_no_drift(tmp_path):
    """But for the one whose transfer line is of another dialect."""
    found = {}
    for path in sorted(DATA.rglob("*.log")):
        if drifted := read(path.read_bytes().decode("utf-8", "surrogateescape"), tmp_path / "log")[1]:
            found[path.name] = drifted
    assert found == {"field-transfer-line-other-dialect.log": {"kv_transfer"}}


def test_check_tells_the_same(tmp_path):
    """For a saved log."""
    path = tmp_path / "engine.log"
    path.write_text(COMPLETE + stats(1, OTHER), encoding="utf-8")
    result = CliRunner().invoke(main, ["check", str(path)])
    assert "words these signals in another way than those that are known: stats." in " ".join(result.output.split())
