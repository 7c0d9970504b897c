"""P/D disaggregation in SGLang's words. A transfer that succeeds prints nothing, unless request statistics are logged."""

import re

from parsers.events import KvCompatibility, KvParamsRefused, KvRequestMoved, KvRoomFailed, KvRoomMixedUp, TransportError
from parsers.rules import Scope, Series, rule
from parsers.units import DECIMAL, GIB, MIB, MILLISECOND

_REASONS = {
    "Prefill bootstrap": "bootstrap",
    "Prefill transfer": "transfer",
    "Decode handshake": "handshake",
    "Decode transfer": "transfer",
}


@rule(
    runtime="sglang",
    anchor=tuple(f"{what} failed for request rank=" for what in _REASONS),
    pattern=(
        r"(Prefill bootstrap|Prefill transfer|Decode handshake|Decode transfer) failed for request rank=\d{1,6} "
        r"(?:decode_req\.)?req\.rid=('[^'\n]{0,256}'|\"[^\"\n]{0,256}\") (?:decode_req\.)?req\.bootstrap_room=(\d{1,32}|None)"
        r"( with exception (?:KVTransferError\(bootstrap_room=\d{1,32}\): )?Aborted by AbortReq\.)?[^\n]*+"
    ),
    source=(
        "Prefill bootstrap failed for request rank=%s req.rid=%s req.bootstrap_room=%s",
        "Prefill transfer failed for request rank=%s req.rid=%s req.bootstrap_room=%s",
        "Decode handshake failed for request rank=%s decode_req.req.rid=%s decode_req.req.bootstrap_room=%s",
        "Decode transfer failed for request rank=%s decode_req.req.rid=%s decode_req.req.bootstrap_room=%s",
    ),
    samples={
        "sglang 0.5.2": "Prefill bootstrap failed for request rank=2 req.rid='d3fd6575d3b24b598367fcbdf1bdd21a' req.bootstrap_room=59750980844157"
        "27586 with exception KVTransferError(bootstrap_room=5975098084415727586): Request 5975098084415727586 timed out after 30"
        "0.0s in KVPoll.Bootstrapping",
        "sglang 0.5.4": "Decode transfer failed for request rank=0 decode_req.req.rid='78fde411d57a4d7791b63963eac74968' decode_req.req.bootstrap"
        "_room=4793981895866140836 with exception KVTransferError(bootstrap_room=4793981895866140836): Aborted by AbortReq.",
        "sglang 0.5.17": "Decode handshake failed for request rank=1 decode_req.req.rid='3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4' "
        "decode_req.req.bootstrap_room=6912345678901234567 with exception KVTransferError(bootstrap_room=6912345678901234567): Could not fetch "
        "bootstrap info for: prefill_dp_rank: 0 prefill_cp_rank: 0 target_tp_rank: 1 and target_pp_rank 0",
    },
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_transfer_failures_total", {"reason": reason}) for reason in ("bootstrap", "handshake", "transfer", "aborted")],
)
def room_failed(found: re.Match[str]) -> KvRoomFailed:
    """The end of one request, told by between one rank and all of them. What the other side said is only a hint."""
    what, request, room, aborted = found.groups()
    return KvRoomFailed("aborted" if aborted else _REASONS[what], request if room == "None" else room)


@rule(
    runtime="sglang",
    anchor="Context corruption detected: Request ",
    pattern=r"Context corruption detected: Request [^\n]{1,256}? \(bootstrap_room=(\d{1,32})\) received metadata from bootstrap_room=\d{1,32}\.[^\n]*+",
    source="Context corruption detected: Request %s ",
    samples={
        "sglang 0.5.17": "Context corruption detected: Request a1b2c3 (bootstrap_room=11) received metadata from bootstrap_room=12. Metadata buffer "
        "index: 5. This indicates metadata buffer index collision.",
    },
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_load_failed_requests_total")],
    since="0.5.10",
)
def mixed_up(found: re.Match[str]) -> KvRoomMixedUp:
    """A decode engine got what was sent for another request, noticed, and ended the one that waited for it."""
    return KvRoomMixedUp(found[1])


