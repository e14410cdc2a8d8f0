"""The dashboards' kinds of panel: each has a question, an explanation, a unit, and a colour for each grouping."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import barchart, bargauge, common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BarGaugeValueMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
    SortOrder,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)

from unskew.apps.metrics import catalogue
from unskew.dashboards.grafana import alerts, flux, promql
from unskew.dashboards.grafana.flux import INFLUXDB, Flux
from unskew.dashboards.grafana.promql import PROMETHEUS
from unskew.grouping.registry import COLOURS, FAMILIES

#: Unit in ``unskew.apps.metrics.catalogue`` → Grafana's. The text after ``si:`` is shown as it is, behind k, M, …
UNITS = {
    "tuples": units.Short,
    "messages": units.Short,
    "keys": units.Short,
    "workers": units.Short,
    "records": units.Short,
    "number": units.Short,
    "workers/key": units.Number,
    "ratio": units.Number,
    "percent": units.Percent,
    "tuples/s": "si: tuples/s",
    "messages/s": "si: messages/s",
    "seconds": units.Seconds,
    "ms": units.Milliseconds,
    "bytes": units.BytesIEC,
}

#: Lines of one colour that can be told apart: solid ones, and dashes and gaps (px); first wide ones, then narrow ones.
DASHES: tuple[list[int], ...] = ([], [8, 4], [2, 3], [12, 4, 2, 4], [16, 8])
_WIDE, _NARROW = 2, 1  # px

#: What each label's values end with → dashes for each, in turn.
ENDINGS: dict[str, Sequence[str]] = {
    "source": "0123456789",
    "rank": "1234567890",
    "stage": (
        "addBatch",
        "queryPlanning",
        "walCommit",
        "commitOffsets",
        "latestOffset",
        "triggerExecution",
        "getBatch",
        "commitBatch",
    ),
}

Query = Builder[Dataquery]

LABEL = 16  # characters of a key beside a bar

_ALARM = "#c4162a"

#: What a panel says that has no data, if it says nothing else by `no_value`.
EMPTY = "No run in this time range"


@dataclass(frozen=True)
class Column:
    """A table's column: its heading, and Grafana's name of its unit."""

    heading: str
    unit: str = units.Short


Panel = TypeVar("Panel", timeseries.Panel, stat.Panel, barchart.Panel, bargauge.Panel, table.Panel)


def lines(
    title: str, description: str, unit: str, query: Query, height: int = 8, alert: str | None = None
) -> timeseries.Panel:
    """Lines in the course of time.

    Parameters
    ----------
    title, description, unit, query, height
        As for all kinds.
    alert : str, optional
        The alert whose figure is a dashed line, in the panel's unit. Numbers and bars have none: there a threshold
        would be a colour, and a run has its grouping's.

    """
    if alert is not None:
        description = f"{description} Dashed: where the alert {alert} begins."
    panel = (
        timeseries.Panel()
        .line_width(_WIDE)
        .fill_opacity(0)
        .show_points(VisibilityMode.AUTO)
        .axis_soft_min(0)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if alert is not None:
        steps = [Threshold(None, "transparent"), Threshold(alerts.figure(alert), _ALARM)]
        panel = panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        panel = panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return _show_runs(_complete(panel, title, description, unit, query, height), query)


def each(label: str, title: str, description: str, unit: str, query: Query, height: int = 8) -> timeseries.Panel:
    """A line for each value of a label, in its grouping's colour and dashed by how the value ends.

    Parameters
    ----------
    label : str
        One of `ENDINGS`. It stands before its value at the end of the series' names.
    title, description, unit, query, height
        As for all kinds.

    """
    panel = lines(title, description, unit, query, height)
    endings, number = ENDINGS[label], len(DASHES)
    narrow = DynamicConfigValue("custom.lineWidth", _NARROW)
    panel = panel.override_by_regexp(_ending(label, endings[number:]), [narrow])
    for at, dashes in enumerate(DASHES[1:], 1):
        dashed = DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": dashes})
        panel = panel.override_by_regexp(_ending(label, endings[at::number]), [dashed])
    return panel


def _ending(label: str, endings: Sequence[str]) -> str:
    """What finds the series whose label ends so. Grafana takes a pattern without slashes for the whole name."""
    return f"/ · {label} .*({'|'.join(endings)})$/"


def windows(title: str, description: str, unit: str, query: Query, height: int = 8) -> timeseries.Panel:
    """Lines of closed windows. A window's point is at its end, and its value holds since the end of the one before."""
    panel = lines(title, description, unit, query, height)
    return panel.line_interpolation(LineInterpolation.STEP_BEFORE).show_points(VisibilityMode.ALWAYS).point_size(5)


