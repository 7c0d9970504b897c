"""What a vLLM engine says of its settings, and of the libraries and kernels that it uses."""

import re

from parsers.events import Component, EngineSettings
from parsers.rules import rule
from parsers.units import base_name, label

# The last alternative is a quote that nothing closes: there the text is torn.
_TOKEN = re.compile(r"""'[^'\\]*+(?:\\.[^'\\]*+)*'|"[^"\\]*+(?:\\.[^"\\]*+)*"|[{}\[\]()]|, ?|['"]""")
_ARGUMENT = re.compile(r"[\"']?(\w{1,64})[\"']?(?:=|: ?)(.*)", re.ASCII | re.DOTALL)
_VALUE = re.compile(r"\[['\"]([^'\"]*)['\"]|['\"]([^'\"]*)['\"]$|(\w{1,64})$", re.ASCII)
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
    "block_size": "block_size",
    "distributed_executor_backend": "executor",
}
_WHOLE_REPR = ""  # a key that no argument has
_OPENING, _CLOSING = frozenset("{[("), frozenset("}])")
_SPECULATION_SETTINGS = {"method": "spec_method", "num_speculative_tokens": "draft_length"}
_CONNECTOR_SETTINGS = {name: name for name in ("kv_connector", "kv_role", "kv_load_failure_policy")}


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
    given = _given(found[1])
    speculation, transfer = _given(given.get("speculative_config", "")), _given(given.get("kv_transfer_config", ""))
    for arguments_, settings in ((given, _ARGUMENT_SETTINGS), (speculation, _SPECULATION_SETTINGS), (transfer, _CONNECTOR_SETTINGS)):
        for key, setting in settings.items():
            _add(values, setting, _plain(arguments_.get(key, "")))
    if _given(transfer.get("kv_connector_extra_config", "")).get("enforce_handshake_compat", "").strip("'\"").lower() == "false":
        values["handshake_compat"] = "off"
    if given.get("disable_log_stats") == "True":
        values["stats"] = "off"
    if given.get("enable_expert_parallel") == "True" and "prefill_context_parallel_size" not in given:
        values["expert_parallel"] = "on"
    return EngineSettings(values, complete=_WHOLE_REPR in given)


def _given(text: str) -> dict[str, str]:
    """The arguments of the outermost bracket of a repr or a JSON object, as text; what stands within others is not its own.

    An argument that is cut off at the end of the text is left out; only where nothing is, there is the key `_WHOLE_REPR`.
    """
    text = text[1:] if text.startswith(("'", '"')) else text
    found: dict[str, str] = {}
    depth = start = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("'", '"'):
            break
        depth += (mark in _OPENING) - (mark in _CLOSING)
        if depth == 1 and mark in _OPENING:
            start = token.end()
        elif (depth == 1 and mark[0] == ",") or (depth == 0 and mark in _CLOSING):
            if argument := _ARGUMENT.fullmatch(text, start, token.start()):
                found.setdefault(argument[1], argument[2])
            start = token.end()
            if depth == 0:
                found[_WHOLE_REPR] = ""
                break
    return found


def _plain(text: str) -> str:
    """A number or a word, or the first text of a list."""
    value = _VALUE.match(text)
    return (value[1] or value[2] or value[3] or "") if value else ""


NUMBERS = frozenset(("max_model_len", "max_running_requests", "max_batched_tokens", "tp", "pp", "dp", "draft_length", "block_size"))
"""Settings whose values are whole numbers."""

_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
_CONFIG = re.compile(
    r"\b(?P<key>max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|kv_cache_dtype|served_model_name|model)="
    r"(?:'(?P<text>[^']*)'|(?P<bare>[\w./:@+-]++)(?=[,)\s]))|SpeculativeConfig\(method='(?P<method>\w+)'(?:[^()]{0,400}?num_spec_tokens=(?P<drafts>\d++)(?=[,)]))?",
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
    pattern=r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,15})\.",
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
    pattern=r"Creating v1 connector with name: (\w{1,64}(?= and engine_id: )|(?!LMCacheConnector$)\w{1,48}Connector(?:V1)?$)",
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
    since="0.16",
)
def attention_backend(found: re.Match[str]) -> Component:
    """The attention kernels in use."""
    return Component("attention_backend", label(found[1]))
