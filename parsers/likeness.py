"""Lines that begin as a signal's do and that no rule reads: the engine words them in another way. Asked only where all rules have failed."""

import re

from parsers.events import Unread

_TAG = r"(?:\[[^\]\n]{1,64}\] )?"
# Some words before the ones that a new wording would keep, and never so many that a user's could stand among them.
_SOME = r"[^:='\"\n]{0,40}"


def _some(words: str) -> str:
    """Some words and then these, which the matching looks for by their first letter: where that comes first it is twice as fast."""
    return rf"{_SOME}{words[0]}(?<=\b{words[0]}){words[1:]}"


_VLLM = {
    "version": _some(r"LLM engine \(| ?▄▄ ▄█ █[ ▀▄█]*\w"),
    "stats": (
        r"(?:Engine \d{1,3}|\d{1,3} Engines Aggregated)[^:\n]{0,8}: [^:\n]{0,40}(?:throughput|tokens/s)"
        r"|Engine \d{3}: [A-Z][^:\n]{0,40}: \d+\.\d tokens/s|[^:=\n]{0,24}\bthroughput: \d"
    ),
    "spec_decode": _SOME
    + r"\b[Ss]pec(?:ulative )?-?[Dd]ecod(?:ing|e) (?:metrics|stat)|[A-Z][\w ]{2,40}: [A-Z][\w ]{2,40}: \d[\d.]*, Accepted throughput: \d",
    "kv_transfer": _some(r"KV [Tt]ransfer (?:metrics|stat)|[A-Z][\w ]{2,40}: Num successful transfers="),
    "kv_size": _some(r"KV cache (?:size|capacity|pool size)\b"),
    "max_concurrency": _SOME + r"\b[Mm]ax(?:imum)? concurrency\b",
    "kv_bytes": r"(?:Available|Free) [^:\n]{0,16}(?:memory|KV cache)[^:\n]{0,24}: [\d.,]+ [KMG]i?B|Available KV|Explicitly set \(\d",
    "compatibility": _some(r"NIXL compatib|NIXL [^:\n]{0,24}compatib"),
    "kv_expired": _some(r"expired KV"),
    "recompute_or_fail": _some(r"KV load fail"),
    "jit_monitor": _some(r"JIT compilation(?:s)? during inference: "),
    "graph_compile": _SOME + r"\b[Cc]ompil(?:ing|ed) a graph\b|\w+ a graph for (?:compile range|dynamic|general|shape)\b",
    "hang": _some(r"shared memory (?:broadcast|block)|No \w+ shared memory"),
    "startup_phases": (
        r"init engine\b|[^:\n]{0,24}\(profile, create kv cache|Model (?:loading|load) \w+ \d|Loading (?:model )?weights \w+ \d|\w{4,16} weights took \d"
        r"|\w+ loading took \d|Graph captur\w+ \w+ in \d|\w+ capturing finished in \d|torch\.compile \w{3,10} \d|JIT kernel \w+ \w+ in \d"
        r"|\w+ kernel warmup finished in \d|Initial profiling/warmup|\w+ profiling/warmup run|[^:\n]{0,32}\bTileLang warmup\b"
    ),
}

_SGLANG = {
    "batches": r"(?:Prefill|Decode) batch\b|[A-Z][\w ,.]{0,47}?#(?:running-req|new-seq|new-token)\b",
    "kv_size": (
        _some(r"KV [Cc]ache (?:is )?allocated|[^:\n]{0,24}\bpool sizes?\b: \w+=|DSV4 pool|[^:\n]{0,24}\bKV sizing: (?!draft )")
        + r"|(?![^\n]{0,64}\b(?:VA upper bound|draft KV)\b)[^\n]{0,96}#tokens: \d{1,15}, KV? size: \d"
    ),
    "pd_failures": r"[^\n]{0,64}?\b(?:decode_)?req\.(?:req\.)?rid='?[\w-]{1,80}'? (?:decode_req\.)?req\.bootstrap_room=\d",
    "ceilings": r"max_total_num_tokens\b",
    "startup_phases": (
        r"Load(?:ing)? weights? \w+\. |\w+ weight end\. |Init (?:torch distributed|parallel) \w+\. elapsed|Capture [^\n]{0,60}(?:elapsed=|(?i:graph) (?!begin|bs)\w+\. (?:bs|num_tokens|step)=)"
        r"|\w+ [^\n]{0,60}graph end\. |[^:\n]{0,24}\bMHC prewarm\b|\w+ \w+ \w+\. avail mem=[\d.]{1,12} GB$"
    ),
    "ready": r"[^:\n]{0,24}(?:fired up|ready to roll)",
    "deepgemm": _some(r"DeepGEMM JIT Compil|[^<\n]{0,40}\bJIT Compiling for <|[^<\n]{0,64}<\w{1,96}> (?:M=\d+, )?N=\d+, K=\d"),
    "watchdog": _SOME + r"\b[Ww]atchdog tim|[^\n]{0,40}(?:\(self\.watchdog_timeout=|\bwatchdog_timeout=)|\w+ [Ww]atchdog \w+ \(",
    "engine_death": r"[^:\n]{0,24}\b(?:sigquit|SIGQUIT)\b|[^:\n]{0,64}\bthe child failed\b|[^:\n]{0,40}\bchild process\. It\b",
    "kv_exhausted": r"KV cache pool is\b|[^:\n]{0,48}\bRetract\w* requests\b|[^\n]{0,64}#retracted_reqs: |[^:\n]{0,24}out of memory\. Try",
    "version": r"server_args\b|\w{1,24}=(?:ServerArgs\(\w|\{'model_path': )",
}


def _any(signals: dict[str, str]) -> re.Pattern[str]:
    named = "|".join(f"(?P<{name}>{pattern})" for name, pattern in signals.items())
    return re.compile(f"{_TAG}(?:{named})", re.ASCII)


VLLM, SGLANG = _any(_VLLM), _any(_SGLANG)


def alike(pattern: re.Pattern[str], line: str, start: int) -> Unread | None:
    """The signal that a line looks like."""
    found = pattern.match(line, start)
    return Unread(found.lastgroup) if found and found.lastgroup else None
