"""Can the other dashboards be trusted: is everything read, understood and kept."""

from dashboards.frame import Board
from dashboards.panels import HEIGHT, flags, graph, happened, number, rows
from dashboards.queries import events, rate

BOARD = Board(
    "inferlog-exporter",
    "inferlog / Exporter",
    "Can the other dashboards be trusted: is everything read, understood and kept?",
    [
        (
            "",
            [
                flags(
                    "Scraped",
                    "Whether Prometheus reaches inferlog",
                    (
                        "min by (namespace, pod, instance) (up and on (job, instance) last_over_time(inferlog_build_info[$__range]))",
                        "{{pod}} {{instance}}",
                    ),
                    on=("yes", "green"),
                    off=("no", "red"),
                    nothing="Prometheus knows no such target",
                    width=8,
                ),
                flags(
                    "Logs",
                    "Whether each log is open",
                    ("max by (@engine) (inferlog_source_up)", "@engine"),
                    on=("open", "green"),
                    off=("missing", "red"),
                    nothing="No source",
                    width=8,
                ),
                flags(
                    "Engine's own metrics",
                    "Whether the engine answered the last request for its metrics",
                    ("max by (@engine) (inferlog_engine_metrics_up)", "@engine"),
                    on=("answers", "green"),
                    off=("no answer", "orange"),
                    nothing="engine_metrics_url is not set",
                    width=8,
                ),
                graph(
                    "Lag",
                    "Bytes of the log that are not read yet",
                    ("sum by (@engine) (inferlog_source_lag_bytes)", "@engine"),
                    unit="bytes",
                    warn=1 << 20,
                    bad=64 << 20,
                ),
                happened(
                    "Lost bytes",
                    "Bytes lost to rotation or truncation",
                    (events("inferlog_source_lost_bytes_total"), "@engine"),
                    nothing="Nothing was lost",
                ),
                graph(
                    "Read",
                    "Bytes of logs read a second",
                    (rate("inferlog_source_read_bytes_total"), "@engine"),
                    unit="Bps",
                ),
                graph(
                    "Silence",
                    "Time since the last periodic line; an idle engine prints none",
                    ("time() - max by (@engine) (inferlog_stats_timestamp_seconds)", "@engine"),
                    unit="s",
                    nothing="No periodic line",
                ),
                graph(
                    "Lines",
                    "Lines a second by level",
                    (rate("inferlog_log_lines_total", "@engine, level") + " > 0", "@engine {{level}}"),
                    unit="short",
                    axis="lines a second",
                ),
                happened(
                    "Drift",
                    "Warnings and errors that no rule knew, and lines that a rule knew and could not read; many after an upgrade mean that the wording changed",
                    (events("inferlog_unrecognised_lines_total", "@engine, level"), "@engine unknown {{level}}"),
                    (events("inferlog_rule_errors_total", "@engine, rule"), "@engine {{rule}} failed"),
                    nothing="None",
                ),
                flags(
                    "Signals",
                    "Signals that this version of the engine prints and that stay away or cannot be read: it words them in another way",
                    (
                        "max by (@engine, signal) (inferlog_format_drift) > 0 or sum by (@engine) (inferlog_format_drift) == 0",
                        "@engine {{signal}}",
                    ),
                    on=("new wording", "red"),
                    off=("all read", "green"),
                    nothing="No engine yet",
                    width=24,
                ),
            ],
        ),
        (
            "Files and state",
            [
                happened(
                    "Rotations and truncations",
                    "Files that took a log's place, and logs that got shorter",
                    (events("inferlog_source_rotations_total"), "@engine rotated"),
                    (events("inferlog_source_truncations_total"), "@engine truncated"),
                    nothing="None",
                    bad=False,
                ),
                happened(
                    "Left out",
                    "Lines cut at 64 KiB, lines of containers beyond 64 of a log, lines in which a pattern of yours took too long, and series "
                    "beyond 1,000 of a family",
                    (events("inferlog_cut_lines_total"), "@engine lines cut"),
                    (events("inferlog_unseparated_lines_total"), "@engine lines of further containers"),
                    (events("inferlog_pattern_timeouts_total", "@engine, pattern"), "@engine {{pattern}} took too long"),
                    (events("inferlog_series_dropped_total"), "@engine series dropped"),
                    nothing="Nothing",
                ),
                happened(
                    "Faults",
                    "Bugs of this exporter, and state files that could not be written",
                    (events("inferlog_source_faults_total"), "@engine fault"),
                    (events("inferlog_exporter_faults_total", "instance"), "{{instance}} fault"),
                    (events("inferlog_checkpoint_failures_total", "instance"), "{{instance}} state file"),
                    nothing="None",
                ),
                happened(
                    "Refused by the engine",
                    "Requests for the engines' own metrics that came to nothing",
                    (events("inferlog_engine_metrics_failures_total", "@engine, reason"), "@engine {{reason}}"),
                    nothing="None",
                ),
                number(
                    "State file written",
                    "Time since the state file was written",
                    ("time() - max by (instance) (inferlog_checkpoint_timestamp_seconds)", "{{instance}}"),
                    unit="s",
                    height=HEIGHT,
                    width=5,
                    warn=30,
                    bad=300,
                    nothing="No state file",
                ),
                number(
                    "Configuration read",
                    "Time since the configuration in force was read",
                    ("time() - max by (instance) (inferlog_config_last_reload_success_timestamp_seconds)", "{{instance}}"),
                    unit="s",
                    height=HEIGHT,
                    width=5,
                ),
                flags(
                    "Last reload",
                    "Whether the configuration in force is the one last asked for",
                    ("max by (instance) (inferlog_config_last_reload_successful)", "{{instance}}"),
                    on=("in force", "green"),
                    off=("refused", "red"),
                    width=6,
                    nothing="No exporter",
                ),
            ],
        ),
        (
            "Cost",
            [
                graph(
                    "Processor",
                    "Processor seconds a second, of inferlog's processes only",
                    (
                        "sum by (instance) (rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) inferlog_build_info)",
                        "{{instance}}",
                    ),
                    unit="percentunit",
                    width=6,
                ),
                graph(
                    "Memory",
                    "Resident memory, of inferlog's processes only",
                    ("sum by (instance) (process_resident_memory_bytes and on (job, instance) inferlog_build_info)", "{{instance}}"),
                    unit="bytes",
                    width=6,
                    warn=256 << 20,
                ),
                graph(
                    "Scrape",
                    "How long Prometheus took to fetch the metrics",
                    ("max by (instance) (scrape_duration_seconds and on (job, instance) inferlog_build_info)", "{{instance}}"),
                    unit="s",
                    width=6,
                    warn=1,
                    bad=5,
                ),
                rows("Versions", "Running versions of inferlog", ("count by (version) (inferlog_build_info)", "exporters"), width=6),
            ],
        ),
    ],
)
