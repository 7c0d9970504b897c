"""KV transfers of a P/D pair: the connector's interval line, the handshake, expiry, and what the scheduler did about it."""

import re
from collections.abc import Mapping

from parsers.connectors import connector_label
from parsers.events import (
    NOTHING,
    HybridKvCache,
    KvCompatibility,
    KvExpired,
    KvLateRead,
    KvPeerChanged,
    KvTransferInterval,
    KvTransferIntervals,
    KvTransferPlan,
    Nothing,
)
from parsers.rules import Scope, Series, rule
from parsers.units import LARGEST, MIB, MILLISECOND
from parsers.vllm.kv_stores import moved

_NUMBER = r"(\d[\d.e+-]{0,31}|nan)"
_NESTED = re.compile(r"\b(\w{0,48}Connector(?:V\d)?)=\{([^{}]{0,2048})\}", re.ASCII)
_NESTED_PAIR = re.compile(rf"'([^']{{1,48}})': (?:np\.float\d+\()?{_NUMBER}", re.ASCII)
_TRANSFERS = "Num successful transfers"
_POST = "Avg post time (ms)"
_SIZE = "Avg MB per transfer"
_FAILED = ("Num failed transfers", "Num failed recvs")  # a side prints its own: Mooncake's prefill sends, its decode receives
_IN_TIME = ("Num KV expired reqs", "Num notifs after expiry")
_EMITS = (
    *(Series(f"kv_transfer{name}_total") for name in ("s", "_bytes", "_seconds", "_post_seconds", "_empty_intervals")),
    Series("kv_transfer_reported_failures_total", {"connector": "nixl"}, since="0.31"),
)
_SAMPLES = {
    "0.26.0": "KV Transfer metrics: Num successful transfers=4, Avg xfer time (ms)=7.574, P90 xfer time (ms)=8.017, Avg post time (ms)=1.93, "
    "P90 post time (ms)=1.93, Avg MB per transfer=6.937, Throughput (MB/s)=915.962, Avg number of descriptors=122.0",
    "0.33.0": "KV Transfer metrics: Num successful transfers=0, Avg xfer time (ms)=0, P90 xfer time (ms)=0, Avg post time (ms)=0, "
    "P90 post time (ms)=0, Avg MB per transfer=0, Throughput (MB/s)=0, Avg number of descriptors=0, Num failed transfers=8, "
    "Num KV expired reqs=0, Num notifs after expiry=0",
}
_USUAL = r"(\d{1,6}+(?:\.\d{1,9}+|))"  # so few digits that no sum of theirs is beyond what an engine reaches


@rule(
    anchor="KV Transfer metrics: ",
    pattern=(
        rf"KV Transfer metrics: Num successful transfers=(\d{{1,5}}+), Avg xfer time \(ms\)={_USUAL}, P90 xfer time \(ms\)={_USUAL}, "
        rf"Avg post time \(ms\)={_USUAL}, P90 post time \(ms\)=[0-9.]++, Avg MB per transfer={_USUAL}, Throughput \(MB/s\)={_USUAL}, "
        rf"Avg number of descriptors={_USUAL}"
        r"(?:, Num failed transfers=(\d{1,9}+), Num KV expired reqs=(\d{1,9}+), Num notifs after expiry=(\d{1,9}+)|)\Z"
    ),
    source=("KV Transfer metrics: %s", "Num successful transfers"),
    samples=_SAMPLES,
    since="0.11",
    emits=_EMITS,
)
def nixl_transfer_interval(found: re.Match[str]) -> KvTransferInterval:
    """An interval of NIXL's as its releases print it, alone on its line; the next rule, which reads any, takes thrice as long."""
    transfers, mean, p90, post, size, throughput, descriptors, failed, expired, late = found.groups()
    return KvTransferInterval(
        "nixl",
        float(transfers),
        float(mean) * MILLISECOND,
        float(p90) * MILLISECOND,
        float(post) * MILLISECOND,
        float(size) * MIB,
        float(throughput) * MIB,
        float(descriptors),
        *((float(failed), float(expired), float(late)) if failed else ()),
    )


