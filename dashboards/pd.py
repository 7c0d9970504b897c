"""Does KV flow from prefill to decode, and if not, where does it stop."""

from dashboards.frame import Board
from dashboards.palette import CHECKS, ROLES, VERDICTS
from dashboards.panels import HEIGHT, flags, graph, happened, number, rows, states
from dashboards.queries import JUDGED, events, of_engine, rate


def _mean(seconds: str) -> str:
    by = "@engine, connector"
    return f"{rate(seconds, by)} / ({rate('inferlog_kv_transfers_total', by)} > 0)"


_QUIET = "No transfer in this range"

BOARD = Board(
    "inferlog-pd",
    "inferlog / P/D and KV transfer",
    "Does KV flow from prefill to decode, and if not, where does it stop?",
    [
        (
            "",
            [
                states(
                    "P/D verdict",
                    "Whether disaggregation works",
                    "pd_verdict",
                    "verdict",
                    VERDICTS,
                    height=10,
                    nothing="No engine is known yet",
                ),
                states(
                    "Evidence",
                    "The checks behind the verdict, over the last two intervals with requests",
                    "pd_evidence",
                    "status",
                    CHECKS,
                    by="@engine, check",
                    words="@engine {{check}}",
                    where=JUDGED,
                    nothing="No engine is known yet",
                    height=10,
                ),
                graph(
                    "Prompt tokens computed here",
                    "Share of its prompt tokens that a decode engine computed itself; near 0 is disaggregation at work",
                    ("max by (@engine, basis) (inferlog_pd_local_prefill_ratio)", "@engine by {{basis}}"),
                    unit="percentunit",
                    most=1,
                    warn=0.1,
                    bad=0.5,
                    nothing="No decode engine with requests",
                ),
                graph(
                    "Transfers",
                    "Rank-level KV transfers a second",
                    (rate("inferlog_kv_transfers_total", "@engine, connector"), "@engine {{connector}}"),
                    (
                        of_engine("sum by (namespace, pod) (rate(vllm:nixl_xfer_time_seconds_count[$__rate_interval]))"),
                        "{{pod}} vLLM's own",
                    ),
                    unit="ops",
                    nothing=_QUIET,
                ),
                happened(
                    "Failures by reason",
                    "Failure records as printed, never folded",
                    (events("inferlog_kv_transfer_failures_total", "@engine, connector, reason"), "@engine {{connector}} {{reason}}"),
                    nothing="No failure",
                ),
                states(
                    "Role", "Configured or learnt role in the pair", "pd_role", "role", ROLES, width=6, nothing="No engine is known yet"
                ),
                number(
                    "Verdict unchanged for",
                    "Time since the verdict last changed",
                    ("time() - max by (@engine) (inferlog_pd_verdict_timestamp_seconds)", "@engine"),
                    unit="s",
                    height=HEIGHT,
                    width=6,
                ),
                number(
                    "Failing for",
                    "Time since a check began to fail without a break",
                    ("time() - min by (@engine, check) (inferlog_pd_check_failing_timestamp_seconds)" + JUDGED, "@engine {{check}}"),
                    unit="s",
                    height=HEIGHT,
                    width=6,
                    warn=0,
                    bad=300,
                    nothing="No check fails",
                ),
                graph(
                    "Prompt tokens by source",
                    "Where a vLLM engine says its prompt tokens came from",
                    (
                        of_engine("sum by (namespace, pod, source) (rate(vllm:prompt_tokens_by_source_total[$__rate_interval]))"),
                        "{{pod}} {{source}}",
                    ),
                    width=6,
                    stack=True,
                    nothing="vLLM's own metrics are not scraped",
                ),
            ],
        ),
        (
            "Transfers",
            [
                graph(
                    "KV bytes",
                    "Bytes of KV a second, wall clock",
                    (rate("inferlog_kv_transfer_bytes_total", "@engine, connector"), "@engine {{connector}}"),
                    unit="Bps",
                    nothing=_QUIET,
                ),
                graph(
                    "Throughput of a stream",
                    "Bytes over summed durations of the last interval; falls when the network does",
                    ("max by (@engine, connector) (inferlog_kv_transfer_throughput_bytes_per_second)", "@engine {{connector}}"),
                    unit="Bps",
                    nothing=_QUIET,
                ),
                graph(
                    "Posting against transferring",
                    "Mean time to post a transfer beside its mean duration; a long post is the CPU or the descriptors, a long transfer the network",
                    (_mean("inferlog_kv_transfer_post_seconds_total"), "@engine post"),
                    (_mean("inferlog_kv_transfer_seconds_total"), "@engine transfer"),
                    unit="s",
                    nothing=_QUIET,
                ),
                graph(
                    "Duration of a transfer",
                    "Mean and 90th percentile of the last interval",
                    ("max by (@engine, connector, stat) (inferlog_kv_transfer_duration_seconds)", "@engine {{connector}} {{stat}}"),
                    unit="s",
                    nothing=_QUIET,
                ),
                graph(
                    "Descriptors of a transfer",
                    "Mean number of descriptors; many small ones make a slow post",
                    ("max by (@engine, connector) (inferlog_kv_transfer_descriptors)", "@engine {{connector}}"),
                    nothing=_QUIET,
                ),
                happened(
                    "Intervals without a success",
                    "Intervals in which a connector told of failures or expiries only, and failures by the interval lines' own number",
                    (events("inferlog_kv_transfer_empty_intervals_total", "@engine, connector"), "@engine {{connector}} empty"),
                    (events("inferlog_kv_transfer_reported_failures_total", "@engine, connector"), "@engine {{connector}} failures told"),
                    nothing="None",
                ),
            ],
        ),
        (
            "What failed transfers cost",
            [
                happened(
                    "Requests computed again or failed",
                    "Requests whose KV could not be loaded, by what the scheduler says it did",
                    (events("inferlog_kv_recomputed_requests_total"), "@engine computed again"),
                    (events("inferlog_kv_load_failed_requests_total"), "@engine failed"),
                    nothing="None",
                ),
                happened(
                    "Tokens computed again",
                    "Prompt tokens of these requests",
                    (events("inferlog_kv_recomputed_tokens_total"), "@engine"),
                    nothing="None",
                ),
                happened(
                    "Expiry",
                    "Requests whose blocks were freed before they were fetched, and those that were read after: the latter may be corrupt",
                    (events("inferlog_kv_expired_requests_total", "@engine, connector"), "@engine {{connector}} expired"),
                    (events("inferlog_kv_reads_after_expiry_total", "@engine, connector"), "@engine {{connector}} read after expiry"),
                    nothing="Nothing expired",
                ),
            ],
        ),
        (
            "Connection",
            [
                happened(
                    "Compatibility checks",
                    "Checks of local ranks with the remote engine, by result",
                    (events("inferlog_kv_compatibility_checks_total", "@engine, result"), "@engine {{result}}"),
                    width=6,
                    nothing="No check in this range",
                    bad=False,
                ),
                number(
                    "Ranks that passed",
                    "Distinct local ranks whose check passed since the engine started",
                    ("sum by (@engine, connector) (inferlog_kv_compatible_ranks)", "@engine"),
                    height=HEIGHT,
                    width=6,
                    nothing="No rank passed yet",
                ),
                rows(
                    "Plan and transport",
                    "How local ranks map to remote ones, and what UCX says may carry KV",
                    ("max by (@engine, local_tp, remote_tp, tp_ratio) (inferlog_kv_transfer_plan_info)", ""),
                    ("max by (@engine, transport) (inferlog_kv_transport_info)", ""),
                    width=6,
                    nothing="The log tells neither",
                ),
                happened(
                    "Errors of transport libraries",
                    "Native error records of UCX, NIXL, NCCL and others",
                    (events("inferlog_transport_errors_total", "@engine, library"), "@engine {{library}}"),
                    width=6,
                    nothing="No error",
                ),
            ],
        ),
        (
            "RDMA ports of the host",
            [
                graph(
                    "RDMA traffic",
                    "Bytes a second of each port, whoever sent them; KV that moves while these stand still goes over TCP",
                    (
                        rate("inferlog_rdma_bytes_total", "instance, device, port, direction"),
                        "{{instance}} {{device}}/{{port}} {{direction}}",
                    ),
                    unit="Bps",
                    nothing="rdma_sysfs_root is not set",
                ),
                happened(
                    "Retransmissions and congestion",
                    "What the driver counts of lost packets and congestion",
                    (
                        events("inferlog_rdma_hardware_events_total", "instance, device, port, counter"),
                        "{{instance}} {{device}}/{{port}} {{counter}}",
                    ),
                    nothing="None",
                ),
                flags(
                    "Counters readable",
                    "Whether a device's byte counters can be read; in a pod they often cannot",
                    ("max by (instance, device) (inferlog_rdma_readable)", "{{instance}} {{device}}"),
                    on=("readable", "green"),
                    off=("not readable", "orange"),
                    width=8,
                    nothing="rdma_sysfs_root is not set",
                ),
            ],
        ),
        (
            "Gateway",
            [
                graph(
                    "Routes",
                    "Decisions of the gateway a second; combined and not_pd go past the pair",
                    (rate("inferlog_gateway_pd_routes_total", "@engine, route") + " > 0", "@engine {{route}}"),
                    unit="reqps",
                    width=6,
                    nothing="No gateway's log, or no request",
                ),
                graph(
                    "Transfer parameters",
                    "Whether prefill's answer told the decode engine where the KV is, a second",
                    (rate("inferlog_gateway_kv_params_total", "@engine, result") + " > 0", "@engine {{result}}"),
                    unit="reqps",
                    width=6,
                    nothing="No gateway's log, or no request",
                ),
                happened(
                    "Failed requests",
                    "Why requests failed in the gateway",
                    (events("inferlog_gateway_failures_total", "@engine, reason"), "@engine {{reason}}"),
                    width=6,
                    nothing="None",
                ),
                graph(
                    "Prefill request",
                    "Mean duration of prefill requests as the gateway sees it",
                    (f"{rate('inferlog_gateway_prefill_seconds_total')} / ({rate('inferlog_gateway_prefills_total')} > 0)", "@engine"),
                    unit="s",
                    width=6,
                    nothing="No gateway tells of durations",
                ),
            ],
        ),
    ],
)
