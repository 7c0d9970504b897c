"""The size of vLLM's KV cache: tokens and concurrency of an engine, bytes of a rank."""

import re

from parsers.events import KvCacheBytes, KvCacheSize, MemoryReport, MemoryUsed
from parsers.rules import Scope, rule
from parsers.units import DECIMAL, GIB, NUMBER, whole

_DEVICES = ("GPU", "CPU", "TPU", "XPU", "NPU", "HPU", "CUDA", "ROCM")
_ANYWHERE = Scope.RECORD | Scope.BARE


@rule(
    anchor=(*tuple(f"{device} KV cache size: " for device in _DEVICES), "GPU + host KV cache size: "),
    pattern=rf"\w+( \+ host)? KV cache size: {NUMBER} tokens(?:, Maximum concurrency for {NUMBER} tokens per request: {DECIMAL}x)?",
    source=(
        "GPU KV cache size: %s tokens",
        "GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
        "%s KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
    ),
    samples={
        "0.10.1": "GPU KV cache size: 1,472,416 tokens",
        "0.26.0": "GPU KV cache size: 1,761,280 tokens",
        "0.32.0": "CPU KV cache size: 4,194,304 tokens, Maximum concurrency for 2,048 tokens per request: 2048.00x",
        "0.33.0": "GPU KV cache size: 1,761,280 tokens, Maximum concurrency for 131,072 tokens per request: 13.44x",
    },
    since="0.8",
    scope=_ANYWHERE,
)
def kv_cache_size(found: re.Match[str]) -> KvCacheSize:
    """Tokens that fit; from 0.28 on with the concurrency on the same line. The device word is no pool of its own."""
    pool = "device_host" if found[1] else "device"
    if found[3] is None:
        return KvCacheSize(pool, whole(found[2]))
    return KvCacheSize(pool, whole(found[2]), whole(found[3]), float(found[4]))


@rule(
    anchor="Maximum concurrency for ",
    pattern=rf"Maximum concurrency for {NUMBER} tokens per request: {DECIMAL}x",
    source="Maximum concurrency for %s tokens per request: %.2fx",
    samples={
        "0.10.1": "Maximum concurrency for 40,960 tokens per request: 35.95x",
        "0.26.0": "Maximum concurrency for 131,072 tokens per request: 13.44x",
    },
    since="0.6",
    until="0.27",
    scope=_ANYWHERE,
)
def max_concurrency(found: re.Match[str]) -> KvCacheSize:
    """How many requests of the greatest length fit."""
    return KvCacheSize("device", None, whole(found[1]), float(found[2]))


@rule(
    anchor="Available KV cache memory: ",
    pattern=rf"Available KV cache memory: {DECIMAL} GiB",
    source="Available KV cache memory: %s GiB",
    samples={
        "0.10.1": "Available KV cache memory: 157.27 GiB",
        "0.26.0": "Available KV cache memory: 58.36 GiB",
        "0.33.0": "Available KV cache memory: 58.36 GiB",
    },
    since="0.9",
    scope=_ANYWHERE,
)
def available_memory(found: re.Match[str]) -> KvCacheBytes:
    """Bytes for KV on one rank; recent versions print rank 0 only."""
    return KvCacheBytes(float(found[1]) * GIB)


@rule(
    anchor="Initial free memory ",
    pattern=r"Initial free memory \d[\d.]{0,31} GiB, reserved (\d{1,9}(?:\.\d{1,20})?) ?GiB memory for KV Cache",
    source=(
        "Initial free memory %s GiB, reserved %s GiB memory for KV Cache as specified by kv_cache_memory_bytes config",
        "Initial free memory %s GiB, reserved %sGiB memory for KV Cache as specified by kv_cache_memory_bytes config",
    ),
    samples={
        "0.10.2": "Initial free memory 94.51999999955297 GiB, reserved 58.36GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling. This does does not respect the gpu_memory_utilization "
        "config. Only use kv_cache_memory_bytes config when you want manual control of KV cache memory size. If OOM'ed, "
        "check the difference of initial free memory between the current run and the previous run where "
        "kv_cache_memory_bytes is suggested and update it correspondingly.",
        "0.26.0": "Initial free memory 94.52 GiB, reserved 58.36 GiB memory for KV Cache as specified by kv_cache_memory_bytes config "
        "and skipped memory profiling. This does not respect the gpu_memory_utilization config. Only use "
        "kv_cache_memory_bytes config when you want manual control of KV cache memory size. If OOM'ed, check the difference "
        "of initial free memory between the current run and the previous run where kv_cache_memory_bytes is suggested and "
        "update it correspondingly.",
    },
    since="0.10",
)
def reserved_memory(found: re.Match[str]) -> KvCacheBytes:
    """The same with --kv-cache-memory-bytes, on each rank; up to 0.13 with every digit."""
    return KvCacheBytes(float(found[1]) * GIB)


