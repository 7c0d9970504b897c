"""Warnings and errors that tell nothing of their own: known, so that `unrecognised_lines_total` shows what is new."""

import re

from parsers.events import NOTHING, Nothing
from parsers.rules import rule


@rule(
    anchor=(
        "Default vLLM sampling parameters have been overridden by ",
        "Initializing KVConnectorBase_V1. ",
        "Add ",
        "Chat template render timed out",
        "WorkerProc was terminated",
    ),
    pattern=(
        r"(?:Default vLLM sampling parameters have been overridden by |Initializing KVConnectorBase_V1\. This API is experimental"
        r"|Add \d{1,9} padding layers, may waste at most |Chat template render timed out|WorkerProc was terminated)"
    ),
    source=(
        "Default vLLM sampling parameters have been overridden by %s: `%s`.",
        "Initializing KVConnectorBase_V1. This API is experimental and subject to change in the future as we iterate the design.",
        "Add %d padding layers, may waste at most %.2f%% KV cache memory",
        "Chat template render timed out",
        "WorkerProc was terminated",
    ),
    samples={
        "0.18.0": "Add 2 padding layers, may waste at most 7.14% KV cache memory",
        "0.26.0": "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{'temperature': "
        "0.6, 'top_p': 0.95}`. If this is not intended, please relaunch vLLM instance with `--generation-config vllm`.",
        "0.32.0": "Initializing KVConnectorBase_V1. This API is experimental and subject to change in the future as we iterate the design.",
        "0.33.0": "Chat template render timed out — executor pool replaced (4 worker(s)). The stuck thread may continue consuming CPU "
        "until the process exits.",
    },
)
def routine_warning(_: re.Match[str]) -> Nothing:
    """Notes on defaults and on experimental parts, a template that is tried again, a worker that ends by a signal."""
    return NOTHING


@rule(
    anchor=(
        "Dumping input data for V1 LLM engine (",
        "Dumping scheduler output for model execution: ",
        "Dumping scheduler stats: ",
    ),
    pattern=r"Dumping (?:input data for V1 LLM engine \(|scheduler output for model execution: |scheduler stats: )",
    source=(
        "Dumping input data for V1 LLM engine (v%s) with config: %s, ",
        "Dumping scheduler output for model execution: %s",
        "Dumping scheduler stats: %s",
    ),
    samples={
        "0.26.0": "Dumping input data for V1 LLM engine (v0.26.0) with config: model='/models/tiny4', "
        "speculative_config=None, tokenizer='/models/tiny4', skip_tokenizer_init=False, tokenizer_mode=auto, "
        "revision=None, tokenizer_revision=None, trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=2048, "
        "download_dir=None, load_format=auto, tensor_parallel_size=2, pipeline_parallel_size=1, "
        "data_parallel_size=1, decode_context_parallel_size=1, dcp_comm_backend=ag_rs, "
        "disable_custom_all_reduce=True, quantization=None, quantization_config=None, enforce_eager=True, "
        "enable_return_routed_experts=False, kv_cache_dtype=auto, device_config=cpu, "
        "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, "
        "disable_additional_properties=False, reasoning_parser='', reasoning_parser_plugin='', "
        "enable_in_reasoning=False), "
        "observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, "
        "collect_detailed_traces=None, kv_cache_metrics=False, kv_cache_metrics_sample=0.01, "
        "cudagraph_metrics=False, enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, "
        "enable_mm_processor_stats=False, enable_logging_iteration_details=False, jit_monitor_mode='warn', "
        "jit_monitor_verbose=False), seed=0, served_model_name=tiny",
        "0.32.0": "Dumping scheduler stats: SchedulerStats(num_running_reqs=6, num_waiting_reqs=0, "
        "num_skipped_waiting_reqs=0, num_kv_fetch_reqs_by_stage={'waiting_to_start': 0, 'in_progress': 0, "
        "'completed_waiting': 0}, step_counter=0, current_wave=0, kv_cache_usage=0.0016479995117038015, "
        "iteration_details=None, prefix_cache_stats=PrefixCacheStats(reset=False, requests=0, queries=0, hits=0, "
        "preempted_requests=0, preempted_queries=0, preempted_hits=0, hits_by_source={}), "
        "connector_prefix_cache_stats=None, kv_cache_eviction_events=[], spec_decoding_stats=None, "
        "kv_connector_stats=None, ec_connector_stats=None, waiting_lora_adapters={}, running_lora_adapters={}, "
        "cudagraph_stats=None, perf_stats=None)",
    },
    since="0.9",
)
def crash_dump(_: re.Match[str]) -> Nothing:
    """What the engine was at when it died; the death has lines of its own."""
    return NOTHING


