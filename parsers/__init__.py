"""Bytes of an inference engine's log in, typed events out: no I/O, no clock, no configuration."""

from parsers import jit, nixl, sglang, vllm
from parsers.stream import LogStream

__all__ = ["LogStream", "jit", "nixl", "sglang", "vllm"]