@rule(
    runtime="sglang",
    anchor="Prefill instance failed to ",
    pattern=r"Prefill instance failed to (?:register|connect) to bootstrap server(?: after \d{1,9} retries|: )[^\n]*+",
    source=(
        "Prefill instance failed to register to bootstrap server after %s retries",
        "Prefill instance failed to register to bootstrap server: %s",
        "Prefill instance failed to connect to bootstrap server: ",
    ),
    samples={
        "sglang 0.5.3": "Prefill instance failed to register to bootstrap server: Connection refused",
        "sglang 0.5.17": "Prefill instance failed to register to bootstrap server after 5 retries",
    },
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_transfer_failures_total", {"reason": "registration"})],
)
def prefill_unregistered(_: re.Match[str]) -> KvRoomFailed:
    """One rank that no decode engine will find; each registers itself."""
    return KvRoomFailed("registration", None)


@rule(
    runtime="sglang",
    anchor=(
        "RuntimeError: Page size mismatch: prefill server has ",
        "RuntimeError: KV cache dtype mismatch: prefill server has ",
        "RuntimeError: KV layout mismatch: prefill server has ",
        "RuntimeError: DeepSeek-V4.1 DSpark PD layout mismatch ",
    ),
    pattern=r"RuntimeError: (?:(?:Page size|KV cache dtype|KV layout) mismatch: prefill server has |DeepSeek-V4\.1 DSpark PD layout mismatch )",
    source=("Page size mismatch: prefill server has page_size=", "KV cache dtype mismatch: prefill server has kv_cache_dtype="),
    samples={
        "sglang 0.5.17": "RuntimeError: Page size mismatch: prefill server has page_size=64, but decode server has page_size=256. Both servers "
        "must use the same --page-size value.",
    },
    scope=Scope.EXCEPTION,
    emits=[Series("kv_compatibility_checks_total", {"result": "mismatch"})],
    since="0.5.8",
)
def pair_mismatch(_: re.Match[str]) -> KvCompatibility:
    """The decode scheduler dies of it. A check that passes prints nothing."""
    return KvCompatibility("", "mismatch")


@rule(
    runtime="sglang",
    anchor="NIXL state layout rejected: peer=",
    pattern=r"NIXL state layout rejected: peer=\S{1,256} [^\n]*+",
    source="NIXL state layout rejected: peer=%s %s",
    samples={
        "sglang 0.5.23": "NIXL state layout rejected: peer=7f1e2c0d-9a90-4b55-8f0e-90a7c3d1e522 ['NIXL prepared state component 0 (mamba) "
        "stride mismatch for peer 7f1e2c0d-9a90-4b55-8f0e-90a7c3d1e522: src[0]=4096, dst[0]=2048']",
    },
    since="0.5.23",
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_compatibility_checks_total", {"result": "mismatch"})],
)
def layout_rejected(_: re.Match[str]) -> KvCompatibility:
    """A prefill rank knows the layout of a peer's state and cannot write it: every transfer to that peer fails from now on."""
    return KvCompatibility("", "mismatch")


@rule(
    runtime="sglang",
    anchor="prefill bootstrap_thread died on engine_rank=",
    pattern=r"prefill bootstrap_thread died on engine_rank=\d{1,6}; requests to this rank will time out in KVPoll\.Bootstrapping",
    source="prefill bootstrap_thread died on engine_rank=%s; requests to ",
    samples={
        "sglang 0.5.23": "prefill bootstrap_thread died on engine_rank=3; requests to this rank will time out in KVPoll.Bootstrapping",
    },
    since="0.5.21",
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_transfer_failures_total", {"reason": "bootstrap"})],
)
def bootstrap_died(_: re.Match[str]) -> KvRoomFailed:
    """One rank that no decode engine can reach any more, while the process lives."""
    return KvRoomFailed("bootstrap", None)