@rule(
    anchor=(
        "Unrecognized request ",
        "Not pairing remote ",
        "Connection listener got unexpected message",
        "_do_start_push_kv for ",
        "cudaHostRegister failed (",
        "Bootstrap ",
    ),
    pattern=(
        r"(?:Unrecognized request \S{1,256} notif \(may have expired\)|Not pairing remote \d{1,9}-token blocks|Connection listener got unexpected message"
        r"|_do_start_push_kv for \S{1,256} took |cudaHostRegister failed \(code=|Bootstrap (?:query to|registration attempt) )"
    ),
    source=(
        "Unrecognized request %s notif (may have expired).",
        "Not pairing remote %d-token blocks with local %d-token blocks: ",
        "Connection listener got unexpected message %s",
        "Connection listener got unexpected message",
        "_do_start_push_kv for %s took %.1fms (slow NIXL submission)",
        "cudaHostRegister failed (code=%d) — ",
        "Bootstrap query to %s failed on attempt %d/%d (%s: %s); retrying in %.1f seconds",
        "Bootstrap registration attempt %d/%d for %s failed with %s: %s. ",
    ),
    samples={
        "0.10.2": "Connection listener got unexpected message b'ping'",
        "0.26.0": "Unrecognized request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de notif (may have expired).",
        "0.27.0": "_do_start_push_kv for chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de took 103.4ms (slow NIXL submission)",
        "0.30.0": "cudaHostRegister failed (code=1) — transfers will still work but may be slower (unpinned DMA)",
        "0.32.0": "Bootstrap query to http://192.0.2.1:8998 failed on attempt 1/5 (ConnectError: All connection attempts failed); retrying in "
        "0.1 seconds",
        "0.33.0": "Not pairing remote 64-token blocks with local 48-token blocks: the remote KV layout cannot be split into 16-token units.",
    },
    since="0.9",
)
def routine_of_connectors(_: re.Match[str]) -> Nothing:
    """What a connector finds odd and works around; a transfer that fails of it has a record of its own."""
    return NOTHING


@rule(
    anchor=(
        "Request ",
        "Engine Exception caught. ",
        "Unexpected: grammar rejected tokens ",
        "Failed to reset prefix cache because some ",
        "[shutdown] Executor: workers still running after ",
        "Received stats for out-of-order ",
        "Tensor parallel size (",
    ),
    pattern=(
        r"(?:Request \S{1,256} failed with an internal error|Engine Exception caught\. Request id: |Unexpected: grammar rejected tokens "
        r"|Failed to reset prefix cache because some |\[shutdown\] Executor: workers still running after |Received stats for out-of-order "
        r"|Tensor parallel size \(\d{1,9}\) exceeds available GPUs )"
    ),
    source=(
        "Request %s failed with an internal error during generation",
        "Engine Exception caught. Request id: %s",
        "Unexpected: grammar rejected tokens %s for request %s. ",
        "Failed to reset prefix cache because some blocks (%d) are not freed yet",
        "[shutdown] Executor: workers still running after SIGTERM; ",
        "[shutdown] Executor: workers still running after grace period; ",
        "Received stats for out-of-order step (%d, %d) from engine %d (expected > (%d, %d))",
        "Tensor parallel size (%d) exceeds available GPUs (%d). ",
    ),
    samples={
        "0.8.5": "Failed to reset prefix cache because some blocks (12) are not freed yet",
        "0.13.0": "Tensor parallel size (8) exceeds available GPUs (4). This may result in Ray placement group allocation failures. Consider "
        "reducing tensor_parallel_size to 4 or less, or ensure your Ray cluster has 8 GPUs available.",
        "0.18.0": "Engine Exception caught. Request id: chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
        "0.26.0": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de failed with an internal error during generation",
        "0.27.0": "Received stats for out-of-order step (3, 17) from engine 1 (expected > (3, 18))",
        "0.32.0": "Unexpected: grammar rejected tokens [151643] for request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de. Terminating request.",
        "0.33.0": "[shutdown] Executor: workers still running after SIGTERM; sending SIGKILL count=2",
    },
)
def routine_of_requests(_: re.Match[str]) -> Nothing:
    """The end of one request, and steps of a shutdown; whatever the engine itself died of is told by others."""
    return NOTHING
