"""How much fits, how full is it, and what is the engine's memory made of."""

from dashboards.frame import Board
from dashboards.panels import bar, graph, happened, number
from dashboards.queries import events, of_engine, rate

_FITS = "max by (@engine, dp_rank) (inferlog_kv_cache_max_concurrency)"
_IDLE = "No traffic in the last two minutes"

BOARD = Board(
    "inferlog-kv",
    "inferlog / KV cache and capacity",
    "How much fits, how full is it, and what is the engine's memory made of?",
    [
        (
            "",
            [
                graph(
                    "KV pool in use",
                    "Share of each pool in use by the log, and by the engines themselves",
                    ("max by (@engine, dp_rank, pool) (inferlog_kv_cache_usage_ratio)", "@engine {{pool}} {{dp_rank}}"),
                    (of_engine("max by (namespace, pod) (vllm:kv_cache_usage_perc)"), "{{pod}} vLLM's own"),
                    (of_engine("max by (namespace, pod) (sglang:token_usage)"), "{{pod}} SGLang's own"),
                    unit="percentunit",
                    most=1,
                    warn=0.9,
                    bad=0.97,
                    nothing=_IDLE,
                ),
                graph(
                    "Pool in tokens",
                    "Capacity of each pool as printed at the start; a step is another process",
                    ("max by (@engine, dp_rank, pool) (inferlog_kv_cache_size_tokens)", "@engine {{pool}} {{dp_rank}}"),
                    ("max by (@engine, dp_rank, pool) (inferlog_kv_cache_size_previous_tokens)", "@engine {{pool}} {{dp_rank}} before"),
                    nothing="No start seen",
                ),
                graph(
                    "Requests against what fits",
                    "Running requests beside those of full length that fit into the pool, and the configured ceiling",
                    ("sum by (@engine, dp_rank) (inferlog_requests_running)", "@engine running"),
                    (_FITS, "@engine fit at full length"),
                    ("max by (@engine) (inferlog_max_running_requests)", "@engine ceiling"),
                    nothing=_IDLE,
                ),
                happened(
                    "Requests sent back, preempted or cut",
                    "What a full pool did to requests",
                    (events("inferlog_requests_retracted_total"), "@engine retracted"),
                    (events("inferlog_requests_preempted_total"), "@engine preempted"),
                    (events("inferlog_requests_truncated_total"), "@engine truncated"),
                    nothing="None",
                ),
                graph(
                    "Waiting by queue",
                    "Requests in each queue at the last periodic line, and as the engines count them",
                    ("sum by (@engine, queue) (inferlog_requests_waiting)", "@engine {{queue}}"),
                    (of_engine("sum by (namespace, pod) (vllm:num_requests_waiting)"), "{{pod}} vLLM's own"),
                    (of_engine("sum by (namespace, pod) (sglang:num_queue_reqs)"), "{{pod}} SGLang's own"),
                    nothing=_IDLE,
                ),
                graph(
                    "Prefix cache hits",
                    "Share of prompt tokens found in a cache; external hits count before any transfer and prove none",
                    ("max by (@engine, cache) (inferlog_prefix_cache_hit_ratio)", "@engine {{cache}}"),
                    (
                        of_engine(
                            "sum by (namespace, pod) (rate(vllm:prefix_cache_hits_total[$__rate_interval])) / "
                            "(sum by (namespace, pod) (rate(vllm:prefix_cache_queries_total[$__rate_interval])) > 0)"
                        ),
                        "{{pod}} vLLM's own",
                    ),
                    (of_engine("max by (namespace, pod) (sglang:cache_hit_rate)"), "{{pod}} SGLang's own"),
                    unit="percentunit",
                    most=1,
                    nothing=_IDLE,
                ),
            ],
        ),
        (
            "Memory and ceilings",
            [
                bar(
                    "Device memory by part",
                    "What the memory of the fullest rank went to at the start, and what the fullest had left",
                    ('max by (@engine, part) (inferlog_engine_memory_bytes{part!="free"})', "@engine {{part}}"),
                    ('min by (@engine, part) (inferlog_engine_memory_bytes{part="free"})', "@engine {{part}}"),
                    unit="bytes",
                    nothing="No start seen",
                ),
                bar(
                    "KV bytes by rank",
                    "What is left for KV on each rank; a rank with less than the others holds all of them back",
                    ("max by (@engine, rank) (inferlog_kv_cache_size_bytes)", "@engine {{rank}}"),
                    unit="bytes",
                    nothing="No start seen",
                ),
                number(
                    "Longest request",
                    "Tokens of the longest request that is accepted",
                    ("max by (@engine) (inferlog_max_model_len_tokens)", "@engine"),
                    width=6,
                    nothing="No start seen",
                ),
                number(
                    "Tokens of a step",
                    "Tokens that one step may process",
                    ("max by (@engine) (inferlog_max_batched_tokens)", "@engine"),
                    width=6,
                    nothing="No start seen",
                ),
                number(
                    "Full requests that fit",
                    "Requests of the longest length that the pool holds; below 1 the longest request cannot run at all",
                    ("min by (@engine) (inferlog_kv_cache_max_concurrency)", "@engine"),
                    width=6,
                    nothing="No start seen",
                ),
                number(
                    "State slots",
                    "Requests whose recurrent state fits into its cache",
                    ("max by (@engine) (inferlog_state_cache_slots)", "@engine"),
                    width=6,
                    nothing="No recurrent model",
                ),
            ],
        ),
        (
            "Throughput",
            [
                graph(
                    "Batch cliff",
                    "Generated tokens a second of each running request; a fall at some batch size is the cliff",
                    (
                        "sum by (@engine) (inferlog_generation_tokens_per_second) / (sum by (@engine) (inferlog_requests_running) > 0)",
                        "@engine tokens/s a request",
                    ),
                    ("sum by (@engine) (inferlog_requests_running)", "@engine running"),
                    nothing=_IDLE,
                ),
                graph(
                    "Prompt tokens",
                    "Prompt tokens a second of the last interval",
                    ("sum by (@engine) (inferlog_prompt_tokens_per_second)", "@engine"),
                    (of_engine("sum by (namespace, pod) (rate(vllm:prompt_tokens_total[$__rate_interval]))"), "{{pod}} vLLM's own"),
                    nothing=_IDLE,
                ),
                graph(
                    "SGLang's prefill",
                    "Computed and cached prompt tokens a second, and those of health probes among them",
                    (rate("inferlog_prefill_tokens_total", "@engine, kind"), "@engine {{kind}}"),
                    (rate("inferlog_probe_tokens_total"), "@engine probes"),
                    nothing="No prefill batch",
                ),
                happened(
                    "Health probes",
                    "Prefill batches that were probes",
                    (events("inferlog_probe_batches_total"), "@engine"),
                    width=12,
                    nothing="None",
                    bad=False,
                ),
                happened(
                    "Failed health checks",
                    "Health checks that SGLang says it could not answer",
                    (events("inferlog_health_check_failures_total"), "@engine"),
                    width=12,
                    nothing="None",
                ),
            ],
        ),
    ],
)
