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
