"""What NIXL and UCX say of themselves when an agent starts (1.5.1 with UCX 1.23). It proves nothing about the data path."""

import re

from parsers.events import Component
from parsers.rules import Scope, rule


@rule(
    runtime="",
    anchor="NIXL version: ",
    pattern=r"NIXL version: (\d[\w.+-]{0,31})",
    source="NIXL version: ",
    samples={"nixl 1.5.1": "NIXL version: 1.5.1 (git: 1d2a52eb)"},
    scope=Scope.BARE,
)
def nixl_version(found: re.Match[str]) -> Component:
    """With NIXL_LOG_LEVEL=INFO."""
    return Component("nixl", found[1])


@rule(
    runtime="",
    anchor=("NIXL UCX backend bound to UCX ", "Version "),
    pattern=r"(?:NIXL UCX backend bound to UCX (\d[\w.]{0,15}) at |Version (\d[\w.]{0,15}) \(loaded from )",
    source=("NIXL UCX backend bound to UCX ", "(loaded from "),
    samples={
        "nixl 1.5.1": "NIXL UCX backend bound to UCX 1.23.0 at /usr/local/lib/python3.11/site-packages/nixl_cu12/../"
        ".nixl_cu12.mesonpy.libs/plugins/../../nixl_cu12.libs/libucp-b39b3ed9.so.0.0.0",
        "ucx 1.23.0": "Version 1.23.0 (loaded from /usr/local/lib/python3.11/site-packages/nixl_cu12/../"
        ".nixl_cu12.mesonpy.libs/plugins/../../nixl_cu12.libs/libucp-b39b3ed9.so.0.0.0, git branch <unknown>, revision 65e342a)",
    },
    scope=Scope.BARE,
)
def ucx_version(found: re.Match[str]) -> Component:
    """At level INFO, by NIXL's plugin and by UCX itself."""
    return Component("ucx", found[1] or found[2])


@rule(
    runtime="",
    anchor="Backend ",
    pattern=r"Backend ([A-Z][A-Z0-9_]{1,31}) was instantiated",
    source="Backend %s was instantiated",
    samples={
        "nixl 1.5.1": "Backend UCX was instantiated",
    },
    scope=Scope.BARE,
)
def backend_started(found: re.Match[str]) -> Component:
    """One for each agent: what NIXL was told to move data with. Printed without a header before it had a logger."""
    return Component("nixl_backend", found[1])
