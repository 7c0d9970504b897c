"""The states that timelines show, and their colours: green is well, blue is on its way, grey says nothing, orange wants a look, red wants you."""

from dashboards.panels import BAD, BUSY, GOOD, QUIET, WARN

ENGINE = {
    "serving": GOOD,
    "starting": BUSY,
    "worker": "#8ab8ff",
    "unknown": QUIET,
    "stopped": "#a352cc",
    "stalled": WARN,
    "failed": BAD,
}

VERDICTS = {
    "proven": GOOD,
    "idle": "#96d98d",
    "unproven": BUSY,
    "not_judged": QUIET,
    "not_disaggregated": QUIET,
    "partial": WARN,
    "router_bypass": "#ff780a",
    "recomputing": BAD,
    "never_connected": "#c4162a",
    "transport_failing": "#e02f44",
    "corruption_risk": "#a352cc",
}

CHECKS = {"pass": GOOD, "unknown": QUIET, "fail": BAD}

ROLES = {"prefill": "#8ab8ff", "decode": BUSY, "both": "#5794f2", "none": QUIET, "unknown": QUIET}

PHASES = {
    "unknown": QUIET,
    "distributed_init": "#5794f2",
    "load_weights": "#3274d9",
    "compile": "#ff9830",
    "kv_profile": "#73bf69",
    "jit_warmup": "#fade2a",
    "autotune": "#e0b400",
    "graph_capture": "#b877d9",
    "graph_capture_draft": "#8f3bb8",
    "init_engine": "#8ab8ff",
}