@rule(
    anchor="KV Transfer metrics: ",
    pattern=(
        # Sets of plain characters, not of classes: this line is long and frequent.
        r"KV Transfer metrics: (Num successful transfers=\d{1,15}(?:, [A-Z][A-Za-z0-9_ ()/]{0,47}+=(?:\d[0-9.e+-]{0,31}+|nan))+"
        r"|\w{0,48}Connector(?:V\d)?=\{[^\n]*\})"
    ),
    source=("KV Transfer metrics: %s", "Num successful transfers"),
    samples=_SAMPLES,
    since="0.11",
    emits=[
        *_EMITS,
        Series("kv_transfer_reported_failures_total", {"connector": "mooncake"}, since="0.21"),
    ],
)
def kv_transfer_interval(found: re.Match[str]) -> KvTransferInterval | KvTransferIntervals | Nothing:
    """One interval, summed over the TP ranks of one engine. MB are MiB; a failure-only interval has 0 transfers."""
    text = found[1]
    if text.startswith(_TRANSFERS):
        words = text.replace(", ", "=").split("=")
        return _interval("", dict(zip(words[::2], words[1::2], strict=True)))
    nested = [(connector, dict(_NESTED_PAIR.findall(body))) for connector, body in _NESTED.findall(text)]
    parts = (_interval(connector, values) if _TRANSFERS in values else moved(values) for connector, values in nested)
    told = tuple(part for part in parts if part)
    return KvTransferIntervals(told) if told else NOTHING


def _interval(connector: str, values: Mapping[str, str]) -> KvTransferInterval:
    if _SIZE not in values:
        raise ValueError  # torn before the keys by which connectors differ
    # Mooncake's line has the same keys but for the post time.
    name = connector_label(connector) or "other" if connector else "nixl" if _POST in values else "mooncake"
    get, post = values.get, values.get(_POST)
    failed = [float(values[key]) for key in _FAILED if key in values]
    transfers, mean, size = float(values[_TRANSFERS]), float(get("Avg xfer time (ms)", 0)), float(values[_SIZE])
    post_seconds = None if post is None else float(post) * MILLISECOND
    failures = sum(failed) if failed else None
    if not transfers * (mean + size * MIB + (post_seconds or 0.0)) + (failures or 0.0) < LARGEST:
        raise ValueError
    return KvTransferInterval(
        name,
        transfers,
        mean * MILLISECOND,
        float(get("P90 xfer time (ms)", 0)) * MILLISECOND,
        post_seconds,
        size * MIB,
        float(get("Throughput (MB/s)", 0)) * MIB,
        float(get("Avg number of descriptors", 0)),
        failures,
        *(_count(values, key) for key in _IN_TIME),
    )


def _count(values: Mapping[str, str], key: str) -> float | None:
    """A number of requests; ValueError for one that no engine reaches."""
    if key not in values:
        return None
    count = float(values[key])
    if not count < LARGEST:
        raise ValueError
    return count


@rule(
    anchor="NIXL compatibility check passed",
    pattern=r"NIXL compatibility check passed",
    source="NIXL compatibility check passed (hash: %s)",
    samples={
        "0.26.0": "NIXL compatibility check passed (hash: 3f0c8a5b1d9e7c42a6b8f1e0d4c3927765aa10bb3c9f4e2d8871f0c6a5e9b314)",
        "0.32.0": "NIXL compatibility check passed (hash: 48193df42d65909960486225b14d395a86b0b8ed3d5e10e1ca2ab67ba69fcd44)",
        "0.33.0": "NIXL compatibility check passed (hash: 3f0c8a5b1d9e7c42a6b8f1e0d4c3927765aa10bb3c9f4e2d8871f0c6a5e9b314)",
    },
    since="0.13",
    emits=[Series("kv_compatibility_checks_total", {"connector": "nixl", "result": "passed"})],
)
def compatibility_passed(_: re.Match[str]) -> KvCompatibility:
    """One rank agrees with one remote engine; printed without comparing when enforce_handshake_compat is false."""
    return KvCompatibility("nixl", "passed")


