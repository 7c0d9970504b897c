"""The KV pools of an SGLang engine, each rank's own words. An upper bound of addresses is no size."""

import re

from parsers.events import CeilingsTold, KvCacheBytes, KvPools, MemoryReport, MemoryUsed, StateCacheSlots
from parsers.rules import Scope, rule
from parsers.units import DECIMAL, GIB

_POOLS = {"": "device", "Full": "full", "SWA": "swa"}
_LINE = Scope.RECORD | Scope.BARE


@rule(
    runtime="sglang",
    anchor=("KV Cache is allocated.", "Full KV Cache is allocated.", "SWA KV Cache is allocated."),
    pattern=rf"(?:(Full|SWA) )?KV Cache is allocated\. (?:dtype: [\w.]{{1,64}}, )?#tokens: (\d{{1,15}}), (?:K size: {DECIMAL} GB, V|KV) size: {DECIMAL} GB",
    source="#tokens: %d, K size: %.2f GB, V size: %.2f GB",
    samples={
        "sglang 0.4.9": "KV Cache is allocated. #tokens: 409600, K size: 12.00 GB, V size: 12.00 GB",
        "sglang 0.5.6": "KV Cache is allocated. #tokens: 2786325, K size: 31.89 GB, V size: 31.89 GB",
        "sglang 0.5.17": "SWA KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 40960, K size: 0.62 GB, V size: 0.62 GB",
        "sglang 0.5.23": "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 1048576, KV size: 34.33 GB",
    },
    scope=_LINE,
)
def kv_pool_allocated(found: re.Match[str]) -> KvPools:
    """One pool; GB are GiB. The draft model's pool is as long and printed after the target's."""
    return KvPools({_POOLS[found[1] or ""]: float(found[2])}, (float(found[3] or 0) + float(found[4])) * GIB)


_SPARSE = ("MiniMax MSA-v1 main NVFP4 KV Cache is allocated. ", "MiniMax MSA-v1 index KV Cache is allocated. ")


@rule(
    runtime="sglang",
    anchor=_SPARSE,
    pattern=rf"MiniMax MSA-v1 (main NVFP4|index) KV Cache is allocated\. dtype: [\w.]{{1,64}}, #tokens: (\d{{1,15}}), K size: {DECIMAL} GB, V size: {DECIMAL} GB",
    source=("MiniMax MSA-v1 main NVFP4", "MiniMax %s index"),
    samples={
        "sglang 0.5.23": "MiniMax MSA-v1 main NVFP4 KV Cache is allocated. dtype: torch.uint8, #tokens: 1048576, K size: 34.33 GB, V size: 0.00 GB",
    },
    since="0.5.23",
    scope=_LINE,
)
def sparse_pools_allocated(found: re.Match[str]) -> KvPools:
    """MiniMax M3.1 in NVFP4: keys and values are one slab, and the index of the same tokens takes memory but holds no more of them."""
    return KvPools({} if found[1] == "index" else {"device": float(found[2])}, (float(found[3]) + float(found[4])) * GIB)


@rule(
    runtime="sglang",
    anchor="Post-capture KV sizing: KV cache allocated. ",
    pattern=(
        rf"Post-capture KV sizing: KV cache allocated\. dtype: [\w.]{{1,64}}, #tokens: (\d{{1,15}}), KV size: {DECIMAL} GB, avail mem={DECIMAL} GB"
        r"(?:, full_layer_tokens=(\d{1,15}), swa_layer_tokens=([1-9]\d{0,14}))?"
    ),
    source="Post-capture KV sizing: KV cache allocated. dtype: %s, #tokens: %d, ",
    samples={
        "sglang 0.5.17": "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 399360, KV size: 20.00 GB, avail mem=3.20 GB",
        "sglang 0.5.23": "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 399360, KV size: 20.00 GB, avail mem=3.20 GB",
    },
    since="0.5.17",
    scope=_LINE,
)
def kv_pool_resized(found: re.Match[str]) -> KvPools:
    """The size after graph capture, which replaces what was said before."""
    pools = {"full": float(found[4]), "swa": float(found[5])} if found[5] else {"device": float(found[1])}
    return KvPools(pools, float(found[2]) * GIB, resized=True, free=float(found[3]) * GIB)


