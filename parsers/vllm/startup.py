"""How a vLLM engine introduces itself: start lines, settings, phases with their seconds, ready, shutdown."""

import re

from parsers.events import Component, EngineReady, EngineSettings, EngineStarted, EngineStopping, MemoryUsed, PhaseFinished
from parsers.rules import Scope, Series, rule
from parsers.units import DECIMAL, GIB, base_name, label

_VERSION = r"v?(\d[\w.+-]*)"
_STARTS = (Series("engine_starts_total"),)


@rule(
    anchor=(" ▄▄ ▄█ █", "▄▄ ▄█ █"),
    pattern=rf" ?▄▄ ▄█ █[ ▀▄█]*version {_VERSION}",
    source="version %s",
    samples={
        "0.26.0": " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.0",
        "0.32.0": " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0",
    },
    since="0.14",
    scope=Scope.RECORD | Scope.CONTINUATION,
    emits=_STARTS,
)
def logo_version(found: re.Match[str]) -> EngineStarted:
    """The API server's logo: third line of a record of six."""
    return EngineStarted("api_server", label(found[1]))


@rule(
    anchor=("  █▄█▀ █", "█▄█▀ █"),
    pattern=r" {0,2}█▄█▀ █[ ▀▄█]*model +(\S+)",
    source="model   %s",
    samples={"0.26.0": "  █▄█▀ █     █     █     █  model   /models/DeepSeek-V4-Flash"},
    since="0.14",
    scope=Scope.RECORD | Scope.CONTINUATION,
)
def logo_model(found: re.Match[str]) -> EngineSettings:
    """The model's path, fourth line of the logo."""
    return EngineSettings({"model_path": base_name(found[1])})


@rule(
    anchor=("vLLM API server version ", "vLLM server version "),
    pattern=rf"vLLM (?:API )?server version {_VERSION}(?:, serving model (\S+))?",
    source=("vLLM server version %s, serving model %s", "vLLM API server version %s"),
    samples={
        "0.10.2": "vLLM API server version 0.10.2",
        "0.32.0": "vLLM server version 0.32.0, serving model /models/tiny",
    },
    emits=_STARTS,
)
def server_version(found: re.Match[str]) -> EngineStarted:
    """The API server's first line where there is no logo."""
    return EngineStarted("api_server", label(found[1].rstrip(",")))


_ARGUMENT = re.compile(
    r"'(?P<key>model|served_model_name|max_model_len|max_num_seqs|max_num_batched_tokens|tensor_parallel_size|pipeline_parallel_size"
    r"|data_parallel_size|kv_cache_dtype|method|num_speculative_tokens|block_size|enable_expert_parallel)': "
    r"(?:\['(?P<first>[^']*)'|'(?P<text>[^']*)'|(?P<number>\d+)|(?P<flag>True))"
    r"|(?P<kv_key>kv_connector|kv_role|kv_load_failure_policy)='(?P<kv>[^']*)'",
    re.ASCII,
)
_ARGUMENT_SETTINGS = {
    "served_model_name": "model",
    "model": "model_path",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_running_requests",
    "max_num_batched_tokens": "max_batched_tokens",
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
    "kv_cache_dtype": "kv_cache_dtype",
    "method": "spec_method",
    "num_speculative_tokens": "draft_length",
    "block_size": "block_size",
    "kv_connector": "kv_connector",
    "kv_role": "kv_role",
    "kv_load_failure_policy": "kv_load_failure_policy",
}


@rule(
    anchor="non-default args: ",
    pattern=r"non-default args: (\{.*)",
    source="non-default args: %s",
    samples={
        "0.26.0": "non-default args: {'model_tag': '/models/m', 'model': '/models/m', 'served_model_name': ['m'], 'tensor_parallel_size': 4, "
        "'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', engine_id='e', kv_role='kv_consumer', "
        "kv_load_failure_policy='recompute')}",
    },
)
def arguments(found: re.Match[str]) -> EngineSettings:
    """What the engine was started with: a dict with reprs of other objects in it, so only known keys are read."""
    values: dict[str, str] = {}
    for each in _ARGUMENT.finditer(found[1]):
        key = each["key"] or each["kv_key"]
        value = each["first"] or each["text"] or each["number"] or each["kv"] or ""
        setting = _ARGUMENT_SETTINGS.get(key)
        if setting and value:
            values.setdefault(setting, base_name(value) if setting in ("model", "model_path") else label(value))
    return EngineSettings(values, complete=True)


