"""What a vLLM engine says of its settings, and of the libraries and kernels that it uses."""

import re

from parsers.events import Component, EngineSettings
from parsers.rules import rule
from parsers.units import base_name, label

_ARGUMENT = re.compile(
    r"'(?P<key>model|served_model_name|max_model_len|max_num_seqs|max_num_batched_tokens|tensor_parallel_size|pipeline_parallel_size"
    r"|data_parallel_size|kv_cache_dtype|block_size|distributed_executor_backend)': "
    r"(?:\['(?P<first>[^']*)'|'(?P<text>[^']*)'|(?P<number>\d+)(?![\w.]))"
    r"|(?P<kv_key>kv_connector|kv_role|kv_load_failure_policy)(?:=|[\"']: ?)[\"'](?P<kv>[\w.-]*)[\"']",
    re.ASCII,
)
# A dict, or the text of a JSON object as it was given. The draft model has keys of its own that the target has as well.
_SPECULATION = re.compile(r"'speculative_config': (?:\{(?:[^{}]{1,2048}+|\{[^{}]{0,512}+\}){0,32}+\}|'[^']{0,4096}+'|\w{1,32})")
_SPECULATIVE_ARGUMENT = re.compile(r"[\"'](method|num_speculative_tokens)[\"']: ?(?:[\"'](\w+)[\"']|(\d+)(?![\w.]))", re.ASCII)
_NO_STATS = re.compile(r"'disable_log_stats': True\b")
_EXPERT_PARALLEL = re.compile(r"'enable_expert_parallel': True\b")
_UNCOMPARED = re.compile(r"'enforce_handshake_compat': (?:False|'false')")
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
    "distributed_executor_backend": "executor",
    "kv_connector": "kv_connector",
    "kv_role": "kv_role",
    "kv_load_failure_policy": "kv_load_failure_policy",
}


@rule(
    anchor="non-default args: ",
    pattern=r"non-default args: (\{.*)",
    source="non-default args: %s",
    samples={
        "0.26.0": "non-default args: {'model_tag': '/models/tiny4', 'host': '127.0.0.1', 'port': 18100, 'model': '/models/tiny4', "
        "'max_model_len': 2048, 'enforce_eager': True, 'served_model_name': ['tiny'], 'tensor_parallel_size': 2, "
        "'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', "
        "engine_id='597f7985-c3ef-42a8-8e61-c201d687180e', kv_buffer_device='cpu', kv_buffer_size=1000000000.0, "
        "kv_role='kv_both', kv_rank=None, kv_parallel_size=1, kv_ip='127.0.0.1', kv_port=14579, "
        "kv_connector_extra_config={}, kv_connector_module_path=None, enable_permute_local_kv=False, "
        "kv_load_failure_policy='fail')}",
    },
    since="0.9",
)
def arguments(found: re.Match[str]) -> EngineSettings:
    """What the engine was started with: a dict with reprs of other objects in it, so only known keys are read."""
    values: dict[str, str] = {}
    speculation = _SPECULATION.search(found[1])
    if speculation:
        for key, text, number in _SPECULATIVE_ARGUMENT.findall(speculation[0]):
            _add(values, _ARGUMENT_SETTINGS[key], text or number)
    for each in _ARGUMENT.finditer(_SPECULATION.sub("", found[1])):
        key = each["key"] or each["kv_key"]
        value = each["first"] or each["text"] or each["number"] or each["kv"] or ""
        _add(values, _ARGUMENT_SETTINGS[key], value)
    if _UNCOMPARED.search(found[1]):
        values["handshake_compat"] = "off"
    if _NO_STATS.search(found[1]):
        values["stats"] = "off"
    if _EXPERT_PARALLEL.search(found[1]) and "'prefill_context_parallel_size'" not in found[1]:
        values["expert_parallel"] = "on"
    return EngineSettings(values, complete=True)


NUMBERS = frozenset(("max_model_len", "max_running_requests", "max_batched_tokens", "tp", "pp", "dp", "draft_length", "block_size"))
"""Settings whose values are whole numbers."""

