"""Failed handshakes and transfers of vLLM's connectors, and how worker and scheduler react."""

import re

from parsers.events import NOTHING, KvLoadFailed, KvLoadSkipped, KvParamsRefused, KvRecomputed, KvTransferFailure, Nothing
from parsers.rules import Series, rule

_REASONS = {
    "handshake_setup_failed": "handshake_setup",
    "handshake_failed": "handshake",
    "transfer_setup_failed": "transfer_setup",
    "transfer_failed": "transfer",
    "transfer_exception": "transfer_exception",
    "transfer_release_failed": "transfer_release",
    "notification_failed": "notification",
    "push_handshake_failed": "handshake",
    "push_reg_handshake_failed": "registration",
    "push_reg_notif_failed": "registration",
}
_LOOPBACK = re.compile(r"localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|0\.0\.0\.0")
_REQUEST_LIMIT = 256
_STRING = r"(?:'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\")"
# The rest of the record with its Context, whole or torn, up to where another record or Ray's mark may begin. What a client chose stands
# in quotes, so that nothing in it can look like either; a string without end hides all that follows.
_PLAIN = r"[^'\"\n(\[A-Z]*+"
_NEXT = r"\([A-Za-z][\w-]{0,63}[^()\n]{0,80}\) |(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) |\[repeated \d"
_CONTEXT = rf"({_PLAIN}(?:(?:{_STRING}|(?!{_NEXT})[(\[A-Z]){_PLAIN}){{0,400}})"
_FIELD = re.compile(rf"'(request_id|remote_host)': ({_STRING})|{_STRING}")


@rule(
    anchor="NIXL transfer failure: ",
    pattern=rf"NIXL transfer failure: ([a-z_]{{1,64}})\b{_CONTEXT}",
    source="NIXL transfer failure: %s | Context: %s",
    samples={
        "0.26.0": "NIXL transfer failure: handshake_setup_failed | Context: {'failure_type': 'handshake_setup_failed', 'request_id': "
        "None, 'engine_id': 'b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522', 'remote_engine_id': "
        "'e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07'}",
        "0.32.0": "NIXL transfer failure: transfer_exception | Context: {'failure_type': 'transfer_exception', 'request_id': "
        "'cmpl-863b3db9-eccd-445e-a8d5-6b3b19d9e0c1-0-bb8380ed', 'engine_id': '97444de2-49b4-457a-a24f-ddc7f73961ba', "
        "'remote_engine_id': '027e15d4-23de-4d12-818d-dfeeafe1dc0a', 'remote_request_id': "
        "'cmpl-863b3db9-eccd-445e-a8d5-6b3b19d9e0c1-0-b8d89ab9', 'remote_host': '127.0.0.1', 'remote_port': 5600, "
        "'num_local_blocks': 7, 'num_remote_blocks': 7, 'local_block_ids_sample': [355, 352, 330, 356, 357, 358, 359]}",
        "0.33.0": "NIXL transfer failure: notification_failed. P worker blocks will be freed after timeout. This may indicate network "
        "issues. | Context: {'failure_type': 'notification_failed', 'request_id': 'chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de', "
        "'engine_id': 'b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522', 'remote_agent_name': 'e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07'}",
    },
    since="0.14",
    emits=[
        Series("kv_transfer_failures_total", {"connector": "nixl", "reason": reason})
        for reason in dict.fromkeys((*_REASONS.values(), "other"))
    ],
)
def nixl_failure(found: re.Match[str]) -> KvTransferFailure | Nothing:
    """One record a rank: of a handshake attempt (setup), a request (handshake) or a transfer handle. A traceback may follow."""
    kind, context = found.groups()
    reason = _REASONS.get(kind) or ("other" if context.startswith((" | ", ". ")) else "")
    if not reason:
        return NOTHING  # torn within the word
    fields = {each[1]: each[2][1:-1] for each in _FIELD.finditer(context) if each[1]}
    request, host = fields.get("request_id", "")[:_REQUEST_LIMIT], fields.get("remote_host", "")
    return KvTransferFailure("nixl", reason, request or None, loopback=_LOOPBACK.fullmatch(host) is not None)


