"""What all dashboards share: variables, links, annotations, and their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import DATASOURCE
from dashboards.queries import expand

TAG = "inferlog"


@dataclass(frozen=True)
class Board:
    """One dashboard: a question, and rows of panels that answer it."""

    uid: str
    title: str
    question: str
    rows: Sequence[tuple[str, Sequence[Any]]]
    """Each row's heading (none for the first screen) and its panels, from left to right; the SDK lays them out."""

    def build(self) -> models.Dashboard:
        """The dashboard in Grafana's classic schema."""
        board = build.Dashboard(self.title).uid(self.uid).tags([TAG]).description(self.question).refresh("30s").time("now-1h", "now")
        # A change belongs into the generator; whoever wants another dashboard saves a copy.
        board.readonly().timezone("browser").tooltip(models.DashboardCursorSync.CROSSHAIR).link(_links())
        for variable in _variables():
            board.with_variable(variable)
        for annotation in _annotations():
            board.annotation(annotation)
        number = count(1)
        for heading, panels in self.rows:
            if heading:
                board.with_row(build.Row(heading).id(next(number)))
            for panel in panels:
                board.with_panel(panel.id(next(number)))
        return board.build()


def _links() -> build.DashboardLink:
    return (
        build.DashboardLink("inferlog")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
        .target_blank(False)
        .icon("external link")
        .tooltip("")
        .url("")
    )


# All metrics that a pod's own scrapes bring, so that a job or an instance can also be an engine's.
_ANY = '{__name__=~"inferlog_build_info|inferlog_source_up|vllm:num_requests_running|sglang:num_running_reqs"'


def _variables() -> list[Any]:
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    chain = [
        # A target always has a job and an instance; namespace and pod it has in Kubernetes only, and a gauge may have no runtime yet.
        _query("namespace", "Namespace", "label_values(inferlog_source_up, namespace)", ".*"),
        _query("pod", "Pod", 'label_values(inferlog_source_up{namespace=~"$namespace"}, pod)', ".*"),
        _query("source", "Source", 'label_values(inferlog_source_up{namespace=~"$namespace", pod=~"$pod"}, source)', ".*"),
        _query("runtime", "Runtime", 'label_values(inferlog_log_lines_total{source=~"$source"}, runtime)', ".*"),
        _query("job", "Job", f"label_values({_ANY}}}, job)", ".+"),
        _query("instance", "Instance", f'label_values({_ANY}, job=~"$job"}}, instance)', ".+"),
    ]
    return [source, *chain]


def _query(name: str, label: str, query: str, everything: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(everything)
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _annotations() -> list[build.AnnotationQuery]:
    """Our events, at the time that the log gives them."""
    return [
        _annotation("Engine ready", "green", "inferlog_engine_ready_timestamp_seconds * 1000", "{{source}} ready"),
        _annotation(
            "Compile while serving",
            "orange",
            'inferlog_jit_incident_timestamp_seconds{period="service"} * 1000',
            "{{source}} compiles while it serves",
        ),
        _annotation(
            "P/D verdict",
            "purple",
            "(inferlog_pd_verdict == 1) * ignoring (verdict) group_left inferlog_pd_verdict_timestamp_seconds * 1000",
            "{{source}}: {{verdict}}",
        ),
    ]


def _annotation(name: str, colour: str, expression: str, title: str) -> build.AnnotationQuery:
    annotation = build.AnnotationQuery().name(name).datasource(DATASOURCE).enable(True).icon_color(colour)
    return annotation.expr(expand(expression)).title_format(title).use_value_for_time(True).step("30s")
