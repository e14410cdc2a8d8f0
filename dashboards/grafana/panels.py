"""The dashboards' kinds of panel: each has a question, an explanation, a unit, and a colour for each grouping.

A panel is Grafana's JSON. What isn't in it is as Grafana has it by default.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import yaml

from unskew.apps.metrics import catalogue
from unskew.dashboards.grafana import flux, promql
from unskew.deploy.servers.stack import RULES
from unskew.grouping.registry import COLOURS, FAMILIES

#: Unit in ``unskew.apps.metrics.catalogue`` → Grafana's. The text after ``si:`` is shown as it is, behind k, M, …
UNITS = {
    **dict.fromkeys(("tuples", "messages", "keys", "workers", "records", "number"), "short"),
    **dict.fromkeys(("workers/key", "ratio"), "none"),
    "percent": "percent",
    "tuples/s": "si: tuples/s",
    "messages/s": "si: messages/s",
    "seconds": "s",
    "ms": "ms",
    "bytes": "bytes",
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

#: A panel, and a query of a panel, as Grafana's JSON has them.
Panel: TypeAlias = dict[str, Any]
Query: TypeAlias = dict[str, Any]

LABEL = 16  # characters of a key beside a bar

_ALARM = "#c4162a"

#: What a panel says that has no data, if it says nothing else.
EMPTY = "No run in this time range"


def lines(title: str, description: str, *shown: Any, alert: str | None = None, **how: Any) -> Panel:
    """Lines in the course of time.

    The figure of the ``alert`` is a dashed line, in the panel's unit. Numbers and bars have none: there a threshold
    would be a colour, and a run has its grouping's.
    """
    defaults: dict[str, Any] = {"custom": {"axisSoftMin": 0, "lineWidth": _WIDE}}
    if alert is not None:
        description = f"{description} Dashed: where the alert {alert} begins."
        steps = [{"color": "transparent", "value": None}, {"color": _ALARM, "value": find_threshold(alert)}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
    options = {"tooltip": {"mode": "multi", "sort": "desc"}}
    return _make_panel("timeseries", options, title, description, *shown, **defaults, **how)


def each(label: str, *panel: Any, **how: Any) -> Panel:
    """A line for each value of a label, in its grouping's colour and dashed by how the value ends.

    The label is one of `ENDINGS`. It stands before its value at the end of the series' names.
    """
    made = lines(*panel, **how)
    settings: list[tuple[Sequence[str], str, Any]] = [(ENDINGS[label][len(DASHES) :], "custom.lineWidth", _NARROW)]
    for at, dashes in enumerate(DASHES[1:], 1):
        settings.append((ENDINGS[label][at :: len(DASHES)], "custom.lineStyle", {"fill": "dash", "dash": dashes}))
    for endings, setting, value in settings:
        # Grafana takes a pattern without slashes for the whole name.
        pattern = f"/ · {label} .*({'|'.join(endings)})$/"
        made["fieldConfig"]["overrides"].append(_override("byRegexp", pattern, setting, value))
    return made


def windows(*panel: Any, **how: Any) -> Panel:
    """Lines of closed windows. A window's point is at its end, and its value holds since the end of the one before."""
    made = lines(*panel, **how)
    made["fieldConfig"]["defaults"]["custom"] |= {"lineInterpolation": "stepBefore", "showPoints": "always"}
    return made


def band(*panel: Any, **how: Any) -> Panel:
    """A line for each worker in its grouping's colour: the closer together, the better."""
    made = lines(*panel, **how)
    made["fieldConfig"]["defaults"]["custom"] |= {"lineWidth": 1, "showPoints": "never"}
    made["options"]["legend"] = {"calcs": [], "displayMode": "hidden", "placement": "bottom", "showLegend": False}
    return made


def numbers(*panel: Any, height: int = 4, **how: Any) -> Panel:
    """One number a run: the newest of its series."""
    options = {"graphMode": "none", "orientation": "horizontal", "textMode": "value_and_name"}
    return _make_panel("stat", options, *panel, height=height, **how)


def gauges(*panel: Any, height: int = 6, **how: Any) -> Panel:
    """One bar a run, against the longest."""
    options = {"displayMode": "basic", "orientation": "horizontal", "showUnfilled": False, "valueMode": "text"}
    return _make_panel("bargauge", options, *panel, height=height, min=0, **how)


