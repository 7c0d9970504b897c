"""MoRIIO's transfers that fail."""

import re

from parsers.events import KvTransferFailure
from parsers.rules import Series, rule


def _failures(*reasons: str) -> list[Series]:
    return [Series("kv_transfer_failures_total", {"connector": "moriio", "reason": reason}) for reason in reasons]


@rule(
    anchor="Eager MoRIIO handshake failed for ",
    pattern=r"Eager MoRIIO handshake failed for \S",
    source="Eager MoRIIO handshake failed for %s",
    samples={"0.33.0": "Eager MoRIIO handshake failed for e6d0c1aa-77a2-4f0d-b7a9-3a3b6f1d9c07_dp0"},
    since="0.27",
    emits=_failures("handshake"),
)
def moriio_handshake_failed(_: re.Match[str]) -> KvTransferFailure:
    """A handshake before the first read, with one of the remote engine's ranks; `Handshake with` tells of those on demand."""
    return KvTransferFailure("moriio", "handshake")


@rule(
    anchor=("RDMA read TIMED OUT for req ", "RDMA transfer failed for request "),
    pattern=r"RDMA (?:(read TIMED OUT for req)|transfer failed for request) (\S{1,256}?)(?: after \d|: )",
    source=("RDMA read TIMED OUT for req %s after %.1fs", "RDMA transfer failed for request %s: %s (code=%s). "),
    samples={
        "0.30.0": "RDMA transfer failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de: RNIC timeout (code=7). Notifying prefill to "
        "free blocks; request will be aborted by timeout.",
        "0.33.0": "RDMA read TIMED OUT for req chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de after 30.0s "
        "(kv_connector_extra_config.recv_abort_timeout=30)",
    },
    since="0.23",
    emits=_failures("timeout", "transfer"),
)
def moriio_read_failed(found: re.Match[str]) -> KvTransferFailure:
    """Decode side, one record a rank and request."""
    return KvTransferFailure("moriio", "timeout" if found[1] else "transfer", found[2])


@rule(
    anchor=("Write task failed for request ", "Deferred write task "),
    pattern=(
        r"(?:(?:Write|Deferred write) task failed for request (\S{1,256}), marking done"
        r"|Deferred write task for request (\S{1,256}) (?:timed out|expired) after \d)"
    ),
    source=(
        "Write task failed for request %s, marking done",
        "Deferred write task failed for request %s, marking done",
        "Deferred write task for request %s expired after %.1fs ",
        "Deferred write task for request %s timed out after %.1fs waiting for remote blocks",
    ),
    samples={
        "0.23.0": "Write task failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de, marking done",
        "0.26.0": "Deferred write task for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de expired after 60.2s (remote blocks never arrived), "
        "marking done",
        "0.32.0": "Deferred write task failed for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de, marking done",
        "0.33.0": "Deferred write task for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de timed out after 60.2s waiting for remote blocks",
    },
    since="0.23",
    emits=_failures("timeout", "transfer"),
)
def moriio_write_failed(found: re.Match[str]) -> KvTransferFailure:
    """Prefill side, one record a layer that could not be written, or a request whose remote blocks never came."""
    return KvTransferFailure("moriio", "timeout" if found[2] else "transfer", found[1] or found[2])
