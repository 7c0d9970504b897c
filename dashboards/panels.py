"""The kinds of panels. Each has a title, a sentence that ends with the metrics it shows, a unit, thresholds and words for when there is nothing."""

import re
from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus as promql
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.queries import encoded, expand, legend, names

Query = tuple[str, str]
"""An expression and its legend."""

DATASOURCE = shapes.DataSourceRef(type_val="prometheus", uid="$datasource")
GOOD, WARN, BAD, QUIET, BUSY = "green", "orange", "red", "#6e7687", "blue"
HEIGHT = 7
_NOTHING = "No data"


def _dress(
    panel: Any, title: str, about: str, queries: tuple[Query, ...], width: int, height: int, nothing: str, *, instant: bool = False
) -> Any:
    metrics = dict.fromkeys(name for expression, _ in queries for name in names(expression))
    panel.title(title).description(f"{about}: {', '.join(metrics)}").datasource(DATASOURCE).span(width).height(height).no_value(nothing)
    for index, (expression, words) in enumerate(queries):
        target = (
            promql.Dataquery().ref_id(chr(ord("A") + index)).expr(expand(expression)).legend_format(legend(words)).datasource(DATASOURCE)
        )
        panel.with_target(target.instant() if instant else target.range())
    return panel


def _thresholds(warn: float | None, bad: float | None, base: str = GOOD) -> build.ThresholdsConfig:
    steps = [models.Threshold(value=None, color=base)]
    steps += [models.Threshold(value=value, color=color) for value, color in ((warn, WARN), (bad, BAD)) if value is not None]
    return build.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def graph(
    title: str,
    about: str,
    *queries: Query,
    unit: str = "short",
    width: int = 8,
    nothing: str = _NOTHING,
    warn: float | None = None,
    bad: float | None = None,
    stack: bool = False,
    bars: bool = False,
    most: float | None = None,
    axis: str = "",
) -> Any:
    """Series over time; bars for events. A threshold is a dashed line."""
    panel = timeseries.Panel()
    _dress(panel, title, about, queries, width, HEIGHT, nothing)
    panel.unit(unit).thresholds(_thresholds(warn, bad)).min(0).line_width(1).fill_opacity(70 if bars else 10).axis_label(axis)
    panel.draw_style(shapes.GraphDrawStyle.BARS if bars else shapes.GraphDrawStyle.LINE).show_points(shapes.VisibilityMode.NEVER)
    panel.thresholds_style(
        common.GraphThresholdsStyleConfig().mode(
            shapes.GraphThresholdsStyleMode.DASHED if warn is not None or bad is not None else shapes.GraphThresholdsStyleMode.OFF
        )
    )
    panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL if stack or bars else shapes.StackingMode.NONE).group("A"))
    panel.color_scheme(build.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
    panel.tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING))
    panel.legend(
        common.VizLegendOptions()
        .display_mode(shapes.LegendDisplayMode.LIST if bars else shapes.LegendDisplayMode.TABLE)
        .placement(shapes.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs([] if bars else ["lastNotNull", "max"])
    )
    return panel if most is None else panel.max(most)


def happened(title: str, about: str, *queries: Query, width: int = 8, nothing: str, bad: bool = True) -> Any:
    """Events as bars, and words when there were none. Bad ones are marked as such by the line at 1."""
    return graph(title, about, *queries, width=width, nothing=nothing, bars=True, axis="events a step", bad=1 if bad else None)


def states(
    title: str,
    about: str,
    family: str,
    label: str,
    colours: Mapping[str, str],
    *,
    by: str = "@engine",
    words: str = "@engine",
    where: str = "",
    width: int = 12,
    height: int = HEIGHT,
    nothing: str = _NOTHING,
) -> Any:
    """A state set over time: one row for each engine, a colour for each state."""
    mapping = {str(index): (state.replace("_", " "), colour) for index, (state, colour) in enumerate(colours.items())}
    return _timeline(title, about, ((encoded(family, label, list(colours), by, where), words),), mapping, width, height, nothing)


def flags(
    title: str, about: str, *queries: Query, on: tuple[str, str], off: tuple[str, str] = ("no", QUIET), width: int = 12, nothing: str
) -> Any:
    """Something that holds or not, over time: one row for each."""
    return _timeline(title, about, queries, {"0": off, "1": on}, width, HEIGHT, nothing)


def _timeline(
    title: str, about: str, queries: tuple[Query, ...], mapping: Mapping[str, tuple[str, str]], width: int, height: int, nothing: str
) -> Any:
    panel = statetimeline.Panel()
    _dress(panel, title, about, queries, width, height, nothing)
    options = {
        value: models.ValueMappingResult(text=text, color=colour, index=i) for i, (value, (text, colour)) in enumerate(mapping.items())
    }
    panel.mappings([models.ValueMap(options=options)]).unit("none").thresholds(_thresholds(None, None, QUIET)).fill_opacity(85)
    panel.color_scheme(build.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)).row_height(0.85).merge_values(True)
    panel.show_value(shapes.VisibilityMode.AUTO)
    return panel.legend(
        common.VizLegendOptions()
        .display_mode(shapes.LegendDisplayMode.LIST)
        .placement(shapes.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs([])
    )


def number(
    title: str,
    about: str,
    *queries: Query,
    unit: str = "short",
    width: int = 4,
    height: int = 4,
    nothing: str = _NOTHING,
    warn: float | None = None,
    bad: float | None = None,
) -> Any:
    """The last value of each series, in its colour."""
    panel = stat.Panel()
    _dress(panel, title, about, queries, width, height, nothing, instant=True)
    panel.unit(unit).thresholds(_thresholds(warn, bad, GOOD if warn is not None or bad is not None else BUSY))
    panel.text(common.VizTextDisplayOptions().title_size(12).value_size(24))  # one size for all engines, whatever the length of their names
    panel.color_mode(shapes.BigValueColorMode.VALUE).graph_mode(shapes.BigValueGraphMode.NONE).text_mode(
        shapes.BigValueTextMode.VALUE_AND_NAME
    )
    return panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))


