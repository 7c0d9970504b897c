"""Lines that begin as a signal's do and that no rule reads: the engine words them in another way. Asked only where all rules have failed."""

import re

from parsers.events import Unread

# Some words before the ones that a new wording would keep, and never so many that a user's could stand among them.
_SOME = r"[^:='\"\n]{0,40}?"

_VLLM = {
    "version": rf"{_SOME}\bLLM engine \(",
    "stats": r"(?:Engine \d{1,3}|\d{1,3} Engines Aggregated)[^:\n]{0,8}: [^:\n]{0,40}(?:throughput|tokens/s)|[^:=\n]{0,24}\bthroughput: \d",
    "spec_decode": rf"{_SOME}\b[Ss]pec(?:ulative )?-?[Dd]ecod(?:ing|e) (?:metrics|stat)",
    "kv_transfer": rf"{_SOME}\bKV [Tt]ransfer (?:metrics|stat)",
    "kv_size": rf"{_SOME}\bKV cache (?:size|capacity|pool size)\b",
    "max_concurrency": rf"{_SOME}\b[Mm]ax(?:imum)? concurrency\b",
    "kv_bytes": r"(?:Available|Free) [^:\n]{0,16}(?:memory|KV cache)[^:\n]{0,24}: [\d.,]+ [KMG]i?B|Available KV",
    "compatibility": rf"{_SOME}\bNIXL compatib|NIXL [^:\n]{{0,24}}compatib",
    "kv_expired": rf"{_SOME}\bexpired KV",
    "recompute_or_fail": rf"{_SOME}\bKV load fail",
    "jit_monitor": rf"{_SOME}\bJIT compilation(?:s)? during inference: ",
    "graph_compile": rf"{_SOME}\b[Cc]ompil(?:ing|ed) a graph\b",
    "hang": rf"{_SOME}\bshared memory (?:broadcast|block)",
    "startup_phases": r"init engine\b|Model (?:loading|load) t|Loading (?:model )?weights t|Graph captur\w+ (?:finished|took|done)|torch\.compile t(?:ook|akes)\b",
}  # fmt: skip

_SGLANG = {
    "batches": r"(?:Prefill|Decode) batch\b|[^\n]{0,48}?#(?:running-req|new-seq|new-token)\b",
    "kv_size": rf"{_SOME}\bKV [Cc]ache (?:is )?allocated",
    "ceilings": r"max_total_num_tokens\b",
    "startup_phases": r"Load(?:ing)? weights? (?:end|done|took)|Capture [^\n]{0,40}graph[^\n]{0,8} (?:end|done|took)\b(?!\.$)",
    "ready": r"[^:\n]{0,24}(?:fired up|ready to roll)",
    "deepgemm": rf"{_SOME}\bDeepGEMM JIT Compil",
    "watchdog": rf"{_SOME}\b[Ww]atchdog tim",
    "version": r"server_args\b",
}


def _any(signals: dict[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in signals.items()), re.ASCII)


VLLM, SGLANG = _any(_VLLM), _any(_SGLANG)


def alike(pattern: re.Pattern[str], line: str, start: int) -> Unread | None:
    """The signal that a line looks like."""
    found = pattern.match(line, start)
    return Unread(found.lastgroup) if found and found.lastgroup else None
