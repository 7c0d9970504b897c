"""The life of an SGLang engine in its own words: arguments, phases, ready, shutdown."""

import re

from parsers.events import (
    Component,
    EngineReady,
    EngineSettings,
    EngineStarted,
    EngineStopping,
    MemoryUsed,
    PhaseFinished,
    StartupTimings,
    WarmupFailed,
)
from parsers.rules import Scope, Series, rule
from parsers.sglang.settings import arguments
from parsers.units import DECIMAL, GIB, label

_LINE = Scope.RECORD | Scope.BARE


@rule(
    runtime="sglang",
    anchor=("server_args=ServerArgs(", "server_args={"),
    pattern=r"server_args=(ServerArgs\([^\n]*+|\{[^\n]*+)",
    source="server_args=%s",
    samples={
        "sglang 0.5.17": "server_args=ServerArgs(model_path='/models/DeepSeek-V4-Flash-0731', tokenizer_path='/models/DeepSeek-V4-Flash-0731', "
        "trust_remote_code=True, context_length=None, host='0.0.0.0', port=30000, api_key='sk-FAKE-DO-NOT-LEAK', "
        "served_model_name='deepseek-v4-flash-sglang', tp_size=8, dp_size=1, page_size=256, mem_fraction_static=0.82, "
        "max_running_requests=256, chunked_prefill_size=4096, kv_cache_dtype='fp8_e4m3', moe_runner_backend='marlin', "
        "speculative_algorithm='DSPARK', speculative_num_draft_tokens=6, swa_full_tokens_ratio=0.1, disaggregation_mode='null', "
        "disaggregation_transfer_backend='mooncake', log_level='info', log_requests=False, enable_metrics=False, decode_log_interval=40)",
        "sglang 0.5.23": "server_args={'model_path': '/models/DeepSeek-V4-Flash-0731', 'tokenizer_path': '/models/DeepSeek-V4-Flash-0731', "
        "'trust_remote_code': True, 'context_length': None, 'host': '0.0.0.0', 'port': 30000, 'api_key': 'sk-FAKE-DO-NOT-LEAK', "
        "'served_model_name': 'deepseek-v4-flash-sglang', 'tp_size': 8, 'dp_size': 1, 'page_size': 256, 'mem_fraction_static': 0.82, "
        "'max_running_requests': 256, 'chunked_prefill_size': 4096, 'kv_cache_dtype': 'fp8_e4m3', 'moe_runner_backend': 'marlin', "
        "'speculative_algorithm': 'DSPARK', 'speculative_num_draft_tokens': 6, 'swa_full_tokens_ratio': 0.1, 'disaggregation_mode': 'null', "
        "'disaggregation_transfer_backend': 'mooncake', 'log_level': 'info', 'log_requests': False, 'enable_metrics': False, "
        "'decode_log_interval': 40}",
    },
    emits=[Series("engine_starts_total")],
)
def server_args(found: re.Match[str]) -> EngineStarted:
    """The first line of a launch, with keys and paths in it: only a few settings are read. Further nodes have no API server."""
    given = arguments(found[1])
    return EngineStarted("headless" if given.further_node else "api_server", "", given.settings, complete=given.whole)


@rule(
    runtime="sglang",
    anchor=("Init torch distributed ends.", "Init parallel ends."),
    pattern=rf"Init (?:torch distributed|parallel) ends\. elapsed={DECIMAL} s",
    source=("Init torch distributed ends. elapsed=%.2f s, ", "Init parallel ends. elapsed=%.2f s"),
    samples={
        "sglang 0.5.17": "Init torch distributed ends. elapsed=19.04 s, mem usage=1.34 GB",
        "sglang 0.5.23": "Init parallel ends. elapsed=19.04 s",
    },
    since="0.5.10",
)
def distributed_ready(found: re.Match[str]) -> PhaseFinished:
    """The ranks found each other; early releases print no duration."""
    return PhaseFinished("distributed_init", float(found[1]))