def band(title: str, description: str, unit: str, query: Query, height: int = 8) -> timeseries.Panel:
    """A line for each worker in its grouping's colour: the closer together, the better."""
    panel = lines(title, description, unit, query, height)
    return panel.line_width(1).show_points(VisibilityMode.NEVER).legend(_legend(shown=False))


def numbers(title: str, description: str, unit: str, query: Query, height: int = 4) -> stat.Panel:
    """One number a run: the newest of its series."""
    panel = (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .text_mode(BigValueTextMode.VALUE_AND_NAME)
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .orientation(VizOrientation.HORIZONTAL)
    )
    return _show_runs(_complete(panel, title, description, unit, query, height), query)


def gauges(title: str, description: str, unit: str, query: Query, height: int = 6) -> bargauge.Panel:
    """One bar a run, against the longest."""
    panel = (
        bargauge.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .value_mode(BarGaugeValueMode.TEXT)
        .show_unfilled(False)
        .min(0)
    )
    return _show_runs(_complete(panel, title, description, unit, query, height), query)


def bars(
    title: str, description: str, unit: str, query: Query, x: str, height: int = 8, *, lying: bool = False
) -> barchart.Panel:
    """Beside each other, for each value of the column ``x``, a bar for every run."""
    panel = (
        barchart.Panel()
        .x_field(x)
        .x_tick_label_max_length(LABEL)
        .orientation(VizOrientation.HORIZONTAL if lying else VizOrientation.VERTICAL)
        .show_value(VisibilityMode.NEVER)
        .group_width(0.8)
        .bar_width(0.95)
        .fill_opacity(100)
        .line_width(0)
        .axis_soft_min(0)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.NONE))
    )
    return _colour_runs(_complete(panel, title, description, unit, query, height))


def rows(
    title: str, description: str, query: Query, columns: Mapping[str, Column] | None = None, height: int = 8
) -> table.Panel:
    """A table.

    Parameters
    ----------
    title, description, query, height
        As for all kinds.
    columns : dict, optional
        The query's columns in the order in which they are shown, what each is called and its unit; by default as
        they come.

    """
    panel = _complete(table.Panel().filterable(True), title, description, units.Short, query, height)
    for column in (columns or {}).values():
        if column.unit != units.Short:
            panel = panel.override_by_name(column.heading, [DynamicConfigValue("unit", column.unit)])
    if columns:
        order = {name: at for at, name in enumerate(columns)}
        headings = {name: column.heading for name, column in columns.items() if column.heading != name}
        options = {"indexByName": order, "renameByName": headings}
        panel = panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))
    return panel


def over_time(subject: str, name: str, **how: Any) -> tuple[str, Flux]:
    """A metric's unit, and the metric in the course of time: ``flux.over_time`` has the further arguments."""
    found = catalogue.get_metric(subject, name)
    return UNITS[found.unit], Flux(flux.over_time(found, **how))


def now(subject: str, name: str, by: Sequence[str] = (), *where: str) -> tuple[str, Query]:
    """A gauge's unit in Prometheus, and the gauge as it is: ``promql.now`` has the further arguments."""
    gauge = catalogue.get_metric(subject, name)
    unit = units.PercentUnit if gauge.unit == "percent" else UNITS[gauge.unit]
    return unit, promql.query(promql.now(gauge, by, *where), by)


def _complete(panel: Panel, title: str, description: str, unit: str, query: Query, height: int) -> Panel:
    panel = panel.title(title).description(description).unit(unit).datasource(_source(query)).with_target(query)
    panel = panel.no_value(EMPTY)
    return panel.height(height)


def _colour_runs(panel: Panel) -> Panel:
    """Each run in the colour of its grouping's family."""
    # A series of no grouping gets a colour by its name.
    panel = panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    for family in FAMILIES:
        fixed = {"mode": "fixed", "fixedColor": COLOURS[family[0]]}
        panel = panel.override_by_regexp(f"/^({'|'.join(family)}) · /", [DynamicConfigValue("color", fixed)])
    return panel


def _show_runs(panel: Panel, query: Query) -> Panel:
    """Series coloured, and called as their query labels them; Prometheus' legend does it for its own."""
    panel = _colour_runs(panel)
    return panel.display_name("${__field.labels.series}") if isinstance(query, Flux) else panel


def _source(query: Query) -> DataSourceRef:
    return INFLUXDB if isinstance(query, Flux) else PROMETHEUS


def _legend(*, shown: bool = True) -> common.VizLegendOptions:
    mode = LegendDisplayMode.LIST if shown else LegendDisplayMode.HIDDEN
    return common.VizLegendOptions().show_legend(shown).display_mode(mode).placement(LegendPlacement.BOTTOM).calcs([])
