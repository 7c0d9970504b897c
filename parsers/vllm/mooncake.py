"""Mooncake's transfers that fail and expire. An attempt of decode's ends in one record on its side, and in one on prefill's."""

import re

from parsers.connectors import listed
from parsers.events import KvExpired, KvTransferFailure
from parsers.rules import Series, rule

_LIST = r"([\[{][^\n]{1,16384}?[\]}])"


def _failures(*reasons: str) -> list[Series]:
    return [Series("kv_transfer_failures_total", {"connector": "mooncake", "reason": reason}) for reason in reasons]


def _failed(reason: str, requests: tuple[str, ...]) -> KvTransferFailure:
    return KvTransferFailure("mooncake", reason, requests[0] if requests else None, others=requests[1:])


@rule(
    anchor=(
        "pulling kv_caches for ",
        "MooncakeXferMetadata transfer failed for ",
        "MooncakeAgentMetadata transfer failed for ",
        "Error happens during transferring kvcache for ",
        "Error happens during tranfering kvcache for ",
    ),
    pattern=(
        rf"(?:pulling kv_caches for {_LIST} failed: (Timeout waiting for P side ready|remote engine_id \S{{1,256}} not found from bootstrap server)?"
        rf"|(?:Mooncake(?:Xfer|Agent)Metadata transfer failed|Error happens during trans?ferr?ing kvcache) for {_LIST}[:,])"
    ),
    source=(
        "pulling kv_caches for %s failed: %s",
        "MooncakeXferMetadata transfer failed for %s: %s",
        "MooncakeAgentMetadata transfer failed for %s: %s",
        "Error happens during transferring kvcache for %s: %s",
        "Error happens during tranfering kvcache for %s, see logs in prefiller.",
    ),
    samples={
        "0.13.0": "Error happens during tranfering kvcache for ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'], see logs in prefiller.",
        "0.26.0": "MooncakeXferMetadata transfer failed for {'chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'}: Resource temporarily unavailable",
        "0.27.0": "Error happens during transferring kvcache for {'chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'}: transfer error",
        "0.30.0": "pulling kv_caches for ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'] failed: remote engine_id "
        "e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07 not found from bootstrap server http://192.0.2.1:8998",
        "0.32.0": "pulling kv_caches for ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de'] failed: Timeout waiting for P side ready.",
        "0.33.0": "pulling kv_caches for ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de', 'chatcmpl-0b7d2f1e9c3a4d5b-1d44aa02'] failed: transfer "
        "failed: Resource temporarily unavailable",
    },
    since="0.13",
    emits=_failures("transfer", "timeout", "handshake"),
)
def mooncake_pull_failed(found: re.Match[str]) -> KvTransferFailure:
    """Decode side, once for each attempt and prefill worker: no two of these words tell of the same one."""
    cause = found[2] or ""
    reason = "timeout" if cause.startswith("Timeout") else "handshake" if cause else "transfer"
    return _failed(reason, listed(found[1] or found[3]))


@rule(
    anchor="Failed to connect to bootstrap server ",
    pattern=r"Failed to connect to bootstrap server \S{1,256}(?: \(\w{1,64}\))?: ",
    source=("Failed to connect to bootstrap server %s: %s", "Failed to connect to bootstrap server %s (%s): %s"),
    samples={
        "0.26.0": "Failed to connect to bootstrap server http://192.0.2.1:8998: All connection attempts failed",
        "0.33.0": "Failed to connect to bootstrap server http://192.0.2.1:8998 (ConnectError): All connection attempts failed",
    },
    since="0.16",
    emits=_failures("bootstrap"),
)
def mooncake_bootstrap_failed(_: re.Match[str]) -> KvTransferFailure:
    """Decode side: one query for all requests that wait for it. From 0.30 on a record names these; before, nothing does."""
    return KvTransferFailure("mooncake", "bootstrap")


@rule(
    anchor="Sending to ",
    pattern=r"Sending to \S{1,256} failed \(ret=-?\w{1,32}\)",
    source="Sending to %s failed (ret=%s) after %s (%d descriptors, %d bytes)",
    samples={
        "0.26.0": "Sending to 192.0.2.2:15731 failed (ret=-1) after 0.0021 (64 descriptors, 8388608 bytes)",
        "0.33.0": "Sending to 192.0.2.2:15731 failed (ret=-1) after 0.0021 (64 descriptors, 8388608 bytes)",
    },
    since="0.21",
    emits=_failures("transfer"),
)
def mooncake_send_failed(_: re.Match[str]) -> KvTransferFailure:
    """Prefill side: one batch to one decode worker, which prints its own record."""
    return KvTransferFailure("mooncake", "transfer")


@rule(
    anchor="Timeout waiting for P side ready: ",
    pattern=rf"Timeout waiting for P side ready: {_LIST}(?=\s|$)",
    source="Timeout waiting for P side ready: %s",
    samples={
        "0.26.0": "Timeout waiting for P side ready: ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de']",
        "0.33.0": "Timeout waiting for P side ready: ['chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de', 'chatcmpl-0b7d2f1e9c3a4d5b-1d44aa02']",
    },
    since="0.16",
    emits=_failures("timeout"),
)
def mooncake_prefill_late(found: re.Match[str]) -> KvTransferFailure:
    """Prefill side: decode asked for requests that are not computed yet."""
    return _failed("timeout", listed(found[1]))


@rule(
    anchor=("Request ", "Force freed expired request: "),
    pattern=(
        r"(?:Request (\S{1,256}) (?:expired before sending on P side|timed out after \d{1,9} seconds without being sent\. Freeing its blocks)"
        r"|Force freed expired request: (\S{1,256})\. Reason: )"
    ),
    source=(
        "Request %s expired before sending on P side.",
        "Request %s timed out after %d seconds without being sent. Freeing its blocks on the producer side.",
        "Force freed expired request: ",
    ),
    samples={
        "0.13.0": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de timed out after 480 seconds without being sent. Freeing its blocks on the "
        "producer side.",
        "0.26": "Force freed expired request: chatcmpl-35663437383837622d373633362d3464-b6f0b5ab. Reason: Request exceeded timeout "
        "threshold (10 seconds). Action: Resources have been forcibly released to prevent memory leak.",
        "0.32.0": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de timed out after 480 seconds without being sent. Freeing its blocks on the "
        "producer side.",
        "0.33.0": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de expired before sending on P side.",
    },
    since="0.13",
    emits=[Series("kv_expired_requests_total", {"connector": "mooncake"})],
)
def mooncake_blocks_expired(found: re.Match[str]) -> KvExpired:
    """Mooncake's words, and those of its port to Ascend."""
    return KvExpired("mooncake", found[1] or found[2])