@rule(
    runtime="sglang",
    anchor="sglang is using nccl==",
    pattern=r"sglang is using nccl==([\w.+-]+)",
    source="sglang is using nccl==%s",
    samples={"sglang 0.5.17": "sglang is using nccl==2.29.7", "sglang 0.5.23": "sglang is using nccl==2.29.7"},
)
def sglang_nccl_version(found: re.Match[str]) -> Component:
    """NCCL's version."""
    return Component("nccl", label(found[1]))


@rule(
    runtime="sglang",
    anchor="Use dsv4 attention backend for ",
    pattern=r"Use (dsv4) attention backend for ",
    source="Use dsv4 attention backend for %s, setting page_size to %s.",
    samples={
        "sglang 0.5.17": "Use dsv4 attention backend for DeepseekV4ForCausalLM, setting page_size to 256.",
        "sglang 0.5.23": "Use dsv4 attention backend for DeepseekV4ForCausalLM, setting page_size to 256.",
    },
    since="0.5.15",
)
def deepseek_attention(found: re.Match[str]) -> Component:
    """The attention kernels of DeepSeek V4."""
    return Component("attention_backend", found[1])


@rule(
    runtime="sglang",
    anchor="Load weight end. ",
    pattern=rf"Load weight end\. (?:elapsed={DECIMAL} s, )?type=\w{{1,128}}, [^\n]{{0,400}}?\bmem usage={DECIMAL} GB",
    source=("Load weight end. ", "type=%s, ", "mem usage=%.2f GB."),
    samples={
        "sglang 0.4.9": "Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=37.80 GB, mem usage=40.10 GB.",
        "sglang 0.5.17": "Load weight end. elapsed=26.11 s, type=DeepseekV4ForCausalLM, quant=fp8, fmt=e4m3, avail mem=71.33 GB, mem usage=21.88 GB.",
        "sglang 0.5.23": "Load weight end. elapsed=26.11 s, type=DeepseekV4ForCausalLM, quant=fp8, fmt=e4m3, avail mem=71.33 GB, mem usage=21.88 GB.",
    },
)
def sglang_weights_loaded(found: re.Match[str]) -> PhaseFinished:
    """One model on one rank, target and draft apart; early releases print no duration. GB are GiB."""
    return PhaseFinished("load_weights", float(found[1]) if found[1] else None, MemoryUsed("weights", float(found[2]) * GIB))


@rule(
    runtime="sglang",
    anchor="Load weight end. Committed real weights ",
    pattern=rf"Load weight end\. Committed real weights after CUDA graph capture in {DECIMAL} s",
    source="Load weight end. Committed real weights after CUDA graph capture in %.2f s ",
    samples={
        "sglang 0.5.23": "Load weight end. Committed real weights after CUDA graph capture in 10.00 s (capture overlap window 61.20 s, startup overlap "
        "total 84.50 s)",
    },
    since="0.5.18",
)
def sglang_weights_committed(found: re.Match[str]) -> PhaseFinished:
    """Graphs were captured while the files were read: what the start then still waited for, on one rank."""
    return PhaseFinished("load_weights", float(found[1]))


@rule(
    runtime="sglang",
    anchor="Capture ",
    pattern=(
        r"Capture (?:([\w -]{1,48}?) )?(?:(?:CUDA|cuda|CPU|cpu|NPU|npu|XPU|xpu|MUSA|musa) graph|extend) end\. (?:step=\d{1,9}, )?"
        rf"(?:(?:bs|num_tokens)=\[[\d, ]{{0,4000}}\], )?(?:elapsed=|Time elapsed: ){DECIMAL} s[.,] mem usage={DECIMAL} GB"
        rf"(?:[.,] avail mem={DECIMAL} GB\.?)?"
    ),
    source=(
        "Capture %s CUDA graph end. ",
        "Capture cuda graph end. Time elapsed: %.2f s. ",
        "Capture single-CG draft extend end. ",
        "elapsed=%.2f s, ",
    ),
    samples={
        "sglang 0.4.9": "Capture cuda graph end. Time elapsed: 33.30 s. mem usage=1.10 GB. avail mem=8.70 GB.",
        "sglang 0.5.17": "Capture draft verify CUDA graph end. elapsed=122.87 s, mem usage=2.94 GB, avail mem=28.33 GB.",
        "sglang 0.5.20": "Capture single-CG draft extend end. elapsed=4.20 s, mem usage=0.12 GB, avail mem=27.10 GB.",
        "sglang 0.5.23": "Capture target verify CUDA graph end. bs=[1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, "
        "144, 160, 176, 192, 208, 224, 240, 256], elapsed=394.12 s, mem usage=2.94 GB, avail mem=28.33 GB.",
    },
)
def sglang_graphs_captured(found: re.Match[str]) -> PhaseFinished:
    """One kind of graph on one rank; those of the draft model are told apart by name."""
    phase = "graph_capture_draft" if "draft" in (found[1] or "") else "graph_capture"
    free = float(found[4]) * GIB if found[4] else None
    return PhaseFinished(phase, float(found[2]), MemoryUsed("cuda_graph", max(0.0, float(found[3])) * GIB), free=free)