_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
_CONFIG = re.compile(
    r"\b(?P<key>max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|kv_cache_dtype|served_model_name|model)="
    r"(?:'(?P<text>[^']*)'|(?P<bare>[\w./:@+-]+))|SpeculativeConfig\(method='(?P<method>\w+)'(?:[^()]{0,400}?num_spec_tokens=(?P<drafts>\d+))?",
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


def configuration(text: str) -> dict[str, str]:
    """The settings in the text of a VllmConfig."""
    values: dict[str, str] = {}
    for each in _CONFIG.finditer(text):
        if each["method"]:
            _add(values, "spec_method", each["method"])
            _add(values, "draft_length", each["drafts"] or "")
            continue
        setting, value = _CONFIG_SETTINGS[each["key"]], each["text"] or each["bare"] or ""
        _add(values, setting, value)
    return values


def _add(values: dict[str, str], setting: str, value: str) -> None:
    """Keep the first value of a setting; one that is not of its kind (`auto` for a number) says nothing."""
    if setting in NUMBERS:
        value = value if _WHOLE.fullmatch(value) else ""
    elif setting in ("model", "model_path"):
        value = base_name(value)
    else:
        value = label(value)
    if value and value != "None":
        values.setdefault(setting, value)


@rule(
    anchor="Using max model len ",
    pattern=r"Using max model len (\d{1,15})",
    source="Using max model len %s",
    samples={
        "0.10.2": "Using max model len 131072",
        "0.26.0": "Using max model len 131072",
        "0.32.0": "Using max model len 2048",
        "0.33.0": "Using max model len 131072",
    },
    since="0.9",
)
def max_model_len(found: re.Match[str]) -> EngineSettings:
    """The longest request in tokens; printed for the draft model, too."""
    return EngineSettings({"max_model_len": found[1]})


@rule(
    anchor="Chunked prefill is enabled with max_num_batched_tokens=",
    pattern=r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,15})",
    source="Chunked prefill is enabled with max_num_batched_tokens=%d.",
    samples={
        "0.10.2": "Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "0.26.0": "Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "0.33.0": "Chunked prefill is enabled with max_num_batched_tokens=8192.",
    },
    since="0.5",
)
def max_batched_tokens(found: re.Match[str]) -> EngineSettings:
    """The tokens of one step."""
    return EngineSettings({"max_batched_tokens": found[1]})


@rule(
    anchor="Auto-fit max_model_len: reduced from ",
    pattern=r"Auto-fit max_model_len: reduced from \d{1,15} to (\d{1,15}) to fit",
    source="Auto-fit max_model_len: reduced from %d to %d to fit in available",
    samples={
        "0.26.0": "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available GPU memory (58.36 GiB available for KV cache)",
        "0.33.0": "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available KV cache memory (GPU: 58.36 GiB)",
    },
    since="0.14",
)
def max_model_len_fitted(found: re.Match[str]) -> EngineSettings:
    """The engine shortened the longest request to what fits."""
    return EngineSettings({"max_model_len": found[1]}, overrides=True)


@rule(
    anchor="Using ",
    pattern=r"Using (\w{1,32}) data type to store kv cache\.",
    source=("Using %s data type to store kv cache.", "Using fp8 data type to store kv cache."),
    samples={
        "0.26.0": "Using fp8 data type to store kv cache. It reduces the GPU memory footprint and boosts the performance. Meanwhile, "
        "it may cause accuracy drop without a proper scaling factor",
        "0.33.0": "Using fp8 data type to store kv cache. It reduces the GPU memory footprint and boosts the performance. Meanwhile, "
        "it may cause accuracy drop without a proper scaling factor",
    },
)
def kv_cache_dtype(found: re.Match[str]) -> EngineSettings:
    """The KV cache's data type, where it is not the model's."""
    return EngineSettings({"kv_cache_dtype": found[1]})


@rule(
    anchor="Creating v1 connector with name: ",
    pattern=r"Creating v1 connector with name: (\w{1,64})(?: and engine_id: |$)",
    source=("Creating v1 connector with name: %s and engine_id: %s", "Creating v1 connector with name: %s"),
    samples={
        "0.8.5": "Creating v1 connector with name: LMCacheConnectorV1",
        "0.10.2": "Creating v1 connector with name: NixlConnector and engine_id: b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522",
        "0.26.0": "Creating v1 connector with name: NixlPullConnector and engine_id: 597f7985-c3ef-42a8-8e61-c201d687180e",
        "0.32.0": "Creating v1 connector with name: NixlPullConnector and engine_id: 97444de2-49b4-457a-a24f-ddc7f73961ba",
        "0.33.0": "Creating v1 connector with name: NixlConnector and engine_id: b1e2f7c4-2d3a-4c55-8f0e-90a7c3d1e522",
    },
    since="0.8",
)
def connector_created(found: re.Match[str]) -> EngineSettings:
    """The connector at work; NixlConnector prints the name of its half that pulls or pushes."""
    return EngineSettings({"kv_connector": re.sub(r"^Nixl(?:Pull|Push)", "Nixl", found[1])})


