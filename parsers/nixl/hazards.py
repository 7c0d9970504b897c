"""What NIXL and UCX warn of: set up so that it hurts (1.5.1 with UCX 1.23)."""

import re

from parsers.events import Hazard
from parsers.rules import Scope, Series, rule


def _hazard(kind: str) -> list[Series]:
    return [Series("config_hazards_total", {"kind": kind})]


@rule(
    runtime="",
    anchor=("NIXL telemetry is disabled; ignoring telemetry requested", "Prometheus telemetry endpoint '"),
    pattern=r"(NIXL telemetry is disabled; ignoring telemetry requested|Prometheus telemetry endpoint '[^'\n]{1,256}' could not be bound)",
    source=(
        "NIXL telemetry is disabled; ignoring telemetry requested through agent config",
        "could not be bound (likely already in use by another process)",
    ),
    samples={
        "nixl 1.5.1": "NIXL telemetry is disabled; ignoring telemetry requested through agent config",
        "nixl 1.5.1, port taken": "Prometheus telemetry endpoint '127.0.0.1:19192' could not be bound (likely already in use by another "
        "process); this process will run without a telemetry sink",
    },
    scope=Scope.BARE,
    emits=_hazard("kv_telemetry_missing"),
)
def telemetry_missing(found: re.Match[str]) -> Hazard:
    """With NIXL_TELEMETRY_ENABLE=n the engine's own transfer statistics break; of several ranks one alone gets the exporter's port."""
    return Hazard("kv_telemetry_missing", found[1].partition(" ")[0])


@rule(
    runtime="",
    anchor="unused environment variable",
    pattern=r"unused environment variables?: ([^\n]{1,512})",
    source="unused environment variable%s: %s",
    samples={"ucx 1.23.0": "unused environment variable: UCX_TLSS (maybe: UCX_TLS?)"},
    scope=Scope.BARE,
    emits=_hazard("unknown_env"),
)
def ucx_variable_unused(found: re.Match[str]) -> Hazard:
    """A misspelt variable has no effect; each rank says so."""
    return Hazard("unknown_env", found[1])


@rule(
    runtime="",
    anchor=("network device", "transport"),
    pattern=r"(?:network device|transport)s? ('[^\n]{1,512}?) (?:is|are) not available, please use one or more of: ",
    source=" not available, please use one or more of: %s",
    samples={
        "ucx 1.23.0": "network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)",
        "ucx 1.23.0, transport": "transport 'rc' is not available, please use one or more of: cma, mm, posix, self, shm, sm, sysv, tcp",
        "ucx 1.18": "transports 'cuda_ipc','cuda_copy' are not available, please use one or more of: mm, posix, self, shm, sm, sysv, tcp",
    },
    scope=Scope.BARE,
    emits=_hazard("kv_transport_degraded"),
)
def transport_unavailable(found: re.Match[str]) -> Hazard:
    """UCX goes on with what else it was allowed, or fails when that is nothing."""
    return Hazard("kv_transport_degraded", found[1])


@rule(
    runtime="",
    anchor=("# Amazon EFA(s) were detected", "# NVIDIA GPU(s) were detected", "# IB device(s) were detected"),
    pattern=(
        r"\d{1,4} (Amazon EFA|NVIDIA GPU|IB device)\(s\) were detected, but "
        r"(?:the UCX backend was configured|UCX CUDA support was not found|accelerated IB support was not found)"
    ),
    source=(
        " Amazon EFA(s) were detected, but the UCX backend was configured.",
        " NVIDIA GPU(s) were detected, but UCX CUDA support was not found! ",
        " IB device(s) were detected, but accelerated IB support was not found! ",
    ),
    samples={
        "nixl 1.4.0": "32 Amazon EFA(s) were detected, but the UCX backend was configured. For best performance, it's recommended to use the "
        "LIBFABRIC backend instead.",
        "nixl 1.4.0, GPU": "8 NVIDIA GPU(s) were detected, but UCX CUDA support was not found! GPU memory is not supported.",
        "nixl 1.4.0, IB": "8 IB device(s) were detected, but accelerated IB support was not found! Performance may be degraded.",
    },
    scope=Scope.BARE,
    emits=_hazard("kv_transport_degraded"),
)
def hardware_unused(found: re.Match[str]) -> Hazard:
    """NIXL looks at the machine once an agent: what is there is not what UCX can use."""
    return Hazard("kv_transport_degraded", found[1])


@rule(
    runtime="",
    anchor=("Skipping backend registration ", "No plugins available, cannot start transfers!", "createBackend: "),
    pattern=(
        r"(?:Skipping backend registration (\w{1,32}) due to the missing plugin|No plugins available, cannot start transfers!"
        r"|createBackend: (?:unsupported backend|backend creation failed for|backend) '(\w{1,32})'(?: encountered error|\n|$| with ))"
    ),
    source=(
        "Skipping backend registration %s due to the missing plugin.",
        "No plugins available, cannot start transfers!",
        "unsupported backend '",
        "backend creation failed for '",
        "encountered error during intra-agent transfer setup with status ",
    ),
    samples={
        "nixl 1.5.1": "createBackend: unsupported backend 'NOPE'",
        "nixl 1.5.1, failed": "createBackend: backend creation failed for 'UCX'",
        "nixl 1.5.1, unreachable": "createBackend: backend 'UCX' encountered error during intra-agent transfer setup with status NIXL_ERR_BACKEND",
        "nixl 1.5.1, Python": "Skipping backend registration MOONCAKE due to the missing plugin.",
        "nixl 1.5.1, no plugin": "No plugins available, cannot start transfers!",
    },
    scope=Scope.BARE,
    emits=_hazard("kv_connector_unavailable"),
)
def backend_unavailable(found: re.Match[str]) -> Hazard:
    """The plugin that should move data is not installed, or did not start."""
    return Hazard("kv_connector_unavailable", found[1] or found[2] or "")