@rule(
    anchor=("RuntimeError: NIXL compatibility hash mismatch", "NIXL compatibility hash mismatch"),
    pattern=r"(?:RuntimeError: )?NIXL compatibility hash mismatch\.",
    source="NIXL compatibility hash mismatch. Local: ",
    samples={
        "0.26.0": "RuntimeError: NIXL compatibility hash mismatch. Local: "
        "3f0c8a5b1d9e7c42a6b8f1e0d4c3927765aa10bb3c9f4e2d8871f0c6a5e9b314, Remote: "
        "9b1d7e20c4a85f3361f2d0a7b8c9e4f5120a3b6c7d8e9f00a1b2c3d4e5f60718. Prefill and decode instances have incompatible "
        "configurations. This may be due to: different vLLM versions, models, dtypes, KV cache layouts, attention backends, "
        "etc. Both instances must use identical configurations.Disable this check using --kv-transfer-config "
        '\'{"kv_connector_extra_config": {"enforce_handshake_compat": false}}\'',
        "0.33.0": "RuntimeError: NIXL compatibility hash mismatch. Local: "
        "3f0c8a5b1d9e7c42a6b8f1e0d4c3927765aa10bb3c9f4e2d8871f0c6a5e9b314, Remote: "
        "9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b9b. Prefill and decode instances have incompatible "
        "configurations. This may be due to: different vLLM versions, models, dtypes, KV cache layouts, attention backends, "
        "etc. Both instances must use identical configurations.Disable this check using --kv-transfer-config "
        '\'{"kv_connector_extra_config": {"enforce_handshake_compat": false}}\'',
    },
    since="0.13",
    scope=Scope.EXCEPTION,
    emits=[Series("kv_compatibility_checks_total", {"connector": "nixl", "result": "mismatch"})],
)
def compatibility_mismatch(_: re.Match[str]) -> KvCompatibility:
    """The pair differs in version, model, layout or dtype. The last line of a traceback, and again in each request's."""
    return KvCompatibility("nixl", "mismatch")


@rule(
    anchor="RuntimeError: Failed to decode NixlHandshakePayload",
    pattern=r"RuntimeError: Failed to decode NixlHandshakePayload",
    source="Failed to decode NixlHandshakePayload.",
    samples={
        "0.26.0": "RuntimeError: Failed to decode NixlHandshakePayload. This likely indicates an incompatibility between connector "
        "version. Error: Object missing required field `compatibility_hash`",
    },
    since="0.13",
    scope=Scope.EXCEPTION,
    emits=[Series("kv_compatibility_checks_total", {"connector": "nixl", "result": "undecodable"})],
)
def compatibility_undecodable(_: re.Match[str]) -> KvCompatibility:
    """The remote engine's connector speaks another version."""
    return KvCompatibility("nixl", "undecodable")


@rule(
    anchor="Transfer plan: ",
    pattern=r"Transfer plan: TransferTopology\(tp_ratio=(-?\d{1,5}), [^()]{0,200}?local_tp=(\d{1,5}), remote_tp=(\d{1,5})",
    source="Transfer plan: %s",
    samples={
        "0.26.0": "Transfer plan: TransferTopology(tp_ratio=1, num_kv_heads=8, local_tp=4, remote_tp=4, remote_pp=0, local_rank=0, "
        "remote_block_len=149760)",
        "0.32.0": "Transfer plan: TransferTopology(tp_ratio=1, num_kv_heads=1, local_tp=1, remote_tp=1, remote_pp=0, local_dcp=1, "
        "remote_dcp=1, local_rank=0, remote_block_len=16384)",
        "0.33.0": "Transfer plan: TransferTopology(tp_ratio=1, num_kv_heads=1, local_tp=4, remote_tp=4, remote_pp=0, local_dcp=1, "
        "remote_dcp=1, local_rank=0, remote_block_len=149760)",
    },
    since="0.20",
)
def transfer_plan(found: re.Match[str]) -> KvTransferPlan:
    """How the ranks of the pair map to each other."""
    return KvTransferPlan(found[2], found[3], found[1])


@rule(
    anchor="Hybrid Memory Allocator is enabled with ",
    pattern=r"Hybrid Memory Allocator is enabled with NIXL",
    source="Hybrid Memory Allocator is enabled with NIXL",
    samples={"0.26.0": "Hybrid Memory Allocator is enabled with NIXL"},
    since="0.18",
)
def hybrid_allocator(_: re.Match[str]) -> HybridKvCache:
    """Hybrid KV groups and NIXL together."""
    return HybridKvCache()