@rule(
    runtime="sglang",
    anchor="Initialized DSpark draft runner. ",
    pattern=r"Initialized DSpark draft runner\. attention_backend=[^\n]{0,200}?, gamma=(\d{1,9}), verify_num_draft_tokens=\d{1,9}, ",
    source="gamma=%s, verify_num_draft_tokens=%s, ",
    samples={
        "sglang 0.5.17": "Initialized DSpark draft runner. attention_backend=fa3, model=DeepseekV4ForCausalLMDSpark, gamma=5, "
        "verify_num_draft_tokens=6, mask_token_id=128799, markov_head=MarkovHead",
        "sglang 0.5.23": "Initialized DSpark draft runner. attention_backend=fa3, model=DeepseekV4ForCausalLMDSpark, gamma=5, "
        "verify_num_draft_tokens=6, query_token_num=6, sample_from_anchor=True, mask_token_id=128799, markov_head=MarkovHead",
    },
    since="0.5.17",
)
def draft_length(found: re.Match[str]) -> EngineSettings:
    """Where the arguments leave it to the draft model."""
    return EngineSettings({"spec_method": "dspark", "draft_length": found[1]})


@rule(
    runtime="sglang",
    anchor=("DeepSeek V4 MHC prewarm at load: ", "DeepSeek V4 MHC prenorm prewarm at load: "),
    pattern=rf"DeepSeek V4 MHC (?:prenorm )?prewarm at load: compile {DECIMAL}s, rank sync \+{DECIMAL}s",
    source=(
        "DeepSeek V4 MHC prewarm at load: compile %.1fs, rank sync +%.1fs",
        "DeepSeek V4 MHC prenorm prewarm at load: compile %.1fs, rank sync +%.1fs",
    ),
    samples={
        "sglang 0.5.15": "DeepSeek V4 MHC prenorm prewarm at load: compile 41.3s, rank sync +1.8s",
        "sglang 0.5.17": "DeepSeek V4 MHC prewarm at load: compile 41.3s, rank sync +1.8s",
        "sglang 0.5.23": "DeepSeek V4 MHC prewarm at load: compile 41.3s, rank sync +1.8s",
    },
    since="0.5.15",
)
def hyper_connections_compiled(found: re.Match[str]) -> PhaseFinished:
    """TileLang's kernels of the hyper-connections; what a rank then waits for is another rank's compile."""
    return PhaseFinished("jit_warmup", float(found[1]))


_CAPTURES = re.compile(r"(\w{1,48})=(\d{1,9}\.\d{1,9})", re.ASCII)


