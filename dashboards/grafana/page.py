"""A dashboard: its panels in order, the variables above them, and the marks on them.

The variables are the data sources, runs, groupings and workers that a user selects; their values come from the servers.
"""

from typing import Any, Literal

from unskew.apps.metrics.catalogue import COMMON, get_metric
from unskew.dashboards.grafana import flux, promql
from unskew.dashboards.grafana.panels import Panel

TAG = "unskew"

_COLUMNS = 24  # of a row

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

#: Variable → its label and description.
_VARIABLES = {
    "run": ("Run", COMMON["run"]),
    "grouping": ("Grouping", "groupingType"),
    "worker": ("Worker", "0 … W − 1"),
}


def page(
    uid: str, title: str, description: str, *rows: list[Panel], source: DataSource = "influxdb", workers: bool = False
) -> dict[str, Any]:
    """A dashboard of those rows of panels, of one height each. Its title is the question that it answers.

    Panels, variables and marks have one data source: there is no need for another one. ``workers``: whether workers
    can be selected.
    """
    panels, y = [], 0
    for row in rows:
        for at, panel in enumerate(row):
            width = _COLUMNS // len(row)
            panel["gridPos"] |= {"x": at * width, "y": y, "w": width}
            panels.append(panel | {"id": len(panels) + 1})  # links to a panel need it
        y += row[0]["gridPos"]["h"]
    label, provisioned = DATA_SOURCES[source]
    link = {"title": "Dashboards", "type": "dashboards", "tags": [TAG], "icon": "external link", "tooltip": ""}
    chosen = {
        "name": source,
        "type": "datasource",
        "query": source,
        "label": label,
        "description": f"The {label} that has the topology's metrics",
        "current": {"text": label, "value": provisioned},  # ours, where that is provisioned
    }
    names = ["run", "grouping", *(["worker"] if workers else [])]
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": 42,
        "time": {"from": "now-30m", "to": "now"},
        "refresh": "10s",
        "timezone": "browser",
        "graphTooltip": 1,  # a crosshair in all panels
        "links": [link | {"includeVars": True, "keepTime": True, "asDropdown": False, "targetBlank": False}],
        "templating": {"list": [chosen, *(_make_variable(name, source) for name in names)]},
        "annotations": {"list": [_make_mark(name, source) for name in MARKS]},
        "panels": panels,
    }


def _make_variable(name: str, source: DataSource) -> dict[str, Any]:
    """The variable of a tag: any of its values in the time range, or all; for ``worker``, those of selected runs."""
    label, description = _VARIABLES[name]
    if source == "prometheus":
        known = get_metric("run", "tuples").prometheus_name
        if name == "worker":
            known = promql.select_series(get_metric("worker", "closed"))
        query = {"query": f"label_values({known}, {name})", "refId": "A", "qryType": 1}
    else:
        predicate = "r.run =~ /^${run:regex}$/" if name == "worker" else 'r._measurement == "batch"'
        query = {"query": _TAG_VALUES.format(tag=name, predicate=predicate), "refId": "A"}
    return {
        "name": name,
        "type": "query",
        "label": label,
        "description": description,
        "datasource": promql.PROMETHEUS if source == "prometheus" else flux.INFLUXDB,
        "query": query,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,  # when the time range changes
        "sort": 3 if name == "worker" else 1,  # ascending, as numbers or by the alphabet
    }


def _make_mark(name: str, source: DataSource) -> dict[str, Any]:
    kinds, colour = MARKS[name]
    mark: dict[str, Any] = {"name": name, "enable": True, "iconColor": colour}
    if source == "prometheus":
        target = promql.query(_CHANGES[name])
        mark |= {"datasource": promql.PROMETHEUS, "titleFormat": promql.LEGEND}
    else:
        target = flux.query(flux.read_events(kinds))
        mark["datasource"] = flux.INFLUXDB
    return mark | {"target": target | {"refId": "Anno"}}
