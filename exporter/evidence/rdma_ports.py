"""The counters of RDMA ports in sysfs, as they stand there at one moment."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_WORDS = 4
"""`port_*_data` count words of four octets."""

_DATA = {"receive": "port_rcv_data", "transmit": "port_xmit_data"}
# irdma and EFA have no port data; theirs are plain bytes, each sum of these that can be had, the largest of them.
_BYTES = {
    "receive": (("ip4InOctets", "ip6InOctets"), ("rx_bytes",), ("rdma_read_bytes", "rdma_write_recv_bytes", "recv_bytes")),
    "transmit": (("ip4OutOctets", "ip6OutOctets"), ("tx_bytes",), ("rdma_read_resp_bytes", "rdma_write_bytes", "send_bytes")),
}
DIRECTIONS = tuple(_DATA)

HARDWARE = (
    # mlx5
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "implied_nak_seq_err",
    "duplicate_request",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "roce_adp_retrans",
    "rx_icrc_encapsulated",
    # EFA
    "retrans_pkts",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    # irdma
    "cnpSent",
    "cnpHandled",
    "RxECNMrkd",
    "tcpRetransSegs",
)
"""Retransmissions and signs of congestion, by the names of the drivers."""

_DEVICE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_PORT = re.compile(r"[0-9]{1,3}")
_MOST_PORTS = 256


class Port(NamedTuple):
    """One port; what cannot be read is not in it."""

    device: str
    port: str
    bytes: Mapping[str, int]
    """By direction."""
    hardware: Mapping[str, int]


def ports(sysfs: str) -> list[Port]:
    """All ports of all devices below a root of sysfs, in the order of their names."""
    top = os.path.join(sysfs, "class", "infiniband")
    found = [_port(top, device, port) for device in _names(top, _DEVICE) for port in _names(os.path.join(top, device, "ports"), _PORT)]
    return found[:_MOST_PORTS]


def _port(top: str, device: str, port: str) -> Port:
    at = os.path.join(top, device, "ports", port)
    # A driver's own counters are the port's, or with one port the device's.
    hardware = [os.path.join(at, "hw_counters"), os.path.join(top, device, "hw_counters")]
    counters = os.path.join(at, "counters")
    size = {direction: value for direction in DIRECTIONS if (value := _bytes(counters, hardware, direction)) is not None}
    return Port(device, port, size, {name: value for name in HARDWARE if (value := _first(hardware, name)) is not None})


def _bytes(counters: str, hardware: list[str], direction: str) -> int | None:
    words = _value(os.path.join(counters, _DATA[direction]))
    if words is not None:
        return words * _WORDS
    sums = []
    for names in _BYTES[direction]:
        values = [value for name in names if (value := _first(hardware, name)) is not None]
        if values:
            sums.append(sum(values))
    return max(sums, default=None)


def _first(directories: list[str], name: str) -> int | None:
    return next((value for each in directories if (value := _value(os.path.join(each, name))) is not None), None)


def _value(path: str) -> int | None:
    """A counter; None for one that is not there, that gives an error, or `N/A (no PMA)`."""
    try:
        with open(path, "rb") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _names(directory: str, pattern: re.Pattern[str]) -> Iterator[str]:
    try:
        yield from sorted(name for name in os.listdir(directory) if pattern.fullmatch(name))
    except OSError:
        return