_CONFIG = re.compile(
    r"\b(?P<key>max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|kv_cache_dtype|served_model_name|model)="
    r"(?:'(?P<text>[^']*)'|(?P<bare>[\w./:@+-]+))|SpeculativeConfig\(method='(?P<method>\w+)'(?:[^()]*?num_spec_tokens=(?P<drafts>\d+))?",
    re.ASCII,
)
_CONFIG_SETTINGS = {
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
    "kv_cache_dtype": "kv_cache_dtype",
    "served_model_name": "model",
    "model": "model_path",
}


@rule(
    anchor="Initializing a V1 LLM engine (",
    pattern=rf"Initializing a V1 LLM engine \({_VERSION}\) with config: ",
    source="Initializing a V1 LLM engine (v%s) with config: %s",
    samples={
        "0.26.0": "Initializing a V1 LLM engine (v0.26.0) with config: model='/models/m', speculative_config=None, max_seq_len=204800, "
        "tensor_parallel_size=8, pipeline_parallel_size=1, data_parallel_size=1, kv_cache_dtype=auto, served_model_name=m",
    },
    emits=_STARTS,
)
def engine_core(found: re.Match[str]) -> EngineStarted:
    """The engine core's first line."""
    return EngineStarted("engine_core", label(found[1]), configuration(found.string[found.end() :]))


def configuration(text: str) -> dict[str, str]:
    """The settings in the text of a VllmConfig."""
    values: dict[str, str] = {}
    for each in _CONFIG.finditer(text):
        if each["method"]:
            values.setdefault("spec_method", each["method"])
            if each["drafts"]:
                values.setdefault("draft_length", each["drafts"])
            continue
        setting, value = _CONFIG_SETTINGS[each["key"]], each["text"] or each["bare"] or ""
        if value and value != "None":
            values.setdefault(setting, base_name(value) if setting in ("model", "model_path") else label(value))
    return values


@rule(
    anchor="Using max model len ",
    pattern=r"Using max model len (\d+)",
    source="Using max model len %s",
    samples={"0.26.0": "Using max model len 131072"},
)
def max_model_len(found: re.Match[str]) -> EngineSettings:
    """The longest request in tokens; printed for the draft model, too."""
    return EngineSettings({"max_model_len": found[1]})


@rule(
    anchor="Chunked prefill is enabled with max_num_batched_tokens=",
    pattern=r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)",
    source="Chunked prefill is enabled with max_num_batched_tokens=%d.",
    samples={"0.26.0": "Chunked prefill is enabled with max_num_batched_tokens=8192."},
)
def max_batched_tokens(found: re.Match[str]) -> EngineSettings:
    """The tokens of one step."""
    return EngineSettings({"max_batched_tokens": found[1]})


@rule(
    anchor="vLLM is using nccl==",
    pattern=r"vLLM is using nccl==([\w.+-]+)",
    source="vLLM is using nccl==%s",
    samples={"0.26.0": "vLLM is using nccl==2.28.9"},
)
def nccl_version(found: re.Match[str]) -> Component:
    """NCCL's version."""
    return Component("nccl", label(found[1]))


@rule(
    anchor="Using ",
    pattern=r"Using (\w+) attention backend(?: out of potential backends:|\.|$)",
    source="Using %s attention backend out of potential backends: %s.",
    samples={"0.26.0": "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER']."},
)
def attention_backend(found: re.Match[str]) -> Component:
    """The attention kernels in use."""
    return Component("attention_backend", label(found[1]))


@rule(
    anchor="Loading weights took ",
    pattern=rf"Loading weights took {DECIMAL} seconds",
    source="Loading weights took %.2f seconds",
    samples={"0.26.0": "Loading weights took 64.83 seconds"},
)
def weights_read(found: re.Match[str]) -> PhaseFinished:
    """Weights read from disk; the whole of loading is told by `model_loaded`."""
    return PhaseFinished("read_weights", float(found[1]))


@rule(
    anchor="Model loading took ",
    pattern=rf"Model loading took {DECIMAL} GiB(?: memory)? and {DECIMAL} seconds",
    source=("Model loading took %s GiB memory and %.6f seconds", "Model loading took %s GiB and %.6f seconds"),
    samples={
        "0.10.2": "Model loading took 35.6400 GiB and 71.400000 seconds",
        "0.33.0": "Model loading took 35.64 GiB memory and 71.402917 seconds",
    },
)
def model_loaded(found: re.Match[str]) -> PhaseFinished:
    """One rank has its weights."""
    return PhaseFinished("load_weights", float(found[2]), MemoryUsed("weights", float(found[1]) * GIB))


