"""The life of a vLLM process in its own words: start lines, ready, shutdown."""

import re

from parsers.events import EngineReady, EngineSettings, EngineStarted, EngineStopping
from parsers.rules import Scope, Series, rule
from parsers.units import base_name, label
from parsers.vllm.settings import configuration

_VERSION = r"v?(\d{1,9}\.\d{1,9}\.[\w.+-]*\w)"
_STARTS = (Series("engine_starts_total"),)


@rule(
    anchor=(" ▄▄ ▄█ █", "▄▄ ▄█ █"),
    pattern=rf" ?▄▄ ▄█ █[ ▀▄█]*version {_VERSION}",
    source="version %s",
    samples={
        "0.26.0": " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.0",
        "0.32.0": " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0",
        "0.33.0": " ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.33.0",
    },
    since="0.16",
    scope=Scope.RECORD | Scope.CONTINUATION,
    emits=_STARTS,
)
def logo_version(found: re.Match[str]) -> EngineStarted:
    """The API server's logo: third line of a record of six."""
    return EngineStarted("api_server", label(found[1]))


@rule(
    anchor=("  █▄█▀ █", "█▄█▀ █"),
    pattern=r" {0,2}█▄█▀ █[ ▀▄█]*model +(\S+)",
    source=("model   %s", "model   ${w}%s${r}"),
    samples={
        "0.26.0": "  █▄█▀ █     █     █     █  model   /models/DeepSeek-V4-Flash",
        "0.32.0": "  █▄█▀ █     █     █     █  model   /models/does-not-exist",
        "0.33.0": "  █▄█▀ █     █     █     █  model   /models/DeepSeek-V4-Flash",
    },
    since="0.16",
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


@rule(
    anchor=("Initializing a V1 LLM engine (", "Initializing a V0 LLM engine (", "Initializing an LLM engine ("),
    pattern=rf"Initializing an? (?:V[01] )?LLM engine \({_VERSION}\) with config: ",
    source=(
        "Initializing a V1 LLM engine (v%s) with config: %s",
        "Initializing a V0 LLM engine (v%s) with config: ",
        "Initializing an LLM engine (v%s) with config: ",
    ),
    samples={
        "0.6.4": "Initializing an LLM engine (v0.6.1.post2.dev949+g77daa0f1a) with config: model='facebook/opt-125m', "
        "speculative_config=None, tokenizer='facebook/opt-125m', skip_tokenizer_init=False, tokenizer_mode=auto, "
        "revision=None, override_neuron_config=None, tokenizer_revision=None, trust_remote_code=False, dtype=torch.float16, "
        "max_seq_len=2048, download_dir=None, load_format=LoadFormat.AUTO, tensor_parallel_size=1, "
        "pipeline_parallel_size=1, disable_custom_all_reduce=True, quantization=None, enforce_eager=False, "
        "kv_cache_dtype=auto, quantization_param_path=None, device_config=cuda, "
        "decoding_config=DecodingConfig(guided_decoding_backend='outlines'), "
        "observability_config=ObservabilityConfig(otlp_traces_endpoint=None, collect_model_forward_time=False, "
        "collect_model_execute_time=False), seed=0, served_model_name=facebook/opt-125m",
        "0.8.5": "Initializing a V0 LLM engine (v0.8.5) with config: model='/models/m', speculative_config=None, "
        "tokenizer='/models/m', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, override_neuron_config={}, "
        "tokenizer_revision=None, trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=32768, download_dir=None, "
        "load_format=auto, tensor_parallel_size=2, pipeline_parallel_size=1, disable_custom_all_reduce=False, "
        "quantization=None, enforce_eager=False, kv_cache_dtype=auto,  device_config=cuda, "
        "decoding_config=DecodingConfig(guided_decoding_backend='auto', reasoning_backend=None), "
        "observability_config=ObservabilityConfig(show_hidden_metrics=False, otlp_traces_endpoint=None, "
        "collect_model_forward_time=False, collect_model_execute_time=False), seed=0, served_model_name=m",
        "0.10.2": "Initializing a V1 LLM engine (v0.10.2) with config: model='/models/Qwen3-32B', speculative_config=None, "
        "tokenizer='/models/Qwen3-32B', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, "
        "trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=4, "
        "pipeline_parallel_size=1, data_parallel_size=1, quantization=fp8, enforce_eager=False, kv_cache_dtype=fp8, "
        "device_config=cuda, seed=0, served_model_name=qwen3-32b, enable_prefix_caching=True",
        "0.26.0": "Initializing a V1 LLM engine (v0.26.0) with config: model='/models/tiny4', speculative_config=None, "
        "tokenizer='/models/tiny4', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, tokenizer_revision=None, "
        "trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=2048, download_dir=None, load_format=auto, "
        "tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, decode_context_parallel_size=1, "
        "dcp_comm_backend=ag_rs, disable_custom_all_reduce=True, quantization=None, quantization_config=None, "
        "enforce_eager=True, enable_return_routed_experts=False, kv_cache_dtype=auto, device_config=cpu, "
        "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, "
        "disable_additional_properties=False, reasoning_parser='', reasoning_parser_plugin='', enable_in_reasoning=False), "
        "observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, "
        "collect_detailed_traces=None, kv_cache_metrics=False, kv_cache_metrics_sample=0.01, cudagraph_metrics=False, "
        "enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, enable_mm_processor_stats=False, "
        "enable_logging_iteration_details=False, jit_monitor_mode='warn', jit_monitor_verbose=False), seed=0, "
        "served_model_name=tiny, enable_prefix_caching=True",
        "0.32.0": "Initializing a V1 LLM engine (v0.32.0) with config: model='/models/tiny', "
        "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4), tokenizer='/models/tiny', "
        "skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, tokenizer_revision=None, trust_remote_code=False, "
        "dtype=torch.bfloat16, max_seq_len=2048, download_dir=None, load_format=auto, tensor_parallel_size=1, "
        "pipeline_parallel_size=1, data_parallel_size=1, decode_context_parallel_size=1, dcp_comm_backend=ag_rs, "
        "disable_custom_all_reduce=True, quantization=None, quantization_config=None, enforce_eager=True, "
        "aux_output_config=AuxOutputConfig(enable_return_routed_experts=False, max_bytes=None), kv_cache_dtype=auto, "
        "device_config=cpu, structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, "
        "disable_additional_properties=False, reasoning_parser='', reasoning_parser_plugin='', enable_in_reasoning=False), "
        "observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, "
        "collect_detailed_traces=None, per_request_spec_decode_metrics='none', kv_cache_metrics=False, "
        "kv_cache_metrics_sample=0.01, custom_histogram_buckets=None, cudagraph_metrics=False, "
        "enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, enable_mm_processor_stats=False, "
        "enable_logging_iteration_details=False, jit_monitor_mode='warn', jit_monitor_verbose=False), seed=0, "
        "served_model_name=tiny, enable_prefix_caching=True",
        "0.33.0": "Initializing a V1 LLM engine (v0.33.0) with config: model='/models/DeepSeek-V4-Flash', speculative_config=None, "
        "tokenizer='/models/DeepSeek-V4-Flash', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, "
        "trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=8, "
        "pipeline_parallel_size=1, data_parallel_size=1, quantization=fp8, enforce_eager=False, kv_cache_dtype=fp8, "
        "device_config=cuda, seed=0, served_model_name=dsv4-flash, enable_prefix_caching=True",
    },
    emits=_STARTS,
)
def engine_core(found: re.Match[str]) -> EngineStarted:
    """The engine core's first line; V0's engine prints the same configuration."""
    return EngineStarted("engine_core", label(found[1]), configuration(found.string[found.end() :]))


@rule(
    anchor="Launching ",
    pattern=(
        rf"Launching (?:vLLM \({_VERSION}\) headless multiproc executor, with head node address "
        r"|\d{1,9} data parallel engine\(s\) in headless mode, with head node address )"
    ),
    source=(
        "Launching vLLM (v%s) headless multiproc executor, with head node address %s",
        "Launching %d data parallel engine(s) in headless mode, with head node address %s.",
    ),
    samples={
        "0.26.0": "Launching 1 data parallel engine(s) in headless mode, with head node address tcp://192.0.2.1:29550.",
        "0.32.0": "Launching vLLM (v0.32.0) headless multiproc executor, with head node address 192.0.2.1:29501 for torch.distributed "
        "process group.",
    },
    since="0.9",
    emits=_STARTS,
)
def headless(found: re.Match[str]) -> EngineStarted:
    """A node of a larger engine, without an API server: it never says that it is ready."""
    return EngineStarted("headless", label(found[1] or ""))


@rule(
    anchor=("Application startup complete.", "Server is ready to accept requests"),
    pattern=r"Application startup complete\.|Server is ready to accept requests",
    source=(),  # uvicorn's and grpc's own wording
    samples={
        "0.10.2": "Application startup complete.",
        "0.26.0": "Application startup complete.",
        "0.32.0": "Application startup complete.",
        "0.33.0": "Application startup complete.",
    },
    scope=Scope.RECORD | Scope.BARE,
)
def ready(_: re.Match[str]) -> EngineReady:
    """Uvicorn accepts connections: vLLM itself never says that it is ready."""
    return EngineReady()


@rule(
    anchor=("[shutdown] API server: ", "[shutdown] EngineCore: "),
    pattern=r"\[shutdown\] (?:API server: shutdown triggered|EngineCore: trigger received signal=)",
    source=("[shutdown] API server: shutdown triggered", "[shutdown] EngineCore: trigger received signal=%s"),
    samples={
        "0.26.0": "[shutdown] API server: shutdown triggered",
        "0.32.0": "[shutdown] API server: shutdown triggered",
        "0.33.0": "[shutdown] API server: shutdown triggered",
    },
    since="0.23",
)
def shutdown(_: re.Match[str]) -> EngineStopping:
    """An orderly shutdown, mostly by SIGTERM."""
    return EngineStopping()


@rule(
    anchor=("Shutting down", "Finished server process ["),
    pattern=r"Shutting down$|Finished server process \[\d+\]",
    source=(),  # uvicorn's own wording
    samples={
        "0.10.2": "Shutting down",
        "0.26.0": "Finished server process [1]",
        "0.32.0": "Shutting down",
        "0.33.0": "Shutting down",
    },
    scope=Scope.BARE,
)
def server_finished(_: re.Match[str]) -> EngineStopping:
    """Uvicorn ends."""
    return EngineStopping()
