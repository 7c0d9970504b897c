"""The KV pools of an SGLang engine: which lines tell of one, which of another, and which of none."""

import pytest

from .conftest import read
from .sglang_lines import arguments, tagged

POOL = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: {}, K size: 1.00 GB, V size: 1.00 GB"


def test_the_draft_models_pool_is_no_second_one() -> None:
    """The first word of a rank is the target's."""
    reading = read(*(tagged(POOL.format(tokens), tags=f"TP{rank}") for tokens in (409600, 409601) for rank in range(2)))
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 409600}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 2 * 2**30, ("TP1",): 2 * 2**30}


def test_the_draft_models_pool_beside_named_ones_is_none() -> None:
    """A draft model of another kind says it in the words of a pool without a name."""
    reading = read(
        tagged("Full " + POOL.format(409600)),
        tagged("SWA " + POOL.format(40960)),
        tagged(POOL.format(2513920)),
    )
    assert reading.series("kv_cache_size_tokens") == {("0", "full"): 409600, ("0", "swa"): 40960}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 4 * 2**30}


def test_a_new_size_replaces_the_first() -> None:
    """After graph capture, on each rank; the address space reserved before is none."""
    lines = [
        tagged("KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 999999, K size: 9.00 GB, V size: 9.00 GB"),
        tagged(POOL.format(409600)),
        tagged("Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 399360, KV size: 20.00 GB, avail mem=3.20 GB"),
    ]
    reading = read(*lines)
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 399360}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 20 * 2**30}


def test_pools_of_windows_and_states_are_told_apart() -> None:
    """Bytes add up, and a state's slots are no tokens."""
    reading = read(
        tagged("Full " + POOL.format(409600)),
        tagged("SWA " + POOL.format(40960)),
        tagged("SWAKVPool mem usage: 4.00 GB, swa size: 40960, full size: 409600"),
        tagged("Mamba Cache is allocated. max_mamba_cache_size: 512, conv_state size: 0.50GB, ssm_state size: 8.00GB "),
    )
    assert reading.series("kv_cache_size_tokens") == {("0", "full"): 409600, ("0", "swa"): 40960}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 4 * 2**30}
    assert reading.series("state_cache_slots") == {("0",): 512}


def test_the_index_of_sparse_attention_takes_memory_and_holds_no_tokens() -> None:
    """MiniMax M3.1 in NVFP4: the index is as long as the pool that it belongs to, and both are the engine's KV memory."""
    sparse = "MiniMax MSA-v1 {} KV Cache is allocated. dtype: torch.uint8, #tokens: 409600, K size: {:.2f} GB, V size: 0.00 GB"
    reading = read(tagged(sparse.format("main NVFP4", 12)), tagged(sparse.format("index", 1.5)), tagged(POOL.format(409600)))
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 409600}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 13.5 * 2**30}


WINDOWS = "Use Sliding window memory pool. full_layer_tokens=409600, swa_layer_tokens=40960"
UNNAMED = "KV Cache is allocated. #tokens: {}, K size: {:.2f} GB, V size: {:.2f} GB"
SUM = "SWAKVPool mem usage: 13.00 GB, swa size: 40960, full size: 409600"


@pytest.mark.parametrize("of_all", [(), (SUM,)])
@pytest.mark.parametrize("name", ["", "named"])
def test_pools_of_windows_have_the_bytes_of_both(name: str, of_all: tuple[str, ...]) -> None:
    """By their names, by the tokens that early releases tell them apart by, or by their sum; the draft model's is none."""
    swa, full = ("SWA ", "Full ") if name else ("", "")
    lines = (
        WINDOWS,
        swa + UNNAMED.format(40960, 0.5, 0.5),
        full + UNNAMED.format(409600, 6, 6),
        *of_all,
        UNNAMED.format(409600, 0.25, 0.25),
    )
    reading = read(*(tagged(line, tags=f"TP{rank}") for line in lines for rank in range(2)))
    assert reading.series("kv_cache_size_tokens") == {("0", "full"): 409600, ("0", "swa"): 40960}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 13 * 2**30, ("TP1",): 13 * 2**30}