@rule(
    anchor="Handshake with ",
    pattern=r"Handshake with \S{1,256} failed",
    source="Handshake with %s failed",
    samples={
        "0.10.2": "Handshake with e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07 failed",
        "0.26.0": "Handshake with e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07_dp0 failed",
        "0.33.0": "Handshake with e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07_dp0 failed",
    },
    since="0.9",
    emits=[Series("kv_transfer_failures_total", {"connector": name, "reason": "handshake"}) for name in ("nixl", "moriio")],
)
def handshake_failed(_: re.Match[str]) -> KvTransferFailure:
    """NIXL's words up to 0.13, MoRIIO's from 0.14 on: the engine's settings tell whose."""
    return KvTransferFailure("", "handshake")


@rule(
    anchor="Handshake failed for request ",
    pattern=r"Handshake failed for request (\S{1,256})\S*+",
    source="Handshake failed for request %s, marking blocks as invalid",
    samples={"0.12.0": "Handshake failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de, marking blocks as invalid"},
    since="0.11.1",
    until="0.13",
)
def old_handshake_failure(found: re.Match[str]) -> KvTransferFailure:
    """NIXL's word for each request of such a handshake, before failures had types."""
    return KvTransferFailure("nixl", "handshake", found[1])


_OLD_REASONS = {
    "transfer failed": "transfer",
    "transfer exception": "transfer_exception",
    "transfer setup/initiation failed": "transfer_setup",
    "send_notif failed": "notification",
}


@rule(
    anchor=("NIXL transfer ", "NIXL send_notif failed for request "),
    pattern=(
        r"NIXL (transfer failed|transfer exception|transfer setup/initiation failed|send_notif failed) for request "
        r"(\S{1,256}?)(?: with state |\. Marking |: P worker)"
    ),
    source=(
        "NIXL transfer failed for request %s with state %s. Marking blocks as invalid.",
        "NIXL transfer exception for request %s. Marking blocks as invalid.",
        "NIXL transfer setup/initiation failed for request %s. Marking blocks as invalid.",
        "NIXL send_notif failed for request %s: P worker blocks will be freed after timeout.",
    ),
    samples={
        "0.11.1": "NIXL transfer failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de with state ERR. Marking blocks as invalid.",
        "0.12.0": "NIXL transfer setup/initiation failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de. Marking blocks as invalid.",
        "0.13.0": "NIXL send_notif failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de: P worker blocks will be freed after "
        "timeout. This may indicate network issues.",
    },
    since="0.11.1",
    until="0.13",
)
def old_transfer_failure(found: re.Match[str]) -> KvTransferFailure:
    """Failures of transfers before they had types."""
    return KvTransferFailure("nixl", _OLD_REASONS[found[1]], found[2])


@rule(
    anchor=(
        "NixlPushConnector: registration for request ",
        "No remote agents for engine ",
        "Failed handshake to D ",
        "nixl-push-writer error",
    ),
    pattern=(
        r"(?:NixlPushConnector: registration for request (\S{1,256}) timed out|No remote agents for engine \S{1,256}; cannot send registration"
        r"|(Failed handshake to D) |(nixl-push-writer error))"
    ),
    source=(
        "NixlPushConnector: registration for request %s timed out after %.1fs without a push completion",
        "No remote agents for engine %s; cannot send registration for %s",
        "Failed handshake to D %s for push %s",
        "nixl-push-writer error; continuing",
    ),
    samples={
        "0.26.0": "Failed handshake to D e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07 for push chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
        "0.27.0": "nixl-push-writer error; continuing",
        "0.30.0": "No remote agents for engine e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07; cannot send registration for "
        "chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
        "0.33.0": "NixlPushConnector: registration for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de timed out after 30.0s without a "
        "push completion",
    },
    since="0.24",
    emits=[
        Series("kv_transfer_failures_total", {"connector": "nixl", "reason": reason}) for reason in ("registration", "handshake", "other")
    ],
)
def push_failure(found: re.Match[str]) -> KvTransferFailure:
    """Push mode: prefill writes, so it is prefill that fails."""
    return KvTransferFailure("nixl", "handshake" if found[2] else "other" if found[3] else "registration", found[1])


