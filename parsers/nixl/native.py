"""Which library a native record is of: `E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] genNotif: ...` (1.5.1)."""

import re

from parsers.rules import Series

_NIXL = r"(?:nixl|serdes|ucx_|libfabric_|gpunetio_|backend_plugin|telemetry|metadata_stream|config)\w*\.(?:cpp|h|cc)\b"
_LIBRARIES = (
    ("nixl", re.compile(rf"(?:.*/)?{_NIXL}", re.ASCII)),
    ("nccl", re.compile(r"(?:.*/)?(?:ProcessGroupNCCL|NCCLUtils)\w*\.[ch]pp\b", re.ASCII)),
    ("mooncake", re.compile(r"(?:.*/)?(?:transfer_\w+|worker_pool|rdma_\w+|store_py|client)\.(?:cpp|h)\b", re.ASCII)),
)


EMITS = [Series("transport_errors_total", {"library": library}) for library in ("nixl", "ucx", "nccl")]
"""What native records can raise beside any engine."""


def transport_library(where: str) -> str:
    """The library whose source file printed a native record, empty when it is none that moves KV."""
    return next((library for library, shape in _LIBRARIES if shape.match(where)), "")
