"""A dashboard: its panels in order, the variables above them, and the marks on them.

The variables are the data sources, runs, groupings and workers that a user selects; their values come from the servers.
"""

from collections.abc import Sequence
from typing import Literal

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationContainer,
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from unskew.apps.metrics.catalogue import COMMON, get_metric
from unskew.dashboards.grafana import promql
from unskew.dashboards.grafana.flux import INFLUXDB, Flux, read_events
from unskew.dashboards.grafana.promql import PROMETHEUS

TAG = "unskew"

_COLUMNS = 24  # of a row

#: Panels side by side, of equal width.
Row = list[Builder[Panel]]


#: Data source's variable → (label, the provisioned data source's uid and name).
DATA_SOURCES = {
    "influxdb": ("InfluxDB", "unskew-influxdb"),
    "prometheus": ("Prometheus", "unskew-prometheus"),
}


DataSource = Literal["influxdb", "prometheus"]


#: Mark → (kinds of event, colour).
MARKS = {
    "Starts and restarts": (("start", "restart"), "#7f7f7f"),
    "Scale-ups": (("scale_up",), "#2ca02c"),
    "Scale-downs": (("scale_down",), "#9467bd"),
    "Rebalances": (("rebalance",), "#ff7f0e"),
}

_SCHEME, _PLAN = get_metric("scheme", "value"), get_metric("rebalance", "plan")
#: Mark → where Prometheus sees it: it has no events, but gauges that change.
_CHANGES = {
    "Starts and restarts": promql.appear(get_metric("query", "batch")),
    "Scale-ups": promql.grow(_SCHEME, 'internal="scale_ups"'),
    "Scale-downs": promql.grow(_SCHEME, 'internal="scale_downs"'),
    "Rebalances": f"{promql.grow(_PLAN)} or {promql.appear(_PLAN)}",
}


_TAG_VALUES = (
    'import "influxdata/influxdb/schema"\n'
    'schema.tagValues(bucket: v.defaultBucket, tag: "{tag}", '
    "predicate: (r) => {predicate}, start: v.timeRangeStart, stop: v.timeRangeStop)"
)


_LABELS = {"run": "Run", "grouping": "Grouping", "worker": "Worker"}


def page(
    uid: str,
    title: str,
    description: str,
    rows: Sequence[Row],
    *,
    source: DataSource = "influxdb",
    workers: bool = False,
) -> Dashboard:
    """A dashboard of those rows of panels.

    Parameters
    ----------
    uid : str
        Its name in the dashboard's address.
    title : str
        The question that the dashboard answers.
    description : str
        How the dashboard answers it.
    rows : sequence of Row
        Panels with their height. They share the width of their row.
    source : str
        The data source of its panels, variables and marks: there is no need for another one.
    workers : bool
        Whether workers can be selected.

    """
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-30m", "now")
        .refresh("10s")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Dashboards")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .icon("external link")
            .tooltip("")
            .include_vars(True)
            .keep_time(True)
        )
    )
    made = made.with_variable(data_source(source))
    for name in ("run", "grouping", *(["worker"] if workers else [])):
        made = made.with_variable(tag(name, source))
    for number, (panel, beside) in enumerate(((panel, len(row)) for row in rows for panel in row), 1):
        made = made.with_panel(_Placed(panel, number, _COLUMNS // beside))
    result = made.build()
    result.annotations = AnnotationContainer([_mark(name, source) for name in MARKS])
    return result


class _Placed(Builder[Panel]):
    """A panel with its width, and with its id, which links to the panel need."""

    def __init__(self, panel: Builder[Panel], number: int, width: int) -> None:
        self._panel, self._number, self._width = panel, number, width

    def build(self) -> Panel:
        built = self._panel.build()
        built.id_val = self._number
        assert built.grid_pos is not None
        built.grid_pos.w = self._width
        return built


def data_source(name: DataSource) -> DatasourceVariable:
    """The variable of a data source; its first value is ours, where that is provisioned."""
    label, uid = DATA_SOURCES[name]
    return (
        DatasourceVariable(name)
        .type(name)
        .label(label)
        .description(f"The {label} that has the topology's metrics")
        .current(VariableOption(text=label, value=uid))
    )


def tag(name: str, source: DataSource = "influxdb") -> QueryVariable:
    """The variable of a tag: any of its values in the time range, or all; for ``worker``, those of selected runs."""
    if source == "prometheus":
        known = get_metric("run", "tuples").prometheus_name
        if name == "worker":
            known = promql.select_series(get_metric("worker", "closed"))
        query, where = f"label_values({known}, {name})", PROMETHEUS
    else:
        predicate = "r.run =~ /^${run:regex}$/" if name == "worker" else 'r._measurement == "batch"'
        query, where = _TAG_VALUES.format(tag=name, predicate=predicate), INFLUXDB
    return (
        QueryVariable(name)
        .label(_LABELS[name])
        .description({"run": COMMON["run"], "grouping": "groupingType", "worker": "0 … W − 1"}[name])
        .datasource(where)
        .query({"query": query, "refId": "A", **({"qryType": 1} if where is PROMETHEUS else {})})
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(text="All", value="$__all", selected=True))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NUMERICAL_ASC if name == "worker" else VariableSort.ALPHABETICAL_ASC)
    )


def _mark(name: str, source: DataSource) -> AnnotationQuery:
    kinds, colour = MARKS[name]
    mark = AnnotationQuery(name=name, datasource=INFLUXDB, enable=True, icon_color=colour)
    if source == "prometheus":
        mark.datasource, mark.title_format = PROMETHEUS, promql.LEGEND
        target = promql.query(_CHANGES[name]).build()
    else:
        target = Flux(read_events(kinds)).build()
    target.ref_id = "Anno"
    mark.target = target
    return mark
