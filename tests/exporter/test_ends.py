"""Starts that fail, and what is said after an end."""

import pytest

from .conftest import API, CORE, RANK0, READY, STOPPING, core, line, logo, read, stats

TRACEBACK = "Traceback (most recent call last):"
LESS = "(21.4/94.97 GiB) on startup is less than"


def raised(exception: str, who: str = CORE, at: str = "03:20:01") -> list[str]:
    """A traceback in a record."""
    return [line(text, who, at, level="ERROR") for text in ("It failed.", TRACEBACK, exception)]


@pytest.mark.parametrize(
    "exception",
    [
        f"ValueError: Free memory on device {LESS} desired GPU memory utilization (0.92, 87.37 GiB).",
        f"ValueError: Free memory on device cuda:0 {LESS} desired GPU memory utilization (0.92, 87.37 GiB).",
        f"ValueError: Free memory on device xpu:0 {LESS} desired XPU memory utilization (0.92, 87.37 GiB).",
        f"ValueError: Available memory on node 0 {LESS} desired CPU memory utilization (0.92, 87.37 GiB).",
        "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading.",
    ],
)
@pytest.mark.parametrize("bare", [True, False])
def test_start_that_fails_after_the_engine_core_began(exception: str, bare: bool) -> None:
    """In a record's traceback or in one that no logger printed."""
    lines = [f"({API}) {text}" for text in (TRACEBACK, exception)] if bare else raised(exception)
    reading = read(logo(), core(), *lines)

    assert 1 == reading.value("engine_failures_total", "startup_failed")
    assert "failed" == reading.state


@pytest.mark.parametrize(
    "exception",
    ["TimeoutError: RPC call to execute_model timed out.", "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting"],
)
def test_calls_after_an_orderly_shutdown_are_no_failure(exception: str) -> None:
    """Workers that are gone answer nothing; before, such a call is a failure."""
    ended = read(logo(), core(), READY, STOPPING, *raised(exception, at="03:20:30"))

    assert ("stopped", 0) == (ended.state, ended.value("engine_failures_total", "rpc_timeout"))
    assert 1 == read(logo(), core(), READY, *raised(exception)).value("engine_failures_total", "rpc_timeout")


def test_jit_monitor_that_raises_counts_the_compile() -> None:
    """With --jit-monitor-mode error there is no warning, but the exception that ends the step."""
    exception = "RuntimeError: Triton kernel JIT compilation during inference: _fwd_kernel. This causes a latency spike; consider extending"
    reading = read(logo(), READY, stats(), *raised(exception, RANK0))

    assert 1 == reading.value("jit_events_total", "triton", "compile", "serving")

    bare = [f"({RANK0}) {text}" for text in (TRACEBACK, exception)]
    assert 1 == reading.feed(*bare).value("jit_events_total", "triton", "compile", "serving")


def test_encoders_graphs_are_captured_graphs() -> None:
    """They add up with the language model's."""
    captured = "raph capturing finished in {} secs, took {} GiB"
    reading = read(logo(), line("Encoder g" + captured.format(4, 0.5) + " (12 graphs)", RANK0), line("G" + captured.format(46, 2), RANK0))

    assert 50 == reading.value("startup_seconds", "graph_capture")
    assert 2.5 * 2**30 == reading.value("engine_memory_bytes", "TP0", "cuda_graph")


@pytest.mark.parametrize("gib", ["-1.2", "-0.01"])
def test_missing_memory_is_no_size(gib: str) -> None:
    """A negative number tells what is missing; the exception that follows is the failure."""
    v0 = f"model weights take 8.51GiB; non_torch_memory takes -0.26GiB; PyTorch activation peak memory takes 0.94GiB; the rest of the memory reserved for KV Cache is {gib}GiB."
    graphs = f"Graph capturing finished in 4 secs, took {gib} GiB"
    reading = read(logo(), line(f"Available KV cache memory: {gib} GiB", RANK0), line(v0, CORE), line(graphs, RANK0))

    assert {} == reading.series("kv_cache_size_bytes")
    assert 0 == min(reading.series("engine_memory_bytes").values())
    assert 0 == read(line("Available KV cache memory: 0.0 GiB", RANK0)).value("kv_cache_size_bytes", "TP0")
