"""Starts that fail for want of memory or of time."""

import re

from parsers.events import EngineFailure
from parsers.rules import Scope, Series, rule


@rule(
    anchor="Failed to load model - not enough GPU memory",
    pattern=r"Failed to load model - not enough GPU memory",
    source="Failed to load model - not enough GPU memory.",
    samples={
        "0.26.0": "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, "
        "increasing --tensor-parallel-size, or using --quantization. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more tips.",
    },
    since="0.13",
    emits=[Series("engine_failures_total", {"kind": "gpu_oom"})],
)
def weights_do_not_fit(_: re.Match[str]) -> EngineFailure:
    """The weights do not fit."""
    return EngineFailure("gpu_oom")


@rule(
    anchor=(
        "ValueError: To serve at least one request",
        "ValueError: No available memory for the cache",
        "ValueError: Free memory on device",
        "ValueError: Available memory on node ",
    ),
    pattern=(
        r"ValueError: (?:To serve at least one request with the models?'s max seq len|No available memory for the cache blocks"
        r"|(?:Free memory on device|Available memory on node) .{1,200}is less than (?:desired \w{1,16} memory utilization|the engine's ))"
    ),
    source=(
        "To serve at least one request with the models's max seq len",
        "To serve at least one request with the model's max seq len",
        "No available memory for the cache blocks",
        "GiB) on startup is less than desired GPU memory utilization",
        "GiB) on startup is less than desired CPU memory utilization",
        "GiB) on startup is less than the engine's ",
    ),
    samples={
        "0.10.2": "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (7.35 GiB).  Based on the available memory, the estimated "
        "maximum model length is 60208. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
        "initializing the engine.",
        "0.26.0": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
        "the engine (this flag also controls CPU memory reservation on the CPU backend, despite its name). See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
        "0.32.0": "ValueError: To serve at least one request with the model's max seq len (8192), (0.0 GiB KV cache is needed, which "
        "is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated maximum model "
        "length is 2432. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        "decreasing `max_model_len` when initializing the engine. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
        "0.31.0": "ValueError: Available memory on node 0 (21.4/94.97 GiB) on startup is less than desired CPU memory utilization (0.92, "
        "87.37 GiB). On the CPU backend, the `--gpu-memory-utilization` flag controls the fraction of CPU memory reserved (despite its name). "
        "To resolve: decrease `--gpu-memory-utilization` (e.g. `--gpu-memory-utilization 0.5`) or reduce CPU memory used by other processes.",
        "0.33.0": "ValueError: Free memory on device cuda:0 (21.4/94.97 GiB) on startup is less than desired GPU memory utilization "
        "(0.92, 87.37 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    },
    scope=Scope.EXCEPTION,
    emits=[Series("engine_failures_total", {"kind": "startup_failed"})],
)
def pool_too_small(_: re.Match[str]) -> EngineFailure:
    """The KV pool cannot hold one request."""
    return EngineFailure("startup_failed")


@rule(
    anchor="TimeoutError: Timed out waiting for engine core processes to start",
    pattern=r"TimeoutError: Timed out waiting for engine core processes to start",
    source="Timed out waiting for engine core processes to start. ",
    samples={
        "0.33.0": "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading for "
        "large models. Waited 600s (configured by VLLM_ENGINE_READY_TIMEOUT_S). To increase the timeout, set the environment variable: "
        "VLLM_ENGINE_READY_TIMEOUT_S=<seconds>",
    },
    since="0.17",
    scope=Scope.EXCEPTION,
    emits=[Series("engine_failures_total", {"kind": "startup_failed"})],
)
def start_timed_out(_: re.Match[str]) -> EngineFailure:
    """The API server gives up on an engine that is still starting."""
    return EngineFailure("startup_failed")
