"""Why a cell of the compatibility page is empty: what a release does not print, or prints in a way that tells nothing."""

from typing import NamedTuple

from exporter.drift.compare import numbers
from exporter.drift.signals import FLASHINFER, SGLANG, VLLM


class Silence(NamedTuple):
    """The engine's own silence in the versions from `first` to `last`; `""` is no bound."""

    package: str
    signal: str
    first: str
    last: str
    reason: str


_NO_CONNECTOR = "This vLLM has no NIXL connector yet, or one that keeps silent about it."

SILENCES = (
    Silence(VLLM, "ready", "", "0.13", "The HTTP server's readiness is uvicorn's line, in all versions; vLLM prints one of its own for gRPC from 0.14 on."),
    Silence(VLLM, "kv_bytes", "", "0.8", "V1 prints the tokens only; V0's memory line is read, and no signal of this page."),
    Silence(VLLM, "kv_transfer", "", "0.10", _NO_CONNECTOR),
    Silence(VLLM, "handshake_failure", "", "0.8", _NO_CONNECTOR),
    Silence(VLLM, "kv_expired", "", "0.9", "Prefill frees the blocks of requests that are not fetched without a word."),
    Silence(VLLM, "compatibility", "", "0.12", "Two engines do not compare what they are made for: a mismatch ends in wrong output or an exception."),
    Silence(VLLM, "recompute_or_fail", "", "0.11", "The scheduler has no policy for KV that could not be loaded."),
    Silence(VLLM, "jit_monitor", "", "0.20", "There is no monitor: compiles while serving show only in Triton's and TileLang's own lines."),
    Silence(VLLM, "hang", "", "0.10", "Printed at DEBUG only."),
    Silence(FLASHINFER, "build", "0.7", "", "FlashInfer 0.7 builds without a word; older releases tell the beginning and the end."),
    Silence(SGLANG, "dspark", "", "0.5.15", "There is no DSpark yet: 0.5.17 is the first release here that has it."),
)  # fmt: skip


def silence(package: str, signal: str, version: str) -> Silence | None:
    """The reason that holds for a cell."""
    at = numbers(version)
    for each in SILENCES:
        if each.package == package and each.signal == signal:
            last = numbers(each.last)
            if numbers(each.first) <= at and (not last or at[: len(last)] <= last):
                return each
    return None