def bars(x: str, *panel: Any, lying: bool = False, **how: Any) -> Panel:
    """Beside each other, for each value of the column ``x``, a bar for every run."""
    options = {
        "xField": x,
        "xTickLabelMaxLength": LABEL,
        "orientation": "horizontal" if lying else "vertical",
        "showValue": "never",
        "groupWidth": 0.8,
        "barWidth": 0.95,
        "tooltip": {"mode": "multi", "sort": "none"},
    }
    custom = {"axisSoftMin": 0, "fillOpacity": 100, "lineWidth": 0}
    return _make_panel("barchart", options, *panel, custom=custom, **how)


def rows(
    title: str,
    description: str,
    query: Query,
    headings: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    **how: Any,
) -> Panel:
    """A table of the query's columns: their headings in order, if not as they come, and heading → its unit."""
    panel = _make_panel("table", {}, title, description, "short", query, custom={"filterable": True}, **how)
    for heading, unit in (units or {}).items():
        panel["fieldConfig"]["overrides"].append(_override("byName", heading, "unit", unit))
    if headings:
        renamed = {name: heading for name, heading in headings.items() if heading != name}
        options = {"indexByName": {name: at for at, name in enumerate(headings)}, "renameByName": renamed}
        panel["transformations"] = [{"id": "organize", "options": options}]
    return panel


def over_time(subject: str, name: str, **how: Any) -> tuple[str, Query]:
    """A metric's unit, and the metric in the course of time: ``flux.over_time`` has the further arguments."""
    found = catalogue.get_metric(subject, name)
    return UNITS[found.unit], flux.query(flux.over_time(found, **how))


def now(subject: str, name: str, by: Sequence[str] = (), *where: str) -> tuple[str, Query]:
    """A gauge's unit in Prometheus, and the gauge as it is: ``promql.now`` has the further arguments."""
    gauge = catalogue.get_metric(subject, name)
    unit = "percentunit" if gauge.unit == "percent" else UNITS[gauge.unit]
    return unit, promql.query(promql.now(gauge, by, *where), by)


@cache
def read_alerts() -> dict[str, dict[str, Any]]:
    """Alert → its rule. ``deploy/rules`` alone has the figures above which alerts fire."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def find_threshold(alert: str) -> float:
    """The number that the alert's last comparison has, in Prometheus' base units.

    >>> find_threshold("FallingBehind"), find_threshold("LateRising")
    (60.0, 0.01)
    """
    expression = read_alerts()[alert]["expr"].strip()
    found = re.search(r"> ([\d.e+-]+)$", expression)
    if found is None:
        raise ValueError(f"{alert} doesn't end with a number to compare with: {expression}")
    return float(found[1])


def _make_panel(
    kind: str,
    options: dict[str, Any],
    title: str,
    description: str,
    unit: str,
    query: Query,
    *,
    height: int = 8,
    no_value: str = EMPTY,
    **defaults: Any,
) -> Panel:
    """A panel of Grafana's kind, with runs in the colours of their groupings' families.

    ``title`` is its question, and ``no_value`` what it says without data. ``defaults`` are settings of its fields.
    """
    source, overrides = promql.PROMETHEUS if "expr" in query else flux.INFLUXDB, []
    defaults |= {"unit": unit, "noValue": no_value}
    if kind != "table":
        # A series of no grouping gets a colour by its name.
        defaults["color"] = {"mode": "palette-classic-by-name"}
        for family in FAMILIES:
            colour = {"mode": "fixed", "fixedColor": COLOURS[family[0]]}
            overrides.append(_override("byRegexp", f"/^({'|'.join(family)}) · /", "color", colour))
    if kind in ("stat", "bargauge") and unit in ("percent", "none"):
        defaults["decimals"] = 2
    if kind in ("stat", "bargauge", "timeseries") and source is flux.INFLUXDB:
        defaults["displayName"] = "${__field.labels.series}"  # Prometheus' legend names its series
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": source,
        "targets": [query],
        "gridPos": {"h": height},
        "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
    }


def _override(matcher: str, pattern: str, setting: str, value: Any) -> dict[str, Any]:
    return {"matcher": {"id": matcher, "options": pattern}, "properties": [{"id": setting, "value": value}]}