@rule(
    runtime="sglang",
    anchor="Engine startup timings (s): ",
    pattern=(
        rf"Engine startup timings \(s\): load_weight={DECIMAL}, kv_cache_allocation={DECIMAL}, scheduler_e2e={DECIMAL}, "
        rf"cuda_graph=\{{([\w=., -]{{0,1000}})\}}, tokenizer_e2e={DECIMAL}"
    ),
    source="Engine startup timings (s): load_weight=%.2f, kv_cache_allocation=%.2f, ",
    samples={
        "sglang 0.5.17": "Engine startup timings (s): load_weight=26.30, kv_cache_allocation=1.22, scheduler_e2e=848.90, "
        "cuda_graph={target_verify=394.35, draft_verify=123.10}, tokenizer_e2e=854.21",
        "sglang 0.5.23": "Engine startup timings (s): load_weight=26.30, kv_cache_allocation=1.22, scheduler_e2e=848.90, "
        "cuda_graph={target_verify=394.35, draft_verify=123.10}, tokenizer_e2e=854.21",
    },
    since="0.5.17",
    scope=_LINE,
)
def startup_timings(found: re.Match[str]) -> StartupTimings:
    """The phases once more, for a log that lacks their own lines."""
    phases = {"load_weights": float(found[1]), "kv_profile": float(found[2])}
    for graph, seconds in _CAPTURES.findall(found[4]):
        phase = "graph_capture_draft" if "draft" in graph else "graph_capture"
        phases[phase] = phases.get(phase, 0.0) + float(seconds)
    return StartupTimings(phases)


@rule(
    runtime="sglang",
    anchor="The server is fired up and ready to roll!",
    pattern=r"The server is fired up and ready to roll!",
    source="The server is fired up and ready to roll!",
    samples={
        "sglang 0.5.4": "The server is fired up and ready to roll!",
        "sglang 0.5.17": "The server is fired up and ready to roll!",
        "sglang 0.5.23": "The server is fired up and ready to roll!",
    },
    scope=_LINE,
)
def fired_up(_: re.Match[str]) -> EngineReady:
    """After the engine's own first request; uvicorn's `Application startup complete.` comes before that and proves nothing."""
    return EngineReady()


@rule(
    runtime="sglang",
    anchor=("Disaggregation warmup failed ", "Prefill disaggregation mode warm Up Failed, "),
    pattern=r"(?:Disaggregation warmup failed \(mode=\w{1,32}\), status codes?|Prefill disaggregation mode warm Up Failed, status code): ",
    source=(
        "Disaggregation warmup failed (mode=%s), status codes: %s",
        "Disaggregation warmup failed (mode=%s), status code: %s",
        "Prefill disaggregation mode warm Up Failed, status code: ",
    ),
    samples={
        "sglang 0.5.3": "Prefill disaggregation mode warm Up Failed, status code: 500",
        "sglang 0.5.17": "Disaggregation warmup failed (mode=decode), status codes: [500]",
    },
    since="0.5.3",
    emits=[Series("config_hazards_total", {"kind": "warmup_incomplete"})],
)
def pair_warmup_failed(_: re.Match[str]) -> WarmupFailed:
    """The ready line follows all the same, while `/health` answers 503 until a probe succeeds."""
    return WarmupFailed()


@rule(
    runtime="sglang",
    anchor=("SIGTERM received. ", "Gracefully exiting...", "Signal SIGTERM received while health check failed."),
    pattern=r"(?:SIGTERM received\. signum=|Gracefully exiting\.\.\.|Signal SIGTERM received while health check failed\.)",
    source=(
        "SIGTERM received. ",
        "Gracefully exiting... Remaining number of requests ",
        "Signal SIGTERM received while health check failed.",
    ),
    samples={
        "sglang 0.5.17": "SIGTERM received. signum=15 frame=None. Draining requests and shutting down...",
        "sglang 0.5.23": "SIGTERM received. signum=15 frame=None. Draining requests and shutting down...",
    },
)
def terminated(_: re.Match[str]) -> EngineStopping:
    """An orderly shutdown."""
    return EngineStopping()


@rule(
    runtime="sglang",
    anchor=("Shutting down", "Finished server process ["),
    pattern=r"(?:Shutting down|Finished server process \[\d{1,9}\])$",
    source=(),  # uvicorn's own wording
    samples={"sglang 0.5.17": "Shutting down"},
    scope=Scope.BARE,
)
def sglang_server_finished(_: re.Match[str]) -> EngineStopping:
    """Uvicorn ends."""
    return EngineStopping()
