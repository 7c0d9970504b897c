"""Bytes of an inference engine's log in, typed events out: no I/O, no clock, no configuration."""

from parsers import gateway, jit, nixl, sglang, vllm
from parsers.log import Log

__all__ = ["Log", "gateway", "jit", "nixl", "sglang", "vllm"]
