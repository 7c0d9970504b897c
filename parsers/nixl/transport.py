"""The transport that UCX really moves data over, and what becomes of it on an InfiniBand or RoCE device."""

import re

from parsers.events import NOTHING, KvTransports, Nothing, TransportError
from parsers.rules import Scope, Series, rule

_REMOTE_ACCESS = re.compile(r"\brma(?:_am)?\(([^()\n]{1,2048})\)", re.ASCII)
_TRANSPORT = re.compile(r"(\w{1,32})/\S", re.ASCII)
_KNOWN = frozenset((
    "tcp", "self", "sysv", "posix", "cma", "knem", "xpmem", "rc_verbs", "rc_mlx5", "rc_gda", "dc_mlx5", "ud_verbs", "ud_mlx5", "srd", "gga_mlx5",
    "cuda_copy", "cuda_ipc", "gdr_copy", "rocm_copy", "rocm_ipc", "ze_copy", "ze_ipc",
))  # fmt: skip
"""Those of UCX 1.23; another word may be anybody's and shows as `other`."""


@rule(
    runtime="",
    anchor=("inter-node cfg#", "intra-node cfg#", "self cfg#"),
    pattern=r"(inter-node|intra-node|self) cfg#\d{1,6} ([^\n]{1,4096})",
    source=("cfg#%d", "rma_am"),
    samples={
        "ucx 1.23.0": "intra-node cfg#1 rma_am(tcp/lo)  amo_am(tcp/lo)  am(tcp/lo)  ka(tcp/lo)",
    },
    scope=Scope.BARE,
)
def endpoint_transports(found: re.Match[str]) -> KvTransports | Nothing:
    """Only at UCX_LOG_LEVEL=info. An agent's endpoint to itself tells of no peer, and lanes of messages carry no KV."""
    remote_access = _REMOTE_ACCESS.search(found[2])
    if found[1] == "self" or remote_access is None:
        return NOTHING
    names = _TRANSPORT.findall(remote_access[1])
    return KvTransports(tuple(dict.fromkeys(name if name in _KNOWN else "other" for name in names)))


@rule(
    runtime="",
    anchor="ib_mlx5_log.c:",
    pattern=(
        r"ib_mlx5_log\.c:\d{1,5} {1,4}[A-Z][\w -]{3,63} on [\w.-]{1,64}:\d{1,3}/(?:RoCE|IB) "
        r"\(synd 0x[0-9a-f]{1,8} vend 0x[0-9a-f]{1,8} hw_synd \d{1,8}/\d{1,8}\)"
    ),
    source="%s on %s:%d/%s (synd 0x%x vend 0x%x hw_synd %d/%d)",
    samples={
        "ucx 1.9.0": "ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
    },
    scope=Scope.BARE,
    emits=[Series("transport_errors_total", {"library": "ucx"})],
)
def completion_failed(_: re.Match[str]) -> TransportError:
    """Where nobody handles the error UCX ends the process, and prints the record in two lines with a header of its own."""
    return TransportError("ucx")