@rule(
    anchor="Skipping KV post-processing for failed request ",
    pattern=r"Skipping KV post-processing for failed request (\S{1,256})\S*+",
    source="Skipping KV post-processing for failed request %s",
    samples={
        "0.26.0": "Skipping KV post-processing for failed request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
        "0.32.0": "Skipping KV post-processing for failed request cmpl-814dac00-22b1-4555-abbd-94e24a0c1513-0-b0aa3df1",
        "0.33.0": "Skipping KV post-processing for failed request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
    },
    since="0.22",
)
def load_skipped(found: re.Match[str]) -> KvLoadSkipped:
    """A load failed on this rank. Where the scheduler stays silent (0.32 on), the only sign of a recompute."""
    return KvLoadSkipped(found[1])


@rule(
    anchor="Recovered from KV load failure: ",
    pattern=r"Recovered from KV load failure: (\d{1,15}) request\(s\) rescheduled \((\d{1,15}) tokens affected\)\.?",
    source="Recovered from KV load failure: %d request(s) rescheduled (%d tokens affected).",
    samples={
        "0.26.0": "Recovered from KV load failure: 2 request(s) rescheduled (808 tokens affected).",
        "0.33.0": "Recovered from KV load failure: 1 request(s) rescheduled (4096 tokens affected).",
    },
    since="0.11.1",
    emits=[Series("kv_recomputed_requests_total"), Series("kv_recomputed_tokens_total")],
)
def load_recovered(found: re.Match[str]) -> KvRecomputed:
    """Policy `recompute`: the numbers of the line, not lines."""
    return KvRecomputed(float(found[1]), float(found[2]))


@rule(
    anchor="Failing ",
    pattern=r"Failing (\d{1,15}) request\(s\) due to KV load failure",
    source="Failing %d request(s) due to KV load failure (failure_policy=fail, %d tokens affected). Request IDs: %s",
    samples={
        "0.26.0": "Failing 1 request(s) due to KV load failure (failure_policy=fail, 3109 tokens affected). Request IDs: "
        "{'chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'}",
        "0.32.0": "Failing 4 request(s) due to KV load failure (failure_policy=fail, 3109 tokens affected). Request IDs: "
        "{'cmpl-814dac00-22b1-4555-abbd-94e24a0c1513-0-b0aa3df1', 'cmpl-863b3db9-eccd-445e-a8d5-6b3b19d9e0c1-0-bb8380ed', "
        "'cmpl-32787e15-53a9-4cae-825c-9e4143371f3b-0-aac8a591', 'cmpl-52c984a6-d1d7-466f-9849-79c564da8463-0-ad10ae0b'}",
    },
    since="0.13",
    emits=[Series("kv_load_failed_requests_total")],
)
def load_failed(found: re.Match[str]) -> KvLoadFailed:
    """Policy `fail`: the clients get HTTP 500."""
    return KvLoadFailed(float(found[1]))


@rule(
    anchor=("Got invalid KVTransferParams: ", "Got kv_transfer_params, but no KVConnector found"),
    pattern=r"Got (?:invalid KVTransferParams: |kv_transfer_params, but no KVConnector found)",
    source=(
        "Got invalid KVTransferParams: %s. This request will not utilize KVTransfer",
        "Got kv_transfer_params, but no KVConnector found. Disabling KVTransfer for this request.",
    ),
    samples={
        "0.26.0": "Got kv_transfer_params, but no KVConnector found. Disabling KVTransfer for this request.",
        "0.33.0": "Got invalid KVTransferParams: {'do_remote_prefill': True, 'do_remote_decode': False, 'remote_engine_id': "
        "'e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07'}. This request will not utilize KVTransfer",
    },
    since="0.9",
)
def params_refused(_: re.Match[str]) -> KvParamsRefused:
    """The router sent parameters that lead nowhere: the request is computed locally."""
    return KvParamsRefused()