@rule(
    runtime="sglang",
    anchor="Post-capture KV sizing: full_layer_tokens=",
    pattern=r"Post-capture KV sizing: full_layer_tokens=(\d{1,15}), swa_layer_tokens=(\d{1,15})",
    source="Post-capture KV sizing: full_layer_tokens=%d, swa_layer_tokens=%d",
    samples={
        "sglang 0.5.17": "Post-capture KV sizing: full_layer_tokens=399360, swa_layer_tokens=39936",
        "sglang 0.5.23": "Post-capture KV sizing: full_layer_tokens=399360, swa_layer_tokens=39936",
    },
    since="0.5.17",
    scope=_LINE,
)
def window_pools_resized(found: re.Match[str]) -> KvPools:
    """What was reserved before for each kind of layers was more. Without sliding windows there is one kind."""
    full, window = map(float, found.groups())
    pools = {"full" if window else "device": full, "swa": window}
    return KvPools({pool: tokens for pool, tokens in pools.items() if tokens}, resized=True)


@rule(
    runtime="sglang",
    anchor=("Use sliding window memory pool", "Use Sliding window memory pool"),
    pattern=r"Use [sS]liding window memory pool(?: \(all SWA\))?\. (?:full_layer_tokens=(\d{1,15}), )?swa_layer_tokens=(\d{1,15})",
    source="Use sliding window memory pool. full_layer_tokens=%s, swa_layer_tokens=%s",
    samples={
        "sglang 0.5.17": "Use sliding window memory pool. full_layer_tokens=409600, swa_layer_tokens=40960",
        "sglang 0.5.23": "Use sliding window memory pool (all SWA). swa_layer_tokens=40960",
    },
    scope=_LINE,
    since="0.5.8",
)
def window_pools(found: re.Match[str]) -> KvPools:
    """Layers with a sliding window have a pool of their own."""
    return KvPools({pool: float(tokens) for pool, tokens in (("full", found[1]), ("swa", found[2])) if tokens})


@rule(
    runtime="sglang",
    anchor="SWAKVPool mem usage: ",
    pattern=rf"SWAKVPool mem usage: {DECIMAL} GB, swa size: (\d{{1,15}}), full size: (\d{{1,15}})",
    source="SWAKVPool mem usage: %.2f GB, swa size: %s, full size: %s",
    samples={"sglang 0.5.17": "SWAKVPool mem usage: 13.75 GB, swa size: 40960, full size: 409600"},
    scope=_LINE,
    since="0.5.5",
)
def window_pools_allocated(found: re.Match[str]) -> KvPools:
    """Both pools of a model with sliding windows, and the bytes of both."""
    return KvPools({"full": float(found[3]), "swa": float(found[2])}, float(found[1]) * GIB, whole=True)


@rule(
    runtime="sglang",
    anchor="DSV4 pool sizes: ",
    pattern=r"DSV4 pool sizes: full=(\d{1,15}), swa=(\d{1,15}), c4=(\d{1,15}), c128=(\d{1,15})",
    source="DSV4 pool sizes: full=%s, swa=%s, c4=%s, c128=%s, ",
    samples={
        "sglang 0.5.17": "DSV4 pool sizes: full=2513920, swa=251392, c4=628480, c128=19640, c4_state=15712, c128_state=512",
        "sglang 0.5.23": "DSV4 pool sizes: full=2513920, swa=251392, c4=628480, c128=19640, c4_state=15712, c128_state=512",
    },
    since="0.5.12",
    scope=_LINE,
)
def deepseek_pools(found: re.Match[str]) -> KvPools:
    """DeepSeek V4's pools: all tokens, those in the window, and compressed four and 128 to one."""
    return KvPools(dict(zip(("full", "swa", "c4", "c128"), map(float, found.groups()), strict=True)))