RESIZED = "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 399360, KV size: 10.00 GB, avail mem=3.20 GB"


@pytest.mark.parametrize(
    "lines",
    [
        ("Post-capture KV sizing: full_layer_tokens=399360, swa_layer_tokens=39936", RESIZED),
        (f"{RESIZED}, full_layer_tokens=399360, swa_layer_tokens=39936",),
    ],
)
def test_new_sizes_replace_those_of_windows(lines: tuple[str, ...]) -> None:
    """What was told before capture was an upper bound."""
    bounds = ("SWAKVPool VA upper bound: 13.00 GB, swa size: 40960, full size: 409600",)
    reading = read(*(tagged(line) for line in (WINDOWS, *bounds, *lines)))
    assert reading.series("kv_cache_size_tokens") == {("0", "full"): 399360, ("0", "swa"): 39936}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 10 * 2**30}


def test_without_windows_there_is_one_new_size() -> None:
    """The shape is told all the same, with none for the window."""
    reading = read(
        tagged(POOL.format(409600)), tagged("Post-capture KV sizing: full_layer_tokens=399360, swa_layer_tokens=0"), tagged(RESIZED)
    )
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 399360}
    assert reading.series("kv_cache_size_bytes") == {("TP0",): 10 * 2**30}


@pytest.mark.parametrize("resized", [(), (RESIZED,)])
def test_a_rank_has_its_bytes_once(resized: tuple[str, ...]) -> None:
    """DeepSeek V4 tells of all pools together; what a pool's line adds to that is the draft model's."""
    calculation = (
        "DSV4 memory calculation: bytes_per_full_token=1024.00, available_bytes=38.90 GB, c128_state_fixed=0.92 GB, full_token=409600"
    )
    reading = read(tagged(calculation), tagged(POOL.format(409600)), *map(tagged, resized))
    told = [each.value for each in reading.source.samples(None) if each.family == "kv_cache_size_bytes"]
    assert told == [10 * 2**30 if resized else 1024 * 409600]


def test_the_ceilings_name_a_pool_that_nothing_else_told_of() -> None:
    """And a prefill step takes a chunk, unless prompts are not chunked."""
    told = "max_total_num_tokens=800, chunked_prefill_size={}, max_prefill_tokens=16384, max_running_requests=33, context_len=400, available_gpu_mem=1.00 GB"
    reading = read(tagged(told.format(-1)))
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 800}
    assert (reading.value("kv_cache_max_concurrency", "0"), reading.value("max_batched_tokens")) == (2, 16384)

    reading = read(arguments(max_running_requests=64), tagged(POOL.format(800)), tagged(told.format(8192)))
    assert reading.series("kv_cache_size_tokens") == {("0", "device"): 800}
    assert (reading.value("max_running_requests"), reading.value("max_batched_tokens")) == (33, 8192)


def test_free_memory_is_what_is_left_in_the_end() -> None:
    """Pools, graphs and a new size take of it; only the first rank has the last word on it."""
    pool, graphs = (
        "Memory pool end. avail mem=31.00 GB",
        "Capture target decode CUDA graph end. elapsed=3.00 s, mem usage=3.00 GB, avail mem=28.00 GB.",
    )
    limits = "max_total_num_tokens=800, max_prefill_tokens=1, max_running_requests=33, context_len=400, available_gpu_mem=25.00 GB"
    lines = [tagged(line, tags=f"TP{rank}") for line in (pool, graphs) for rank in range(2)]

    def free(*lines: str) -> dict[str, float]:
        return {rank: size / 2**30 for (rank, part), size in read(*lines).series("engine_memory_bytes").items() if part == "free"}

    assert free(*lines[:2]) == {"TP0": 31, "TP1": 31}
    assert free(*lines) == {"TP0": 28, "TP1": 28}
    assert free(*lines, tagged(RESIZED)) == {"TP0": 3.2, "TP1": 28}
    assert free(*lines, tagged(limits)) == {"TP0": 25, "TP1": 28}
    assert free(tagged(limits.replace("gpu", "cpu"))) == {}
