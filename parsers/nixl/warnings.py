"""What NIXL warns of at its start, on stderr or with its Python header (1.5.1)."""

import re

from parsers.events import Hazard
from parsers.rules import Scope, Series, rule


@rule(
    runtime="",
    anchor="NIXL telemetry is disabled; ignoring telemetry requested",
    pattern=r"NIXL telemetry is disabled; ignoring telemetry requested",
    source="NIXL telemetry is disabled; ignoring telemetry requested through agent config",
    samples={
        "nixl 1.5.1": "NIXL telemetry is disabled; ignoring telemetry requested through agent config",
    },
    scope=Scope.BARE,
    emits=[Series("config_hazards_total", {"kind": "kv_telemetry_missing"})],
)
def telemetry_disabled(_: re.Match[str]) -> Hazard:
    """With NIXL_TELEMETRY_ENABLE=n the engine's own transfer statistics break."""
    return Hazard("kv_telemetry_missing")