@rule(
    runtime="sglang",
    anchor="DSV4 memory calculation: ",
    pattern=rf"DSV4 memory calculation: (?:\w{{1,32}}=\w{{1,16}}, ){{0,8}}bytes_per_full_token={DECIMAL}, [^\n]{{0,400}}?\bfull_token=(\d{{1,15}})",
    source="bytes_per_full_token=%.2f, available_bytes=%.2f GB, ",
    samples={
        "sglang 0.5.17": "DSV4 memory calculation: bytes_per_full_token=16221.44, available_bytes=38.90 GB, c128_state_fixed=0.92 GB, "
        "full_token=2513920",
        "sglang 0.5.23": "DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False, bytes_per_full_token=16221.44, "
        "available_bytes=38.90 GB, c128_state_fixed=0.92 GB, c2_state_fixed=0.00 GB, swa_fixed=0.00 GB, swa_ring_fixed=0.00 GB, "
        "c4_state_fixed=0.00 GB, full_token=2513920",
    },
    since="0.5.12",
    scope=_LINE,
)
def deepseek_bytes(found: re.Match[str]) -> KvCacheBytes:
    """DeepSeek V4 never prints the bytes of its pools: tokens times the bytes that it reckons for one, all pools together."""
    return KvCacheBytes(float(found[1]) * float(found[2]))


@rule(
    runtime="sglang",
    anchor="Mamba Cache is allocated. max_mamba_cache_size: ",
    pattern=r"Mamba Cache is allocated\. max_mamba_cache_size: (\d{1,15}),[^\n]{0,400}",
    source="Mamba Cache is allocated. max_mamba_cache_size: %s",
    samples={
        "sglang 0.5.17": "Mamba Cache is allocated. max_mamba_cache_size: 512, conv_state size: 0.50GB, ssm_state size: 8.00GB ",
    },
    scope=_LINE,
    since="0.5.5",
)
def state_cache(found: re.Match[str]) -> StateCacheSlots:
    """The states of recurrent layers: one slot a request, whatever its length."""
    return StateCacheSlots(float(found[1]))


@rule(
    runtime="sglang",
    anchor="max_total_num_tokens=",
    pattern=(
        r"max_total_num_tokens=(\d{1,15}), (?:chunked_prefill_size=(-?\d{1,15}|None), )?max_prefill_tokens=(\d{1,15}), "
        r"max_running_requests=(\d{1,15}), context_len=(\d{1,15})"
        rf"(?:, available_(?:gpu_mem={DECIMAL}|cpu_mem=[\d.]{{1,16}}) GB)?"
    ),
    source="max_total_num_tokens=%s, ",
    samples={
        "sglang 0.5.13": "max_total_num_tokens=2086558, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=33, "
        "context_len=256000, available_gpu_mem=17.22 GB",
        "sglang 0.5.17": "max_total_num_tokens=2513920, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=256, "
        "context_len=1048576, available_gpu_mem=25.41 GB",
        "sglang 0.5.23": "max_total_num_tokens=2513920, chunked_prefill_size=4096, max_prefill_tokens=16384, max_running_requests=256, "
        "context_len=1048576, available_gpu_mem=25.41 GB",
    },
    scope=_LINE,
)
def ceilings(found: re.Match[str]) -> CeilingsTold:
    """The limits of one engine, by its first rank. A prefill step takes no more than a chunk, where prompts are chunked."""
    tokens, chunk, prefill, running, context, free = found.groups()
    step = chunk if chunk and chunk.isdigit() else prefill
    limits = {"max_batched_tokens": step, "max_running_requests": running, "max_model_len": context}
    return CeilingsTold(limits, float(tokens), float(free) * GIB if free else None)


@rule(
    runtime="sglang",
    anchor="Memory pool end. ",
    pattern=rf"Memory pool end\. avail mem={DECIMAL} GB",
    source="Memory pool end. ",
    samples={
        "sglang 0.4.9": "Memory pool end. avail mem=9.90 GB",
        "sglang 0.5.17": "Memory pool end. avail mem=31.27 GB",
        "sglang 0.5.23": "Memory pool end. avail mem=31.27 GB",
    },
    scope=_LINE,
)
def pools_allocated(found: re.Match[str]) -> MemoryReport:
    """What the weights and the KV pool of a rank left, for graphs and activations."""
    return MemoryReport((MemoryUsed("free", float(found[1]) * GIB),))
