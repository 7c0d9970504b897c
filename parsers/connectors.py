"""One name for each KV connector, however the engine spells it."""

import re

_CLASS = re.compile(r"(?:Simple(?:CPU)?)?(Nixl|MooncakeStore|Mooncake|MoRIIO|LMCache|Offload|HF3FS|P2pNccl|HiSparse|FlexKV|UMBP)", re.ASCII)

_BACKENDS = frozenset(("nixl", "mooncake", "ascend", "mori", "fake"))
"""SGLang's transfer backends, which are no classes."""


def connector_label(name: str) -> str:
    """The `connector` label of a class: `NixlPushConnector` is nixl; empty for one that is not known or holds others."""
    if name in _BACKENDS:
        return name
    found = _CLASS.match(name)
    return found[1].lower().replace("offload", "offloading") if found else ""


_QUOTED = re.compile(r"'([^'\n]{1,256})'")
_REQUEST_LIMIT = 256


def listed(text: str) -> tuple[str, ...]:
    """The request ids in the repr of a list or a set."""
    return tuple(_QUOTED.findall(text))[:_REQUEST_LIMIT]
