"""Native records that tell more than that there was an error, and those that only go on with another one (1.5.1)."""

import re

from parsers.events import NOTHING, KvTransferFailure, Nothing
from parsers.rules import Scope, Series, rule


@rule(
    runtime="",
    anchor="registerMem: registration failed for ",
    pattern=r"registerMem: registration failed for the specified or all potential backends",
    source="registration failed for the specified or all potential backends",
    samples={"nixl 1.5.1": "registerMem: registration failed for the specified or all potential backends"},
    scope=Scope.BARE,
    emits=[Series("kv_transfer_failures_total", {"connector": "nixl", "reason": "registration"})],
)
def registration_failed(_: re.Match[str]) -> KvTransferFailure:
    """The KV cache could not be pinned: no GPU support in UCX, no peer memory module, a limit. The engine has no record of its own for it."""
    return KvTransferFailure("nixl", "registration")


@rule(
    runtime="",
    anchor=(
        "Deserialization failed, missing nixlSerDes tag",
        'try to increase "net.core.somaxconn"',
        "Plugin file does not exist: ",
        "Invalid NIXL_LOG_LEVEL ",
        "Unexpected UCX error: ",
        "worker 0x",
    ),
    pattern=(
        r"(?:Deserialization failed, missing nixlSerDes tag|try to increase \"net\.core\.somaxconn\"|Plugin file does not exist: "
        r"|Invalid NIXL_LOG_LEVEL (?:environment variable|value)|Unexpected UCX error: |worker 0x[0-9a-f]{1,16}: \d{1,9} pending operations were not flushed)"
    ),
    source=(
        "Deserialization failed, missing nixlSerDes tag",
        "Plugin file does not exist: ",
        "Invalid NIXL_LOG_LEVEL",
        "Unexpected UCX error: ",
        "worker %p: %u pending operations were not flushed",
    ),
    samples={
        "nixl 1.5.1": "Deserialization failed, missing nixlSerDes tag",
        "nixl 1.5.1, plugin": "Plugin file does not exist: /usr/local/lib/python3.11/site-packages/nixl_cu12/../.nixl_cu12.mesonpy.libs/plugins/"
        "libplugin_NOPE.so",
        "nixl 1.5.1, reason": "Unexpected UCX error: Destination is unreachable",
        "nixl 1.5.1, level": "Invalid NIXL_LOG_LEVEL environment variable, using default log level: WARN",
        "ucx 1.23.0": 'try to increase "net.core.somaxconn", "net.core.netdev_max_backlog", "net.ipv4.tcp_max_syn_backlog" to the maximum value on '
        "the remote node or increase UCX_TCP_MAX_CONN_RETRIES (=25)",
    },
    scope=Scope.BARE,
)
def native_aside(_: re.Match[str]) -> Nothing:
    """The half of an error whose other half says what failed, hints, and what is left over at the end."""
    return NOTHING
