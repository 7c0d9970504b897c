"""Interval lines of connectors that keep KV in a store: host memory, Mooncake's store, 3FS."""

import re
from collections.abc import Mapping

from parsers.events import NOTHING, KvMoved, Nothing
from parsers.rules import Series, rule
from parsers.units import LARGEST, MILLISECOND

_OFFLOADING = re.compile(r"(?:\w{1,16}_to_\w{1,16}_total|vllm:kv_offload_(?:load|store)(?:_size)?)_(bytes|time|count)", re.ASCII)
_PAIR = re.compile(r"(\w[\w: ()]{0,63})=(\d[\d.e+-]{0,31})(?=, |\s*$)", re.ASCII)


def moved(values: Mapping[str, str]) -> KvMoved | None:
    """The interval of the connector whose keys these are."""
    event = _offloading(values) or _mooncake_store(values) or _hf3fs(values)
    if event and not all(each < LARGEST for each in event[1:] if each is not None):
        raise ValueError
    return event


def _offloading(values: Mapping[str, str]) -> KvMoved | None:
    sums: dict[str, float] = {}
    for key, value in values.items():
        if found := _OFFLOADING.fullmatch(key):
            sums[found[1]] = sums.get(found[1], 0.0) + float(value)
    if not {"bytes", "time"} <= sums.keys():
        return None  # torn: the engine always counts both
    return KvMoved("offloading", sums.get("count"), sums["time"], sums["bytes"], None)


def _mooncake_store(values: Mapping[str, str]) -> KvMoved | None:
    """Of its operations those that move bytes: others only ask for keys."""
    names = [key.removesuffix("_total_keys") for key in values if key.endswith("_total_keys")]
    if not names:
        return None
    moves = [name for name in names if float(values.get(f"{name}_total_bytes", 0)) > 0]
    counts = [float(values[f"{name}_count"]) for name in moves]
    seconds = sum(count * float(values[f"{name}_avg_ms"]) for name, count in zip(moves, counts, strict=True)) * MILLISECOND
    failed = sum(float(values.get(f"{name}_error_count", 0)) for name in names)
    return KvMoved("mooncakestore", sum(counts), seconds, sum(float(values[f"{name}_total_bytes"]) for name in moves), failed)


def _hf3fs(values: Mapping[str, str]) -> KvMoved | None:
    if "Num transfers task" not in values:
        return None
    done = {way: float(values[f"Num {way} task success"]) for way in ("save", "load")}
    seconds = sum(number * float(values[f"Avg {way} duration (ms)"]) for way, number in done.items()) * MILLISECOND
    failed = sum(float(values[f"Num {way} task failed"]) for way in done)
    return KvMoved("hf3fs", sum(done.values()), seconds, None, failed)


@rule(
    anchor="KV Transfer metrics: ",
    pattern=r"KV Transfer metrics: (?=\w{1,16}_to_\w{1,16}_total_bytes=|vllm:kv_offload_|[a-z_]{1,32}_count=|Num transfers task=)([^\n]*)",
    source="KV Transfer metrics: %s",
    samples={
        "0.20.0": "KV Transfer metrics: GPU_to_CPU_total_bytes=67108864, GPU_to_CPU_total_time=0.012, CPU_to_GPU_total_bytes=33554432, "
        "CPU_to_GPU_total_time=0.004",
        "0.26.0": "KV Transfer metrics: vllm:kv_offload_load_bytes=33554432, vllm:kv_offload_load_time=0.004, "
        "vllm:kv_offload_load_size_count=2, vllm:kv_offload_load_size_sum=33554432, vllm:kv_offload_store_bytes=67108864, "
        "vllm:kv_offload_store_time=0.012, vllm:kv_offload_store_size_count=4, vllm:kv_offload_store_size_sum=67108864",
        "0.32.0": "KV Transfer metrics: Num transfers task=7, Num save task success=4, Num save task failed=1, Num load task success=2, "
        "Num load task failed=0, Avg save duration (ms)=3.0, P90 save duration (ms)=3.5, Avg load duration (ms)=2.0, "
        "P90 load duration (ms)=2.5",
        "0.33.0": "KV Transfer metrics: load_get_count=2, load_get_avg_ms=2.0, load_get_p90_ms=2.1, load_get_total_keys=8, "
        "load_get_total_bytes=33554432, load_get_failed_keys=0, load_get_error_count=0, save_exists_count=3, save_exists_avg_ms=0.4, "
        "save_exists_p90_ms=0.5, save_exists_total_keys=12, save_exists_total_bytes=0, save_exists_failed_keys=0, "
        "save_exists_error_count=1",
    },
    since="0.16",
    emits=[
        *(
            Series(family, {"connector": connector})
            for connector in ("offloading", "mooncakestore", "hf3fs")
            for family in ("kv_transfers_total", "kv_transfer_seconds_total")
        ),
        *(Series("kv_transfer_bytes_total", {"connector": connector}) for connector in ("offloading", "mooncakestore")),
        *(Series("kv_transfer_reported_failures_total", {"connector": connector}) for connector in ("mooncakestore", "hf3fs")),
    ],
)
def kv_store_interval(found: re.Match[str]) -> KvMoved | Nothing:
    """One interval of OffloadingConnector, MooncakeStoreConnector or HF3FSKVConnector, saves and loads together.

    3FS prints no bytes. HiSparse's and UMBP's lines tell of cache hits and of objects: none of the families here.
    """
    return moved(dict(_PAIR.findall(found[1]))) or NOTHING


@rule(
    anchor="KV Transfer metrics: num_successful_transfers=",
    pattern=r"KV Transfer metrics: num_successful_transfers=(\d{1,15})",
    source=("KV Transfer metrics: %s", "num_successful_transfers"),
    samples={"0.11.0": "KV Transfer metrics: num_successful_transfers=4"},
    since="0.11",
    until="0.11",
    emits=[Series("kv_transfers_total", {"connector": "nixl"})],
)
def first_kv_transfer_interval(found: re.Match[str]) -> KvMoved:
    """The first form of NIXL's line: a number, without sizes and times."""
    return KvMoved("nixl", float(found[1]), None, None, None)
