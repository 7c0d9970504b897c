"""The signals of the compatibility page: where a release would print one, and what our parser must make of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

VLLM, SGLANG, UVICORN, TILELANG, TRITON, FLASHINFER, NIXL = "vllm", "sglang", "uvicorn", "tilelang", "triton", "flashinfer", "nixl"
BUILT = "built"
"""The level of a string in a built library: nothing tells how it is printed, so that it can be found but not rendered."""


@dataclass(frozen=True)
class Signal:
    """One row. `words` finds the calls of a release that print it, in whatever wording; `events` are what a rendered line must make."""

    name: str
    package: str
    title: str
    words: str
    events: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)
    """What a slot prints, by a pattern of its name; 7 otherwise."""
    but: str = r"(?!)"
    """Calls with these words that are something else."""
    levels: tuple[str, ...] = ("INFO", "WARNING", "ERROR", "CRITICAL")
    tells: tuple[str, ...] = ()
    """Fields that the event must have a value in."""

    def prints(self, level: str, shape: str) -> bool:
        """Whether a call of a release is one of this signal's."""
        return level in self.levels and re.search(self.words, shape) is not None and re.search(self.but, shape) is None


_RAISED = ("INFO", "WARNING", "ERROR", "CRITICAL", "raise")
_BATCH = {
    "usage_msg": "#token: 7, token usage: 0.07, ",
    "graph_backend|graph_label": "cuda graph",
    "estimate_suffix": "est uncap acc len: 3.66 [3.58, 3.74]",
}