@rule(
    anchor="Releasing expired KV blocks for request ",
    pattern=r"Releasing expired KV blocks for request (\S{1,256}) which were retrieved by \d+ (?:remote|decode) worker\(s\)",
    source="Releasing expired KV blocks for request %s which were retrieved by ",
    samples={
        "0.18.0": "Releasing expired KV blocks for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de which were retrieved by 0 decode "
        "worker(s) within 480 seconds.",
        "0.26.0": "Releasing expired KV blocks for request cmpl-c631ae5e-7145-4022-88d0-c8d2979f131f-0-8bcd2f2b which were retrieved by "
        "0 remote worker(s) before lease expired.",
        "0.33.0": "Releasing expired KV blocks for request chatcmpl-5f1c0a7e2d6b4a8f-1d44aa02 which were retrieved by 0 remote "
        "worker(s) before lease expired.",
    },
    since="0.10",
    emits=[Series("kv_expired_requests_total", {"connector": "nixl"})],
)
def blocks_expired(found: re.Match[str]) -> KvExpired:
    """Prefill side, each rank: decode never fetched the request."""
    return KvExpired("nixl", found[1])


@rule(
    anchor="Declining expired remote read for ",
    pattern=r"Declining expired remote read for (\S{1,256}) from engine ",
    source="Declining expired remote read for %s from engine %s.",
    samples={
        "0.33.0": "Declining expired remote read for chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de from engine e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07.",
    },
    since="0.26",
    emits=[Series("kv_expired_requests_total", {"connector": "nixl"})],
)
def read_declined(found: re.Match[str]) -> KvExpired:
    """Bidirectional mode: the remote blocks' lease is over, so nobody fetches them; the engine counts them as expired, too."""
    return KvExpired("nixl", found[1])


@rule(
    anchor=("Remote engine at ", "Local NIXL metadata for remote engine "),
    pattern=r"(?:Remote engine at \S{1,256} changed from \S{1,256} to \S{1,256}|Local NIXL metadata for remote engine \S{1,256} was invalidated)",
    source=("Remote engine at %s:%d changed from %s to %s.", "Local NIXL metadata for remote engine %s was invalidated; "),
    samples={
        "0.32.0": "Remote engine at 192.0.2.1:5600 changed from b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522 to "
        "e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07.",
        "0.33.0": "Local NIXL metadata for remote engine e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07 was invalidated; re-handshaking after reads "
        "drain.",
    },
    since="0.31",
)
def peer_changed(_: re.Match[str]) -> KvPeerChanged:
    """The prefill engine behind an address was replaced, or what is known of it holds no longer: the handshake comes again."""
    return KvPeerChanged()


@rule(
    anchor="RuntimeError: Remote NIXL agent engine ID mismatch",
    pattern=r"RuntimeError: Remote NIXL agent engine ID mismatch\.",
    source="Remote NIXL agent engine ID mismatch. Expected ",
    samples={
        "0.26.0": "RuntimeError: Remote NIXL agent engine ID mismatch. Expected b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522,received "
        "e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07.",
    },
    since="0.10",
    scope=Scope.EXCEPTION,
)
def peer_is_another(_: re.Match[str]) -> KvPeerChanged:
    """A handshake met another engine than the one that was asked for: its pod was replaced, or its address given away."""
    return KvPeerChanged()


@rule(
    anchor="Potentially invalid KV blocks for unrecognized request ",
    pattern=r"Potentially invalid KV blocks for unrecognized request (\S{1,256}) were retrieved by a decode worker",
    source="Potentially invalid KV blocks for unrecognized request %s were retrieved by a decode worker.",
    samples={
        "0.26.0": "Potentially invalid KV blocks for unrecognized request cmpl-c631ae5e-7145-4022-88d0-c8d2979f131f-0-8bcd2f2b were "
        "retrieved by a decode worker. They may have expired.",
        "0.33.0": "Potentially invalid KV blocks for unrecognized request chatcmpl-5f1c0a7e2d6b4a8f-1d44aa02 were retrieved by a "
        "decode worker. They may have expired.",
    },
    since="0.10",
    emits=[Series("kv_reads_after_expiry_total", {"connector": "nixl"})],
)
def blocks_read_late(found: re.Match[str]) -> KvLateRead:
    """Prefill side: decode read blocks that may hold another request's KV by now."""
    return KvLateRead("nixl", found[1])