_USED = re.compile(
    r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?) GiB for (weights?|peak activation|non-torch memory|CUDAGraph memory|NPU graph memory)", re.ASCII
)
_PARTS = {
    "weight": "weights",
    "weights": "weights",
    "peak activation": "activation",
    "non-torch memory": "non_torch",
    "CUDAGraph memory": "cuda_graph",
    "NPU graph memory": "cuda_graph",
}
_IN_USE = re.compile(rf"Current kv cache memory in use is {DECIMAL} GiB", re.ASCII)


@rule(
    anchor="Free memory on device (",
    pattern=rf"Free memory on device \({DECIMAL}/{DECIMAL} GiB\) on startup",
    source=("Free memory on device (%s/%s GiB) on startup.", "Current kv cache memory in use is %s GiB."),
    samples={
        "0.26.0": "Free memory on device (94.52/95.58 GiB) on startup. Desired GPU memory utilization is (0.9, 86.02 GiB). Actual "
        "usage is 35.64 GiB for weight, 2.11 GiB for peak activation, 0.52 GiB for non-torch memory, and 2.31 GiB for "
        "CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=48635689566` (45.3 GiB) to fit "
        "into requested memory, or `--kv-cache-memory=57760347586` (53.79 GiB) to fully utilize gpu memory. Current kv "
        "cache memory in use is 47.75 GiB.",
        "0.33.0": "Free memory on device (94.52/95.58 GiB) on startup. Desired GPU memory utilization is (0.9, 86.02 GiB). Actual "
        "usage is 36.16 GiB for consumed memory (weights + non-torch), 2.11 GiB for peak activation, and 2.31 GiB for "
        "CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=48635689566` (45.3 GiB) to fit "
        "into requested memory, or `--kv-cache-memory=57760347586` (53.79 GiB) to fully utilize gpu memory. Current kv "
        "cache memory in use is 47.75 GiB.",
    },
    since="0.10",
)
def memory_in_use(found: re.Match[str]) -> MemoryReport:
    """Each rank's memory by part; the only line that tells every rank's KV bytes in 0.26 and later. Advice in it is no size."""
    text = found.string
    parts = [MemoryUsed("free", float(found[1]) * GIB)]
    parts += [MemoryUsed(_PARTS[part], float(size) * GIB) for size, part in _USED.findall(text, found.end())]
    in_use = _IN_USE.search(text, found.end())
    return MemoryReport(tuple(parts), float(in_use[1]) * GIB if in_use else None)


@rule(
    anchor="model weights take ",
    pattern=(
        rf"model weights take {DECIMAL}GiB; non_torch_memory takes {DECIMAL}GiB; PyTorch activation peak memory takes {DECIMAL}GiB; "
        rf"the rest of the memory reserved for KV Cache is {DECIMAL}GiB"
    ),
    source="the rest of the memory reserved for KV Cache is ",
    samples={
        "0.8.5": "model weights take 8.51GiB; non_torch_memory takes 0.26GiB; PyTorch activation peak memory takes 0.94GiB; the rest "
        "of the memory reserved for KV Cache is 2.17GiB.",
    },
    since="0.6",
    until="0.10",
    scope=_ANYWHERE | Scope.CONTINUATION,
)
def v0_memory(found: re.Match[str]) -> MemoryReport:
    """The V0 worker's memory by part, the third line of its record."""
    weights, non_torch, activation, kv = (float(each) * GIB for each in found.groups())
    return MemoryReport((MemoryUsed("weights", weights), MemoryUsed("non_torch", non_torch), MemoryUsed("activation", activation)), kv)


@rule(
    anchor="Memory profiling results: ",
    pattern=rf"Memory profiling results: [^\n]{{0,400}}?kv_cache_size={DECIMAL}GiB",
    source="Memory profiling results: total_gpu_memory=",
    samples={
        "0.6.4": "Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB "
        "peak_torch_memory=17.06GiB memory_usage_post_profile=15.35Gib non_torch_memory=0.35GiB "
        "kv_cache_size=3.81GiB gpu_memory_utilization=0.90",
    },
    since="0.6",
    until="0.6",
    scope=_ANYWHERE,
)
def v0_profiling(found: re.Match[str]) -> KvCacheBytes:
    """The same in 0.6.4."""
    return KvCacheBytes(float(found[1]) * GIB)


@rule(
    anchor="Explicitly set (",
    pattern=rf"Explicitly set \({DECIMAL}/{DECIMAL}\) GiB for KV cache",
    source="Explicitly set (%s/%s) GiB for KV cache on node %s.",
    samples={
        "0.26.0": "Explicitly set (1.0/23.09) GiB for KV cache on node 0.",
        "0.32.0": "Explicitly set (1.0/15.71) GiB for KV cache on node 0.",
    },
    since="0.20",
)
def cpu_memory(found: re.Match[str]) -> KvCacheBytes:
    """The CPU back end's KV bytes."""
    return KvCacheBytes(float(found[1]) * GIB)
