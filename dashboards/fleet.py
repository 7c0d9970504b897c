"""All engines side by side: what runs where, with which settings, and is one unlike the others."""

from dashboards.frame import Board
from dashboards.palette import ENGINE, ROLES, VERDICTS
from dashboards.panels import graph, happened, number, rows, states
from dashboards.queries import events, rate

_NONE = "No engine is known yet"
_JOIN = "on (@engine, runtime) group_left"
_ENGINES = (
    "max by (@engine, runtime, version, model, settings_hash, state, verdict) ("
    f"inferlog_engine_info * {_JOIN} (state) max by (@engine, runtime, state) (inferlog_engine_state == 1)"
    f" * {_JOIN} (verdict) max by (@engine, runtime, verdict) (inferlog_pd_verdict == 1))"
)

BOARD = Board(
    "inferlog-fleet",
    "inferlog / Fleet",
    "What runs where, with which settings, and is one engine unlike the others?",
    [
        (
            "",
            [
                number("Serving", "Engines that serve", ('sum(inferlog_engine_state{state="serving"})', ""), width=4, nothing=_NONE),
                number(
                    "Not serving",
                    "Engines that are starting, stalled, stopped or failed",
                    ('sum by (state) (inferlog_engine_state{state=~"starting|stalled|stopped|failed"}) > 0', "{{state}}"),
                    width=4,
                    warn=1,
                    nothing="All serve",
                ),
                number(
                    "Bad verdicts",
                    "Engines whose P/D verdict costs capacity or correctness",
                    (
                        'sum(inferlog_pd_verdict{verdict=~"partial|router_bypass|recomputing|never_connected|transport_failing|corruption_risk"})',
                        "",
                    ),
                    width=4,
                    bad=1,
                    nothing=_NONE,
                ),
                number(
                    "Versions",
                    "Distinct engine versions",
                    ("count(count by (runtime, version) (inferlog_engine_info))", ""),
                    width=4,
                    warn=2,
                ),
                number(
                    "Kinds of settings",
                    "Distinct settings; two in one pool of equals are one too many",
                    ("count(count by (settings_hash) (inferlog_engine_info))", ""),
                    width=4,
                ),
                number(
                    "Active hazards", "Hazards that current processes have", ("sum(inferlog_config_hazard_active)", ""), width=4, warn=1
                ),
                rows(
                    "Engines",
                    "Version, model, settings, state, verdict, pool and full-length requests of each engine",
                    (_ENGINES, ""),
                    ("max by (@engine, runtime) (inferlog_kv_cache_size_tokens)", "pool, tokens"),
                    ("min by (@engine, runtime) (inferlog_kv_cache_max_concurrency)", "full requests"),
                    ("sum by (@engine, runtime) (inferlog_requests_running)", "running"),
                    nothing=_NONE,
                ),
                states("State", "What each engine does", "engine_state", "state", ENGINE, width=8, nothing=_NONE),
                states("P/D verdict", "Whether disaggregation works", "pd_verdict", "verdict", VERDICTS, width=8, nothing=_NONE),
                states("Role", "Role in a pair", "pd_role", "role", ROLES, width=8, nothing=_NONE),
            ],
        ),
        (
            "What they are made of",
            [
                rows(
                    "Connectors and cache",
                    "Connector, role, failure policy, speculation and KV type of each engine",
                    (
                        "max by (@engine, kv_connector, kv_role, kv_load_failure_policy, spec_method, kv_cache_dtype) (inferlog_engine_info)",
                        "",
                    ),
                    width=12,
                    nothing=_NONE,
                ),
                rows(
                    "Parallel sizes",
                    "Tensor, pipeline, data and expert parallel sizes",
                    ("max by (@engine, dim) (inferlog_engine_parallel_size)", "size"),
                    width=6,
                    nothing=_NONE,
                ),
                rows(
                    "Components",
                    "Libraries and kernel backends that the engines name; rarely should two engines differ",
                    ("count by (component, value) (inferlog_component_info)", "engines"),
                    width=6,
                    nothing="No start seen",
                ),
            ],
        ),
        (
            "Load",
            [
                graph(
                    "Generated tokens",
                    "Tokens a second of each engine; one far below its peers gets less than its share, or is slow",
                    ("sum by (@engine) (inferlog_generation_tokens_per_second)", "@engine"),
                    width=8,
                    nothing="No traffic in the last two minutes",
                ),
                graph(
                    "Answers",
                    "HTTP answers a second of each engine",
                    (rate("inferlog_http_responses_total"), "@engine"),
                    unit="reqps",
                    width=8,
                    nothing="No access lines",
                ),
                happened(
                    "Hazards told of",
                    "Sightings of settings that are known to hurt, at starts",
                    (events("inferlog_config_hazards_total", "@engine, kind"), "@engine {{kind}}"),
                    nothing="None in this range",
                ),
            ],
        ),
    ],
)
