"""Is it healthy, what changed, which alert fires, and where do I look."""

from dashboards.frame import Board
from dashboards.palette import ENGINE, VERDICTS
from dashboards.panels import HEIGHT, alerts, flags, graph, happened, number, states
from dashboards.queries import JUDGED, events, of_engine, quantile, rate

BOARD = Board(
    "inferlog-oncall",
    "inferlog / On-call",
    "Is it healthy, what changed, which alert fires, and where do I look?",
    [
        (
            "",
            [
                states("Engine state", "What each engine does", "engine_state", "state", ENGINE, nothing="No engine is known yet"),
                states(
                    "P/D verdict",
                    "Whether prefill/decode disaggregation works; anything from partial on costs capacity or correctness",
                    "pd_verdict",
                    "verdict",
                    VERDICTS,
                    nothing="No engine is known yet",
                ),
                flags(
                    "Failing P/D checks",
                    "Checks of the verdict that fail, which say where to look",
                    (f'max by (@engine, check) (inferlog_pd_evidence{{status="fail"}} == 1{JUDGED})', "@engine {{check}}"),
                    on=("fails", "red"),
                    width=8,
                    nothing="No check fails",
                ),
                alerts("Alerts", width=8),
                flags(
                    "Hazards",
                    "Settings known to hurt that the current process has",
                    ("max by (@engine, kind) (inferlog_config_hazard_active) > 0", "@engine {{kind}}"),
                    on=("active", "orange"),
                    width=8,
                    nothing="No known hazard",
                ),
                happened(
                    "Engine failures",
                    "Deaths, out of memory, hangs and timeouts, as incidents",
                    (events("inferlog_engine_failures_total", "@engine, kind"), "@engine {{kind}}"),
                    width=6,
                    nothing="No failure",
                ),
                happened(
                    "Compiles while serving",
                    "Kernels that compiled after the engine was ready and stalled whoever waited",
                    (events('inferlog_jit_events_total{phase="serving"}', "@engine, backend"), "@engine {{backend}}"),
                    width=6,
                    nothing="No compile",
                ),
                happened(
                    "KV transfer failures",
                    "Failed transfers and handshakes by reason",
                    (events("inferlog_kv_transfer_failures_total", "@engine, reason"), "@engine {{reason}}"),
                    width=6,
                    nothing="No failure",
                ),
                happened(
                    "Failed answers",
                    "HTTP answers of class 5xx",
                    (events('inferlog_http_responses_total{code="5xx"}'), "@engine"),
                    width=6,
                    nothing="No 5xx",
                ),
                graph(
                    "Time to first token, p95",
                    "What users wait for, by the engines' own metrics where they are scraped",
                    (quantile(0.95, "vllm:time_to_first_token_seconds"), "{{pod}} vLLM"),
                    (quantile(0.95, "sglang:time_to_first_token_seconds"), "{{pod}} SGLang"),
                    unit="s",
                    nothing="The engines' own metrics are not scraped, or nothing was asked",
                    warn=2,
                    bad=10,
                ),
                graph(
                    "Requests",
                    "Running and waiting requests at the last periodic line",
                    ("sum by (@engine) (inferlog_requests_running)", "@engine running"),
                    ("sum by (@engine, queue) (inferlog_requests_waiting) > 0", "@engine {{queue}}"),
                    nothing="No traffic in the last two minutes",
                ),
                graph(
                    "KV pool in use",
                    "Share of the KV pool in use; at the top requests wait or are sent back",
                    ("max by (@engine, pool) (inferlog_kv_cache_usage_ratio)", "@engine {{pool}}"),
                    unit="percentunit",
                    most=1,
                    warn=0.9,
                    bad=0.97,
                    nothing="No traffic in the last two minutes",
                ),
            ],
        ),
        (
            "What changed",
            [
                happened(
                    "Restarts",
                    "Engine processes that began behind another; the first that inferlog saw is none",
                    (events("inferlog_engine_starts_total"), "@engine"),
                    width=6,
                    nothing="No restart in this range",
                    bad=False,
                ),
                graph(
                    "KV pool against the process before",
                    "Below 100 % the engine came up with less room than last time, and holds fewer requests",
                    (
                        "min by (@engine, pool) (inferlog_kv_cache_size_tokens / inferlog_kv_cache_size_previous_tokens)",
                        "@engine {{pool}}",
                    ),
                    unit="percentunit",
                    width=6,
                    nothing="No engine has started twice",
                ),
                number(
                    "Engine has been up",
                    "Time since the current process began",
                    ("time() - max by (@engine) (inferlog_engine_start_timestamp_seconds)", "@engine"),
                    unit="s",
                    height=HEIGHT,
                    width=6,
                    nothing="No start seen",
                ),
                number(
                    "Last compile while serving",
                    "Time since users last waited for a compiler",
                    ('time() - max by (@engine) (inferlog_jit_incident_timestamp_seconds{period="service"})', "@engine"),
                    unit="s",
                    height=HEIGHT,
                    width=6,
                    nothing="Never",
                ),
            ],
        ),
        (
            "What users get",
            [
                graph(
                    "Answers",
                    "HTTP answers by class, without probes",
                    (rate("inferlog_http_responses_total", "@engine, code") + " > 0", "@engine {{code}}"),
                    unit="reqps",
                    nothing="No access lines",
                ),
                graph(
                    "Generated tokens",
                    "Tokens a second of the last interval",
                    ("sum by (@engine) (inferlog_generation_tokens_per_second)", "@engine"),
                    (of_engine("sum by (namespace, pod) (rate(vllm:generation_tokens_total[$__rate_interval]))"), "{{pod}} vLLM's own"),
                    (of_engine("sum by (namespace, pod) (sglang:gen_throughput)"), "{{pod}} SGLang's own"),
                    unit="short",
                    nothing="No traffic in the last two minutes",
                ),
                happened(
                    "Unknown warnings and errors",
                    "Lines that read like trouble and that no rule knows",
                    (events('inferlog_unrecognised_lines_total{level!="INFO"}', "@engine, level"), "@engine {{level}}"),
                    nothing="None",
                ),
            ],
        ),
    ],
)