@rule(
    anchor="torch.compile t",
    pattern=rf"torch\.compile (?:took|takes) \**{DECIMAL} s\**",
    source=("torch.compile took %.2f s in total", "torch.compile takes %.2f s in total"),
    samples={"0.10.2": "torch.compile takes 52.44 s in total", "0.26.0": "torch.compile took 52.44 s in total"},
)
def torch_compile_total(found: re.Match[str]) -> PhaseFinished:
    """Bytecode and graphs together."""
    return PhaseFinished("torch_compile", float(found[1]))


@rule(
    anchor="Graph capturing finished in ",
    pattern=rf"Graph capturing finished in \**{DECIMAL} secs\**, took {DECIMAL} GiB",
    source="Graph capturing finished in %.0f secs, took %.2f GiB",
    samples={"0.26.0": "Graph capturing finished in 46 secs, took 2.31 GiB"},
)
def graphs_captured(found: re.Match[str]) -> PhaseFinished:
    """CUDA graphs of one rank, the draft model's among them."""
    return PhaseFinished("graph_capture", float(found[1]), MemoryUsed("cuda_graph", float(found[2]) * GIB))


@rule(
    anchor="JIT kernel warmup finished in ",
    pattern=rf"JIT kernel warmup finished in {DECIMAL}s",
    source="JIT kernel warmup finished in %.2fs.",
    samples={"0.33.0": "JIT kernel warmup finished in 27.31s."},
    since="0.32",
)
def jit_warmed_up(found: re.Match[str]) -> PhaseFinished:
    """Kernels compiled before the first request."""
    return PhaseFinished("jit_warmup", float(found[1]))


@rule(
    anchor="DeepSeek V4 mHC TileLang warmup finished in ",
    pattern=rf"DeepSeek V4 mHC TileLang warmup finished in {DECIMAL} seconds",
    source="DeepSeek V4 mHC TileLang warmup finished in %.2f seconds.",
    samples={"0.26.0": "DeepSeek V4 mHC TileLang warmup finished in 18.62 seconds."},
)
def mhc_warmed_up(found: re.Match[str]) -> PhaseFinished:
    """The same for DeepSeek-V4's hyper-connections, up to 0.26."""
    return PhaseFinished("jit_warmup", float(found[1]))


@rule(
    anchor="init engine (profile, create kv cache, warmup model) took ",
    pattern=rf"init engine \(profile, create kv cache, warmup model\) took \**{DECIMAL} s(?:econds)?\**(?: \(compilation: {DECIMAL} s)?",
    source=(
        "init engine (profile, create kv cache, warmup model) took %.2f s (compilation: %.2f s)",
        "init engine (profile, create kv cache, warmup model) took %.2f seconds",
    ),
    samples={
        "0.10.2": "init engine (profile, create kv cache, warmup model) took 213.08 seconds",
        "0.26.0": "init engine (profile, create kv cache, warmup model) took 213.08 s (compilation: 52.44 s)",
    },
)
def engine_initialised(found: re.Match[str]) -> PhaseFinished:
    """The engine core is ready to work; compilation is a part of it."""
    return PhaseFinished("init_engine", float(found[1]), None, float(found[2]) if found[2] else None)


@rule(
    anchor=("Application startup complete.", "Server is ready to accept requests"),
    pattern=r"Application startup complete\.|Server is ready to accept requests",
    source=(),  # uvicorn's and grpc's own wording
    samples={"0.26.0": "Application startup complete."},
    scope=Scope.RECORD | Scope.BARE,
)
def ready(_: re.Match[str]) -> EngineReady:
    """Uvicorn accepts connections: vLLM itself never says that it is ready."""
    return EngineReady()


@rule(
    anchor=("[shutdown] API server: ", "[shutdown] EngineCore: "),
    pattern=r"\[shutdown\] (?:API server: shutdown triggered|EngineCore: trigger received signal=)",
    source=("[shutdown] API server: shutdown triggered", "[shutdown] EngineCore: trigger received signal=%s"),
    samples={"0.32.0": "[shutdown] API server: shutdown triggered"},
    since="0.26",
)
def shutdown(_: re.Match[str]) -> EngineStopping:
    """An orderly shutdown, mostly by SIGTERM."""
    return EngineStopping()


@rule(
    anchor=("Shutting down", "Finished server process ["),
    pattern=r"Shutting down$|Finished server process \[\d+\]",
    source=(),  # uvicorn's own wording
    samples={"0.26.0": "Finished server process [1]"},
    scope=Scope.BARE,
)
def server_finished(_: re.Match[str]) -> EngineStopping:
    """Uvicorn ends."""
    return EngineStopping()
