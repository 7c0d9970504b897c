"""The metric contract: every family with its labels and what exactly it counts."""

from dataclasses import dataclass
from typing import Literal

PREFIX = "inferlog_"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family; `labels` are those of its own, behind `common` and the static ones of the configuration."""

    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str
    common: tuple[str, ...] = ("source", "runtime")
    """What it is about: an engine of a source, the files of a source, or (without any) the exporter itself."""


def _counter(labels: str, text: str) -> Family:
    return Family("counter", tuple(labels.split()), text)


def _gauge(labels: str, text: str) -> Family:
    return Family("gauge", tuple(labels.split()), text)


def _source(kind: Literal["counter", "gauge"], text: str) -> Family:
    return Family(kind, (), text, common=("source",))


def _exporter(kind: Literal["counter", "gauge"], labels: str, text: str) -> Family:
    return Family(kind, tuple(labels.split()), text, common=())


FAMILIES: dict[str, Family] = {
    # -- engine
    "engine_info": _gauge(
        "version model kv_connector kv_role kv_load_failure_policy spec_method kv_cache_dtype settings_hash",
        "What the current engine process was started with, from its start-up lines.",
    ),
    "component_info": _gauge("component value", "Libraries and kernel backends that the engine names at its start."),
    "engine_parallel_size": _gauge("dim", "Tensor, pipeline, data or expert parallel size."),
    "engine_state": _gauge(
        "state",
        "State of the engine process: exactly one is 1. worker is a headless node, which is never ready; stalled takes a complaint of the "
        "engine's or another witness, for silence alone is none.",
    ),
    "engine_ready": _gauge("", "1 when the HTTP server accepts requests (its own line, or traffic) and has not stopped since."),
    "engine_ready_observed": _gauge(
        "", "1 when the engine's own line told that it is ready, 0 when only traffic did; absent while it is not."
    ),
    "engine_startup_phase": _gauge(
        "phase",
        "Phase that the start is in: one is 1 while the engine is starting, unknown where no line tells, init_engine between the phases "
        "with lines of their own.",
    ),
    "engine_phase_start_timestamp_seconds": _gauge(
        "", "When this phase began, by the first of its ranks; only while the engine is starting."
    ),
    "engine_starts_total": _counter("", "Engine processes whose start line was seen."),
    "engine_start_timestamp_seconds": _gauge("", "When the current engine process began."),
    "engine_ready_timestamp_seconds": _gauge(
        "", "When the current engine process became ready; the first traffic where engine_ready_observed is 0."
    ),
    "startup_seconds": _gauge("phase", "Start-up phases of the last start: slowest rank, summed over target and draft model."),
    "engine_memory_bytes": _gauge("rank part", "Device memory of a rank, as printed at its start; free is what was left in the end."),
    "engine_failures_total": _counter("kind", "Incidents, not lines: failures of one kind within 60 s are one."),
    "config_hazards_total": _counter("kind", "Sightings of settings that are known to hurt, told once for all processes."),
    "config_hazard_active": _gauge("kind", "1 while the current engine process has this hazard."),
    # -- KV cache
    "kv_cache_size_tokens": _gauge("dp_rank pool", "Capacity of the KV pool in tokens, as printed at start-up."),
    "kv_cache_size_previous_tokens": _gauge(
        "dp_rank pool", "The same of the process before; a smaller pool now holds fewer requests, whatever max_running_requests says."
    ),
    "kv_cache_size_bytes": _gauge("rank", "Bytes of one rank's KV cache; recent vLLM versions print rank 0 only."),
    "kv_cache_max_concurrency": _gauge("dp_rank", "Requests of max_model_len_tokens that fit into the KV pool."),
    "max_model_len_tokens": _gauge("", "The longest request that the engine accepts."),
    "max_batched_tokens": _gauge("", "Tokens that one step may process."),
    "max_running_requests": _gauge("", "Requests that one step may process."),
    "kv_cache_usage_ratio": _gauge("dp_rank pool", "Share of the KV pool in use at the engine's last periodic line."),
    "state_cache_slots": _gauge("dp_rank", "Requests whose recurrent state fits into its cache (SGLang's Mamba cache)."),
    "prefix_cache_hit_ratio": _gauge(
        "dp_rank cache",
        "Prefix cache hits over the engine's own window (about 1000 requests). External hits are recorded at admission, before any transfer.",
    ),
    # -- load
    "requests_running": _gauge("dp_rank", "Requests in the batch at the engine's last periodic line."),
    "requests_waiting": _gauge(
        "dp_rank queue", "Requests in a queue at the engine's last periodic line; vLLM's waiting includes deferred (0.26 on)."
    ),
    "requests_retracted_total": _counter("dp_rank", "Requests that SGLang sent back to its queue since the KV pool was full."),
    "requests_truncated_total": _counter("", "Requests that SGLang cut to what it accepts."),
    "requests_preempted_total": _counter(
        "dp_rank",
        "Preemptions that the V0 engine printed, every fiftieth; vLLM V1 prints none: with engine_metrics_url the rise of its own counter.",
    ),
    "http_responses_total": _counter(
        "code",
        "Access lines by class of status code, without probes, scrapes and model listings; of AIBrix's gateway its errors and the answers with usage.",
    ),
    "prompt_tokens_per_second": _gauge(
        "dp_rank",
        "Prompt tokens of the last interval: vLLM counts locally computed ones from 0.18 on, cached and transferred ones too before; "
        "SGLang's since the batch before, idle time included.",
    ),
    "generation_tokens_per_second": _gauge("dp_rank", "Generated tokens of the last interval; of SGLang idle time included."),
    "prefill_tokens_total": _counter(
        "dp_rank kind",
        "Prompt tokens of SGLang's prefill batches, probes and warm-up included: computed ones (to 0.5.22 rounded up to whole pages) and cached.",
    ),
    "probe_batches_total": _counter(
        "",
        "Prefill batches of SGLang that an answered health check followed, without other traffic between; where no check is printed, eight and more "
        "of one small size at one distance. A lower bound. SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0 stops those of /health, not of /health_generate.",
    ),
    "probe_tokens_total": _counter("", "Prompt tokens of these batches, as printed: to 0.5.22 whole pages. Part of prefill_tokens_total."),
    "health_check_failures_total": _counter("", "Health checks that SGLang says it could not answer."),
    "stats_timestamp_seconds": _gauge("dp_rank", "When the last periodic line was printed; an idle engine prints none."),
    # -- JIT
    "jit_events_total": _counter(
        "backend event phase",
        "Distinct compiles and autotunes, folded over ranks; phase serving after the engine was ready. vLLM's monitor tells a kernel once: a lower bound. "
        "With other witnesses also kernels of DeepGEMM, FlashInfer and tvm-ffi (other) that appeared in a watched cache, "
        "and jobs of compilers (nvcc) that neither a cache nor the log explains.",
    ),
    "jit_observed_total": _counter(
        "seen_by phase",
        "Raw sightings of compiles, before folding: lines, new kernels in watched caches, compiler processes that no other compiler started.",
    ),
    "jit_seconds_total": _counter(
        "backend phase",
        "Measured durations of compiles, the slowest rank's: from the log, or how long compiler processes ran where the log tells nothing.",
    ),
    "jit_last_event_timestamp_seconds": _gauge("backend phase", "When the last compile was told or seen."),
    "jit_in_progress": _gauge("backend", "Compiles that began and did not end; forgotten after 15 minutes or at a new process."),
    "jit_incidents_total": _counter(
        "period",
        "Bursts of compiles while the engine served: those less than 60 s apart are one. period warmup_grace until the configured time after "
        "ready, in which users may still warm it up, service after it, and always where neither the start nor the ready line was seen.",
    ),
    "jit_incident_timestamp_seconds": _gauge("period", "When the last compile of these bursts was told."),
    "engine_in_warmup_grace": _gauge("", "1 while an engine that is ready may still be warmed up by its users, 0 after that."),
    "jit_failures_total": _counter("backend", "Compiles that failed, and caches of them that are broken, folded over ranks."),
    "compile_cache_total": _counter(
        "backend result", "Graphs, kernels and tuned configurations that came from a cache (hit) or not (miss), where a library tells."
    ),
    # -- speculative decoding
    "spec_drafts_total": _counter("dp_rank method", "Drafts: accepted / (mean length - 1) of each interval, rounded."),
    "spec_draft_tokens_total": _counter("dp_rank method", "Drafted tokens, summed over the printed intervals."),
    "spec_accepted_tokens_total": _counter("dp_rank method", "Accepted draft tokens, summed over the printed intervals."),
    "spec_acceptance_length": _gauge(
        "dp_rank method",
        "Mean tokens a step in the last interval, bonus token included. Acceptance alone proves no gain: drafts cost time, too.",
    ),
    "spec_acceptance_ratio": _gauge(
        "dp_rank method", "Accepted over drafted tokens in the last interval. Acceptance alone proves no gain: drafts cost time, too."
    ),
    "spec_acceptance_baseline_ratio": _gauge(
        "dp_rank method",
        "What spec_acceptance_ratio was in this process: the median of up to 180 intervals with 20 drafted tokens or more (of SGLang one batch in 10 s), "
        "from six on. A ratio far below it is a collapse.",
    ),
    "spec_position_acceptance_ratio": _gauge("dp_rank method position", "Acceptance by draft position (from 0) in the last interval."),
    "spec_draft_length": _gauge("method", "Configured draft tokens a step."),
    "spec_block_size": _gauge(
        "method", "Draft tokens that the draft model was trained for; SGLang says so when they are not the configured ones."
    ),
    "spec_cap_length": _gauge(
        "dp_rank method", "Mean tokens a step that DSpark's confidence let SGLang verify in the last interval, bonus token included."
    ),
    "spec_block_acceptance_length": _gauge(
        "dp_rank method",
        "Mean tokens a step in the last interval if DSpark had verified whole blocks, bonus token included (SGLang's cap-accept mode).",
    ),
    "spec_uncapped_acceptance_length": _gauge(
        "dp_rank method stat",
        "SGLang's estimate of the same where blocks are cut, since the engine's start: its bounds (low, high) and their middle.",
    ),
    # -- KV transfer
    "kv_transfers_total": _counter(
        "dp_rank connector",
        "Rank-level KV transfers (each TP rank counts), not requests; of stores the operations, both ways. A lower bound: idle intervals are never printed.",
    ),
    "kv_transfer_bytes_total": _counter(
        "dp_rank connector",
        "Bytes of these transfers: number times mean size, or as printed; 3FS prints none, offloading no number before 0.24.",
    ),
    "kv_transfer_seconds_total": _counter("dp_rank connector", "Summed durations of these transfers: number times mean."),
    "kv_transfer_post_seconds_total": _counter("dp_rank connector", "Summed time to post these transfers: number times mean."),
    "kv_transfer_duration_seconds": _gauge("dp_rank connector stat", "Duration of a transfer in the last interval."),
    "kv_transfer_throughput_bytes_per_second": _gauge(
        "dp_rank connector", "Bytes over summed durations of the last interval: per stream, not wall clock."
    ),
    "kv_transfer_descriptors": _gauge("dp_rank connector", "Mean number of descriptors a transfer in the last interval."),
    "kv_transfer_empty_intervals_total": _counter(
        "dp_rank connector", "Intervals reported with 0 successful transfers: only failures or expiries."
    ),
    "kv_transfer_failures_total": _counter(
        "connector reason",
        "Failure records as printed, never folded: a broken handshake is one handshake_setup a rank and one handshake a rank and request; "
        "Mooncake's are one bootstrap a query and, from 0.30 on, one handshake for the requests that waited for it.",
    ),
    "kv_transfer_reported_failures_total": _counter(
        "dp_rank connector",
        "Failures by the interval line's own number (NIXL since 0.31, Mooncake since 0.21); a lower bound that counts something else than the records.",
    ),
    "kv_compatibility_checks_total": _counter("connector result", "Compatibility checks of ranks with a remote engine."),
    "kv_compatible_ranks": _gauge("connector", "Distinct local ranks whose check passed since the engine started."),
    "kv_transfer_plan_info": _gauge("local_tp remote_tp tp_ratio", "How local ranks map to those of the remote engine."),
    "kv_transport_info": _gauge(
        "transport",
        "Transports by which UCX reaches the memory of the peers that the processes connected to last, printed at UCX_LOG_LEVEL=info only: what may carry KV. tcp is no RDMA.",
    ),
    "transport_errors_total": _counter("library", "Native ERROR records of transport libraries, and exceptions by them, each one."),
    "kv_expired_requests_total": _counter("connector", "Distinct requests whose blocks prefill freed unfetched."),
    "kv_reads_after_expiry_total": _counter(
        "connector", "Distinct requests whose blocks were read after they had expired: possible corruption."
    ),
    "kv_recomputed_requests_total": _counter(
        "", "Requests that the scheduler said it computes again after a failed KV load (vLLM to 0.31)."
    ),
    "kv_recomputed_tokens_total": _counter("", "Tokens of these requests."),
    "kv_load_failed_requests_total": _counter(
        "", "Requests that the scheduler failed because their KV could not be loaded, or was another request's."
    ),
    # -- gateways
    "gateway_pd_routes_total": _counter(
        "route",
        "Decisions of a gateway: pd to a pair, combined to one engine for both (llm-d: decode alone), not_pd past the P/D strategy, of "
        "whatever model; failed are the requests that then failed or found no engine, besides, each once where the log names it. llm-d "
        "tells pd only at --v=4, SGLang's router and vLLM's proxy when a request came through.",
    ),
    "gateway_kv_params_total": _counter(
        "result",
        "Transfer parameters of prefill answers: injected into the decode request, missing (the prompt is computed again), or in the "
        "protocol of another connector (right on AWS Neuron only). llm-d tells injected only at --v=5; routers of SGLang and vLLM's proxy nothing.",
    ),
    "gateway_failures_total": _counter(
        "reason",
        "Why requests failed in a gateway, one reason each where the log names the request; 4xx and clients that went away are none.",
    ),
    "gateway_prefills_total": _counter("", "Prefill requests of a gateway that were answered, where it tells how long they took."),
    "gateway_prefill_seconds_total": _counter("", "Summed durations of these prefill requests."),
    # -- P/D verdict
    "pd_role": _gauge("role", "Role of the engine in a prefill/decode pair: configured, from its start-up lines, or unknown."),
    "pd_evidence": _gauge("check status", "Checks over the last two intervals with requests: one status of each is 1."),
    "pd_verdict": _gauge("verdict", "Verdict on prefill/decode disaggregation: exactly one is 1."),
    "pd_verdict_timestamp_seconds": _gauge("", "Since when the verdict is what it is, by the line of the log that changed it."),
    "pd_check_failing_timestamp_seconds": _gauge(
        "check", "Since when a check of pd_evidence fails without a break; absent while it does not."
    ),
    "pd_local_prefill_ratio": _gauge(
        "basis",
        "Share of prompt tokens, prefix-cache hits left out, that a decode engine computed itself over the last two intervals with requests. "
        "Basis log: prompt throughput (vLLM 0.18 on) beside transferred bytes over the bytes that a token takes in the pool; engine_metrics: "
        "the engine's own counters between readings.",
    ),
    # -- RDMA of this machine
    "rdma_bytes_total": _exporter(
        "counter",
        "device port direction",
        "Bytes that an RDMA port counted since inferlog first looked, whoever sent them: correlation, no attribution.",
    ),
    "rdma_hardware_events_total": _exporter(
        "counter", "device port counter", "Retransmissions and signs of congestion by the driver's own names, since inferlog first looked."
    ),
    "rdma_readable": _exporter(
        "gauge", "device", "1 when the byte counters of all ports of the device can be read; in a pod they often cannot."
    ),
    # -- the exporter about itself
    "engine_metrics_up": _source(
        "gauge", "1 when the engine answered the last request for its own metrics; absent without engine_metrics_url."
    ),
    "engine_metrics_failures_total": Family(
        "counter", ("reason",), "Requests for the engine's own metrics that came to nothing.", common=("source",)
    ),
    "log_lines_total": _counter("level", "Lines read, by level of their header; of records glued into one line each counts."),
    "unrecognised_lines_total": _counter(
        "level",
        "Warnings and errors that no rule knew; SGLang prints no level, so of it lines that begin like a failure, as unknown. At INFO what a source file "
        "of vLLM's that prints signals says and has not said in any known release: one of them may have new words.",
    ),
    "format_drift": _gauge(
        "signal",
        "1 when a signal that this version prints stays away though others tell that it was due, or when lines that begin as its own cannot be read: "
        "the engine words it in another way, and what it tells is missing. 0 for the signals that are looked for.",
    ),
    "rule_errors_total": _counter("rule", "Lines that a rule matched and could not read."),
    "cut_lines_total": _counter("", "Lines longer than 64 KiB, read up to there."),
    "pattern_lines_total": _counter("pattern", "Lines in which a pattern of the configuration is found, as they stand in the file."),
    "pattern_timeouts_total": _counter(
        "pattern", "Times that a pattern of the configuration took too long and lines were left out; after three it is given up."
    ),
    "unseparated_lines_total": _counter(
        "", "Lines of containers of one log beyond the 64 that are told apart: an engine among them is not seen."
    ),
    "source_up": _source("gauge", "1 when the log is open."),
    "source_faults_total": _source("counter", "Reads and events that ended in a fault of this exporter: a bug, please report it."),
    "series_dropped_total": _source("counter", "Series that were left out because a family of the source had 1,000 already."),
    "source_lag_bytes": _source("gauge", "Bytes of the log that are not read yet."),
    "source_read_bytes_total": _source("counter", "Bytes of the log that were read, up to the end of the last complete line."),
    "source_rotations_total": _source("counter", "Times that another file took the log's place."),
    "source_truncations_total": _source("counter", "Times that the log got shorter."),
    "source_lost_bytes_total": _source("counter", "Bytes known to be lost to rotation or truncation."),
    "checkpoint_timestamp_seconds": _exporter("gauge", "", "When the state file was last written; absent without one."),
    "checkpoint_failures_total": _exporter(
        "counter", "", "Times that the state file could not be written: after a restart what was counted since is counted again."
    ),
    "exporter_faults_total": _exporter("counter", "", "Faults of this exporter that belong to no source: a bug, please report it."),
    "config_last_reload_successful": _exporter("gauge", "", "1 when the configuration in force is the one last asked for."),
    "config_last_reload_success_timestamp_seconds": _exporter("gauge", "", "When the configuration in force was read."),
    "build_info": _exporter("gauge", "version", "The version of this exporter."),
}