def bar(title: str, about: str, *queries: Query, unit: str, width: int = 12, nothing: str = _NOTHING, warn: float | None = None) -> Any:
    """One bar for each series, its length the last value."""
    panel = bargauge.Panel()
    _dress(panel, title, about, queries, width, HEIGHT, nothing, instant=True)
    panel.unit(unit).min(0).thresholds(_thresholds(warn, None, BUSY)).orientation(shapes.VizOrientation.HORIZONTAL)
    panel.display_mode(shapes.BarGaugeDisplayMode.BASIC).value_mode(shapes.BarGaugeValueMode.TEXT)
    return panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))


def _labels(expression: str) -> list[str]:
    """What the outermost aggregation keeps."""
    found = re.search(r"by \(([^)]+)\)", expand(expression))
    return found[1].split(", ") if found else []


_HIDDEN = ("Time", "__name__", "job", "instance")


def rows(
    title: str, about: str, *queries: Query, unit: str = "short", width: int = 24, nothing: str = _NOTHING, value: str | None = None
) -> Any:
    """A table: the labels of several queries side by side, joined by those that they share; a legend here names the value's column."""
    panel = table.Panel()
    _dress(panel, title, about, queries, width, HEIGHT, nothing, instant=True)
    for target in panel._internal.targets:  # noqa: SLF001 - the builder builds its targets at once, and has no way back
        target.format_val = PromQueryFormat.TABLE
    values = {"Value" if len(queries) == 1 else f"Value #{chr(ord('A') + index)}": words for index, (_, words) in enumerate(queries)}
    hidden = [*_HIDDEN, *(column for column, words in values.items() if not words)]
    order = list(dict.fromkeys(label for expression, _ in queries for label in _labels(expression))) + list(values)
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        models.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": dict.fromkeys(hidden, True),
                "renameByName": {column: words for column, words in values.items() if words},
                "indexByName": {column: index for index, column in enumerate(order)},
            },
        )
    )
    # Without this an empty cell would say what an empty panel says.
    for kind in ("string", "number"):
        panel.override_by_field_type(kind, [models.DynamicConfigValue(id_val="noValue", value="-")])
    panel.min_width(60)  # Grafana's 150 pixels a column leave the last one, the value's, outside of a narrow panel
    return panel.unit(unit).thresholds(_thresholds(None, None)).color_scheme(build.FieldColor().mode(models.FieldColorModeId.FIXED))


def alerts(title: str, width: int = 12) -> Any:
    """The alerts that fire, from whatever evaluates the rules: Grafana or the data source's own ruler."""
    panel = build.Panel().type("alertlist").title(title).datasource(DATASOURCE).span(width).height(HEIGHT)
    panel.description("Alerts of inferlog's rules that fire or are pending, each with a link to its runbook: ALERTS").no_value(
        "No alert fires"
    )
    return panel.options(
        {
            "alertName": "Inferlog",
            "dashboardAlerts": False,
            "groupMode": "default",
            "maxItems": 20,
            "sortOrder": 3,
            "stateFilter": {"error": True, "firing": True, "noData": False, "normal": False, "pending": True},
            "viewMode": "list",
        }
    )