@rule(
    runtime="sglang",
    anchor="Invalid request: Disaggregated request received without ",
    pattern=r"Invalid request: Disaggregated request received without bootstrap room id\.[^\n]*+",
    source=("Invalid request: Disaggregated request received without ", "bootstrap room id. "),
    samples={
        "sglang 0.5.17": "Invalid request: Disaggregated request received without bootstrap room id. req.rid='3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4'",
        "sglang 0.5.23": "Invalid request: Disaggregated request received without bootstrap room id. req.rid='3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4'",
    },
    scope=Scope.RECORD | Scope.BARE,
)
def router_bypassed(_: re.Match[str]) -> KvParamsRefused:
    """A request that came to an engine of a pair past the router; it is refused, and nothing was tried."""
    return KvParamsRefused()


@rule(
    runtime="sglang",
    anchor="NIXL transport error for room ",
    pattern=r"NIXL transport error for room \d{1,32}: [^\n]*+",
    source="NIXL transport error for room %s: %s",
    samples={"sglang 0.5.17": "NIXL transport error for room 6912345678901234567: NIXL_ERR_REMOTE_DISCONNECT"},
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("transport_errors_total", {"library": "nixl"})],
    since="0.5.12",
)
def room_unreachable(_: re.Match[str]) -> TransportError:
    """An exception of NIXL's, which prints nothing itself when a peer goes; the request's end has a line of its own."""
    return TransportError("nixl")


@rule(
    runtime="sglang",
    anchor="Unexpected transfer worker error for room ",
    pattern=r"Unexpected transfer worker error for room (\d{1,32})",
    source="Unexpected transfer worker error for room %s",
    samples={"sglang 0.5.17": "Unexpected transfer worker error for room 6912345678901234567"},
    scope=Scope.RECORD | Scope.BARE,
    emits=[Series("kv_transfer_failures_total", {"reason": "transfer"})],
    since="0.5.12",
)
def transfer_worker_failed(found: re.Match[str]) -> KvRoomFailed:
    """An exception of the prefill side's own, with its traceback; the line of the request's end is the same failure."""
    return KvRoomFailed("transfer", found[1])


@rule(
    runtime="sglang",
    anchor="ReqTimeStats(rid=",
    # A client may choose the id: nothing stands behind the engine's own numbers, but its own stand behind those of an id.
    pattern=(
        r"ReqTimeStats\(rid=(?!HEALTH_CHECK)[^,\n]{1,256}, bootstrap_room=[1-9]\d{0,31}, input_len=\d{1,15}, "
        r"(?:\w{1,32}=\d{1,15}, ){0,8}type=(?:prefill|decode)\): (?:\w{1,48}=-?[\d.]{1,32}(?:ms)?, ){0,16}"
        rf"(?:transfer_speed={DECIMAL} ?GB/s, transfer_total={DECIMAL} ?MB|transfer_duration={DECIMAL}ms)"
        r"(?:, \w{1,48}=-?[\d.]{1,32}(?:ms)?){0,16}$"
    ),
    source="ReqTimeStats(",
    samples={
        "sglang 0.5.17": "ReqTimeStats(rid=3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4, bootstrap_room=6912345678901234567, input_len=4000, "
        "cached_input_len=0, output_len=1, attempts=1, type=prefill): bootstrap_duration=12.11ms, queue_duration=3.20ms, "
        "forward_duration=812.40ms, entry_time=1785736800.123, transfer_speed=11.42 GB/s, transfer_total=1562.25 MB",
    },
    emits=[Series("kv_transfers_total"), Series("kv_transfer_bytes_total"), Series("kv_transfer_seconds_total")],
    since="0.5.12",
)
def request_moved(found: re.Match[str]) -> KvRequestMoved:
    """One request with --enable-request-time-stats-logging, by the first rank. GB and MB are GiB and MiB."""
    speed, size, milliseconds = found.groups()
    if milliseconds:
        return KvRequestMoved(float(milliseconds) * MILLISECOND, None)
    moved = float(size) * MIB
    return KvRequestMoved(moved / (float(speed) * GIB) if float(speed) > 0 else None, moved)
