"""The sizes of the KV pool from a boot log of two DGX Sparks, however it is wrapped."""

import pytest

from .conftest import API, CORE, RANK0, RANK1, core, line, logo, read

MEMORY = "Available KV cache memory: 18.08 GiB"
SIZE = "GPU KV cache size: 2,493,464 tokens"
CONCURRENCY = "Maximum concurrency for 1,048,576 tokens per request: 2.38x"
READY = "Application startup complete."

BARE = (MEMORY, SIZE, CONCURRENCY, READY)
WITH_HEADER = (
    f"(EngineCore pid=318) INFO 07-14 03:13:51 [gpu_worker.py:772] {MEMORY}",
    f"(EngineCore pid=318) INFO 07-14 03:13:51 [kv_cache_utils.py:2177] {SIZE}",
    f"(EngineCore pid=318) INFO 07-14 03:13:51 [kv_cache_utils.py:2178] {CONCURRENCY}",
    f"(APIServer pid=1) INFO:     {READY}",
)


def composed(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines as docker compose shows them."""
    return tuple(f"vllm-1  | {each}" for each in lines)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(BARE, id="bare"),
        pytest.param(WITH_HEADER, id="0.26-header"),
        pytest.param(composed(BARE), id="compose-bare"),
        pytest.param(composed(WITH_HEADER), id="compose-header"),
        pytest.param(tuple(f"{each}\r" for each in BARE), id="bare-crlf"),
        pytest.param(tuple(f"2026-07-14T03:13:51.5Z stdout F {each}" for each in WITH_HEADER), id="cri-header"),
    ],
)
def test_two_spark_boot_log_gives_its_numbers_in_any_wrapping(lines: tuple[str, ...]) -> None:
    """The four lines of the report give the same five values, whatever stands before them."""
    reading = read(*lines)

    assert {("0", "device"): 2493464.0} == reading.series("kv_cache_size_tokens")
    assert {("",): 18.08 * 2**30} == reading.series("kv_cache_size_bytes")
    assert {("0",): 2.38} == reading.series("kv_cache_max_concurrency")
    assert {(): 1048576.0} == reading.series("max_model_len_tokens")
    assert 1 == reading.value("engine_ready")
    assert "serving" == reading.state


def test_bare_lines_are_read_whole_and_at_column_0_only() -> None:
    """Text around a bare line makes it somebody's prose."""
    reading = read("See: GPU KV cache size: 1 tokens", " GPU KV cache size: 2 tokens", "GPU KV cache size: 3 tokens is too small")

    assert {} == reading.series("kv_cache_size_tokens")


def test_ready_line_inside_a_text_is_no_readiness() -> None:
    """Only the whole line tells that the server is up."""
    assert None is read("He said: Application startup complete.").value("engine_ready")


@pytest.mark.parametrize(
    ("message", "pool", "tokens"),
    [
        ("GPU KV cache size: 1,761,280 tokens", "device", 1761280),
        ("CPU KV cache size: 4,194,304 tokens, Maximum concurrency for 2,048 tokens per request: 2048.00x", "device", 4194304),
        ("TPU KV cache size: 640 tokens", "device", 640),
        ("GPU + host KV cache size: 9,000 tokens", "device_host", 9000),
    ],
)
def test_any_device_word_is_the_device_pool(message: str, pool: str, tokens: float) -> None:
    """The word is the platform's, not a pool's; only GPU and host together are another pool."""
    assert {("0", pool): tokens} == read(line(message, CORE)).series("kv_cache_size_tokens")


def test_one_line_form_has_the_concurrency_too() -> None:
    """From 0.32 on both numbers stand on one line."""
    reading = read(line("GPU KV cache size: 1,761,280 tokens, Maximum concurrency for 131,072 tokens per request: 13.44x", CORE))

    assert 13.44 == reading.value("kv_cache_max_concurrency", "0")
    assert 131072 == reading.value("max_model_len_tokens")


def test_each_rank_has_its_own_bytes() -> None:
    """Bytes are a rank's, so two ranks give two series."""
    reading = read(line("Available KV cache memory: 18.08 GiB", RANK0), line("Available KV cache memory: 17.5 GiB", RANK1))

    assert {("TP0",): 18.08 * 2**30, ("TP1",): 17.5 * 2**30} == reading.series("kv_cache_size_bytes")


def test_each_dp_engine_has_its_own_pool() -> None:
    """DP engines are one source with a dp_rank each."""
    reading = read(
        line("GPU KV cache size: 880,640 tokens", "EngineCore_DP0 pid=318"),
        line("Maximum concurrency for 131,072 tokens per request: 6.72x", "EngineCore_DP0 pid=318"),
        line("GPU KV cache size: 880,000 tokens", "EngineCore_DP1 pid=319"),
        line("Maximum concurrency for 131,072 tokens per request: 6.71x", "EngineCore_DP1 pid=319"),
    )

    assert {("0", "device"): 880640, ("1", "device"): 880000} == reading.series("kv_cache_size_tokens")
    assert {("0",): 6.72, ("1",): 6.71} == reading.series("kv_cache_max_concurrency")


def test_same_size_told_by_several_ranks_is_one_pool() -> None:
    """The size is a fact of the engine, not of the rank that prints it."""
    reading = read(*(line("GPU KV cache size: 43,520 tokens", who) for who in (CORE, RANK0, RANK1)))

    assert {("0", "device"): 43520} == reading.series("kv_cache_size_tokens")


def test_ceilings_come_from_the_arguments_of_the_engine() -> None:
    """The three configured ceilings are gauges of their own."""
    arguments = "{'model': '/models/m', 'max_model_len': 131072, 'max_num_seqs': 256, 'max_num_batched_tokens': 8192}"
    reading = read(line(f"non-default args: {arguments}", API))

    assert [131072, 8192, 256] == [
        reading.value(family) for family in ("max_model_len_tokens", "max_batched_tokens", "max_running_requests")
    ]


def test_smaller_pool_of_the_next_process_replaces_the_old_one() -> None:
    """After a restart the gauge is what the new process printed."""
    reading = read(logo(), core(), line("GPU KV cache size: 2,493,464 tokens", CORE), READY)
    reading.feed(logo(at="04:00:00"), core(at="04:00:05"), line("GPU KV cache size: 1,000,000 tokens", CORE, "04:00:30"))

    assert {("0", "device"): 1000000} == reading.series("kv_cache_size_tokens")