@rule(
    anchor="Using kv_role=",
    pattern=r"Using kv_role='(kv_\w{1,32})' with ",
    source="Using kv_role='kv_both' with NixlConnector is deprecated",
    samples={
        "0.26.0": "Using kv_role='kv_both' with NixlConnector is deprecated and will be removed in a future release. Please set "
        "kv_role='kv_producer' for prefill instances and kv_role='kv_consumer' for decode instances. ",
        "0.32.0": "Using kv_role='kv_both' with NixlConnector is deprecated and will be removed in a future release. Please set "
        "kv_role='kv_producer' for prefill instances and kv_role='kv_consumer' for decode instances. ",
    },
    since="0.23",
)
def role_deprecated(found: re.Match[str]) -> EngineSettings:
    """The role, said once more in a warning."""
    return EngineSettings({"kv_role": found[1]})


@rule(
    anchor="Using V",
    pattern=r"Using (V\d) Model Runner",
    source="Using V2 Model Runner",
    samples={
        "0.26.0": "Using V2 Model Runner",
        "0.33.0": "Using V2 Model Runner",
    },
    since="0.16",
)
def model_runner(found: re.Match[str]) -> Component:
    """Which model runner is at work."""
    return Component("model_runner", found[1])


@rule(
    anchor="Using ",
    pattern=(
        r"Using ('?[\w -]{1,48}?'?)(?: (?:Fp8|FP8|Mxfp4|MXFP4|NvFp4|NVFP4|Unquantized|unquantized|Int8|W4A8(?: Int8)?|Humming))?"
        r" MoE backend\b"
    ),
    source=(
        "Using %s MoE backend",
        "Using %s Fp8 MoE backend out of potential backends: %s.",
        "Using '%s' NvFp4 MoE backend out of potential backends: %s.",
    ),
    samples={
        "0.26.0": "Using DEEPGEMM Fp8 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'FLASHINFER_CUTLASS', 'DEEPGEMM', "
        "'TRITON'].",
        "0.33.0": "Using 'FLASHINFER_TRTLLM' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'FLASHINFER_CUTEDSL', 'MARLIN'].",
    },
    since="0.16",
)
def moe_backend(found: re.Match[str]) -> Component:
    """The kernels of the experts."""
    return Component("moe_backend", label(found[1].strip("'")))


@rule(
    anchor="Detected kv cache layout ",
    pattern=r"Detected kv cache layout (\w{1,32})",
    source="Detected kv cache layout %s",
    samples={
        "0.26.0": "Detected kv cache layout HND",
        "0.32.0": "Detected kv cache layout LBHNC",
        "0.33.0": "Detected kv cache layout LBHNC",
    },
    since="0.10",
)
def kv_layout(found: re.Match[str]) -> Component:
    """The layout of the KV blocks, which both sides of a pair must share."""
    return Component("kv_cache_layout", found[1])


@rule(
    anchor="vLLM is using nccl==",
    pattern=r"vLLM is using nccl==([\w.+-]+)",
    source="vLLM is using nccl==%s",
    samples={
        "0.10.2": "vLLM is using nccl==2.28.9",
        "0.26.0": "vLLM is using nccl==2.28.9",
        "0.33.0": "vLLM is using nccl==2.28.9",
    },
)
def nccl_version(found: re.Match[str]) -> Component:
    """NCCL's version."""
    return Component("nccl", label(found[1]))


@rule(
    anchor="Using ",
    pattern=r"Using (\w{1,64}) attention backend(?: out of potential backends:|\.|$)",
    source="Using %s attention backend out of potential backends: %s.",
    samples={
        "0.26.0": "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].",
    },
)
def attention_backend(found: re.Match[str]) -> Component:
    """The attention kernels in use."""
    return Component("attention_backend", label(found[1]))
