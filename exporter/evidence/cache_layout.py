"""What a compiled kernel looks like in the JIT caches of the libraries under an engine."""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

DEFAULT_DIRECTORIES = (
    ".cache/vllm",
    ".cache/sglang",
    ".cache/deep_gemm",
    ".deep_gemm",
    ".cache/flashinfer",
    ".cache/tvm-ffi",
    ".triton",
    ".tilelang",
)
"""Under a home; torchinductor's own default is in the temporary directory: give it by name."""

DEEPEST = 8
"""Levels below a cache directory that are looked at: vLLM keeps Inductor's cache seven below its own."""

_NAME = r"(?P<kernel>[\w.+-]{1,128})"
_TRITON_HASH = r"(?:[A-Z2-7]{52}|[0-9a-f]{64})"
_ARTEFACTS = tuple(
    (backend, re.compile(pattern, re.ASCII))
    for backend, pattern in (
        # Directories that are renamed into place, or files that appear when a compile is over.
        ("deepgemm", rf".*/kernel\.{_NAME}\.[0-9a-f]{{8,64}}"),
        ("flashinfer", rf".*/cached_ops/{_NAME}/(?P=kernel)\.so"),
        ("triton", rf".*/{_TRITON_HASH}/{_NAME}\.(?:cubin|hsaco)"),
        ("tilelang", r".*/kernels/(?P<kernel>[0-9a-f]{64})"),
        ("inductor", r".*/fxgraph/[a-z2-7]{2}/(?P<kernel>f[a-z2-7]{51})"),
        ("other", rf".*/tvm-ffi/[^/]+/{_NAME}\.so"),
        ("other", rf".*/sglang/jit/(?:[^/]+/)*{_NAME}\.so"),
    )
)
_LEAF = re.compile(rf".*/{_TRITON_HASH}")
# What is being written, what was downloaded, locks.
_OF_NO_INTEREST = re.compile(r"\.staging.*|\.?tmp.*|.*\.tmp|.*\.lock|locks|cubins|.*\.log", re.ASCII)


class Artefact(NamedTuple):
    """A compiled kernel."""

    backend: str
    kernel: str


def artefact(path: str) -> Artefact | None:
    """What a path in a cache is, by its absolute name."""
    for backend, pattern in _ARTEFACTS:
        if found := pattern.fullmatch(path):
            return Artefact(backend, found["kernel"])
    return None


def is_leaf(directory: str) -> bool:
    """Whether a directory is named by the hash of the one kernel that it holds: once that is there, nothing more comes."""
    return _LEAF.fullmatch(directory) is not None


def is_of_interest(name: str) -> bool:
    """Whether something by this name may be, or become, a compiled kernel."""
    return not _OF_NO_INTEREST.fullmatch(name)


def directories(home: str | None, given: Iterable[str]) -> list[str]:
    """The cache directories of a source: the default ones under a home, and those that are given."""
    under_home = (os.path.join(home, name) for name in DEFAULT_DIRECTORIES) if home else ()
    return list(dict.fromkeys(map(os.path.abspath, (*under_home, *given))))