SIGNALS = (
    Signal("version", VLLM, "version", r"LLM engine \(v", ("EngineStarted",), {"VERSION|version": "0.7.7"}, but=r"^Dumping input data"),
    Signal("ready", VLLM, "ready", r"Server is ready to accept", ("EngineReady",)),
    Signal("startup_phases", VLLM, "start-up phases", r"^(?:init engine \(|Model loading took|Loading (?:model )?weights took|Graph capturing finished|torch\.compile t(?:ook|akes) .* in total)",
           ("PhaseFinished", "MemoryReport"), but=r"weights took in total"),
    Signal("kv_size", VLLM, "KV size", r"KV cache size: %", ("KvCacheSize",), {"pool|device": "GPU"}, tells=("tokens",)),
    Signal("max_concurrency", VLLM, "max concurrency", r"[Mm]aximum concurrency for", ("KvCacheSize",), {"pool|device": "GPU"}, but="^HiSparse steady-state", tells=("concurrency",)),
    Signal("kv_bytes", VLLM, "KV bytes", r"Available KV cache memory:", ("KvCacheBytes",)),
    Signal("stats", VLLM, "stats line", r"Avg prompt throughput: .*Running: ", ("IntervalStats",), {"log_prefix": "Engine 000: "}, tells=("kv_usage",)),
    Signal("spec_decode", VLLM, "speculative decoding", r"(?:SpecDecoding|Speculative) metrics: ", ("SpecInterval", "SpecTotals"), {"rates_str": "0.773, 0.577"}),
    Signal("kv_transfer", VLLM, "KV transfer", r"KV Transfer metrics: ", ("KvTransferInterval", "KvMoved"), {"metrics": "keys:(?i)num.successful.transfers="}),
    Signal("handshake_failure", VLLM, "handshake failure", r"NIXL transfer failure: |[Hh]andshake (?:with .*)?failed", ("KvTransferFailure",),
           {"failure_type": "handshake_setup_failed"}, but=r"MoRIIO|[Mm]ooncake|EC |Handshake failed to"),
    Signal("compatibility", VLLM, "compatibility check", r"NIXL compatibility (?:check|hash)|decode NixlHandshakePayload", ("KvCompatibility",), levels=_RAISED),
    Signal("kv_expired", VLLM, "KV expired", r"Releasing expired KV blocks", ("KvExpired",)),
    Signal("recompute_or_fail", VLLM, "recompute / fail", r"KV load failure", ("KvRecomputed", "KvLoadFailed")),
    Signal("jit_monitor", VLLM, "JIT monitor", r"during inference: ", ("Compiled",), {"^args_0": "Triton", "^args_1": "kernel JIT compilation", "^args_2": "_fwd_kernel", "^args_3": "", "autotune_warmup": "kernel "}, levels=_RAISED),
    Signal("graph_compile", VLLM, "torch.compile graphs", r"Compiling a graph for ", ("Compiled",), {"compile_range": "(1, 8192)", "log_prefix": "[language_model] "}),
    Signal("fp8_hazard", VLLM, "FP8 hazard", r"scaling factor 1\.0 for fp8|uncalibrated q_scale|not provide a q scaling factor", ("Hazard",)),
    Signal("engine_death", VLLM, "engine death", r"EngineCore (?:encountered|failed|hit)|Engine core proc|output[_ ]handler (?:failed|hit)|engine core exited|[Ww]orker proc .* died",
           ("EngineFailure",), but=r"shutdown signal from EngineCore"),
    Signal("hang", VLLM, "hang", r"No available shared memory broadcast block", ("EngineFailure",)),
    Signal("version", SGLANG, "start", r"^server_args=", ("EngineStarted",), {"server_args": "ServerArgs(model_path='/models/m', tp_size=8)"}),
    Signal("ready", SGLANG, "ready", r"fired up and ready", ("EngineReady",)),
    Signal("kv_size", SGLANG, "KV pool", r"#tokens: |swa_layer_tokens=|DSV4 pool sizes", ("KvPools",), {"dtype": "torch.bfloat16", "label": "Full"},
           but=r"experts host buffer|no-op pool|VA upper bound|draft KV cache"),
    Signal("ceilings", SGLANG, "ceilings", r"^max_total_num_tokens=", ("CeilingsTold",)),
    Signal("batches", SGLANG, "batch lines", r"^(?:Prefill|Decode) batch(?! \[)", ("PrefillBatch", "DecodeBatch"), _BATCH, tells=("queues",)),
    Signal("dspark", SGLANG, "DSpark fields", r"cap len: ", ("DecodeBatch",), _BATCH, tells=("verified",)),
    Signal("pd_failures", SGLANG, "P/D failures", r"(?:bootstrap|transfer|handshake) failed for request", ("KvRoomFailed",), {"rid$": "'a1b2'"}, but="HiCache prefetch"),
    Signal("startup_phases", SGLANG, "start-up phases", r"^(?:Load weight end|Capture .* end|Init (?:torch distributed|parallel) ends)", ("PhaseFinished", "MemoryReport"), {"graph_backend": "CUDA graph", "bs": "[1, 2, 4]"},
           but=r"^Init torch distributed ends\. mem usage| begin|Frozen-KV MTP draft cuda graph end\.$"),
    Signal("deepgemm", SGLANG, "DeepGEMM", r"DeepGEMM JIT Compiling", ("CompileSession",)),
    Signal("watchdog", SGLANG, "watchdog", r"(?i)watchdog timeout", ("EngineFailure",), {"debug_name": "Scheduler", "soft": "False"}),
    Signal("engine_death", SGLANG, "engine death", r"hit an exception|Received sigquit|SIGQUIT received|Triggering SIGQUIT", ("EngineFailure",)),
    Signal("kv_exhausted", SGLANG, "KV pool exhausted", r"(?:Prefill|Decode) out of memory\. Try|Retract requests\.", ("EngineFailure", "Retracted"), levels=_RAISED),
    Signal("ready", UVICORN, "ready", r"^Application startup complete", ("EngineReady",)),
    Signal("compile", TILELANG, "compiles", r"^TileLang (?:begins|completes) to compile", ("CompileBegan", "CompileEnded")),
    Signal("phases", TILELANG, "compile phases", r"^TileLang JIT phase (?:done|failed)", ("Compiled", "CompileFailed"), {"^name$": "cache.compile", "context_msg": " backend='tvm_ffi', kernel='hc_pre_kernel', target='cuda'"}),
    Signal("autotune", TRITON, "autotuning", r"^Triton autotuning for function", ("Compiled", "CompileTook"), {"base_fn": "_fwd_kernel"}, levels=("print",)),
    Signal("autotune", FLASHINFER, "autotuning", r"^\[Auto[Tt]uner\]: Autotuning process", ("CompileBegan", "CompileEnded")),
    Signal("build", FLASHINFER, "builds", r"^(?:Finished loading|Loading) JIT ops", ("CompileBegan", "CompileEnded")),
    Signal("version", NIXL, "version", r"NIXL version: ", (), levels=(BUILT,)),
    Signal("backend", NIXL, "back end", r"was instantiated", ("Component",), {"backend": "UCX"}),
    Signal("registration_failed", NIXL, "registration failed", r"registration failed for the specified or all potential backends", (), levels=(BUILT,)),
    Signal("ucx", NIXL, "UCX version", r"NIXL UCX backend bound to UCX ", (), levels=(BUILT,)),
)  # fmt: skip


def of_package(package: str) -> tuple[Signal, ...]:
    """The rows of an engine or a library."""
    return tuple(signal for signal in SIGNALS if signal.package == package)


def package_of(distribution: str) -> str:
    """The engine or library that a distribution holds: builds for other devices have names of their own."""
    return re.sub(r"-(?:cpu|cu\d+|python)$|^pytorch-", "", distribution)
