"""The dashboards, and the text of the JSON files that Grafana reads, made of the code."""

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from unskew.dashboards.grafana.balance import balance
from unskew.dashboards.grafana.groupings import groupings
from unskew.dashboards.grafana.keys import keys
from unskew.dashboards.grafana.overview import overview
from unskew.dashboards.grafana.pipeline import pipeline
from unskew.dashboards.grafana.workers import workers

#: In the order of reading: file's name → what makes the dashboard.
DASHBOARDS = {
    "overview": overview,
    "workers": workers,
    "keys": keys,
    "pipeline": pipeline,
    "groupings": groupings,
    "balance": balance,
}


_WIDTH = 180  # columns of a file: an override in one line

_LEGEND = {"calcs": [], "displayMode": "list", "placement": "bottom"}

#: What the SDK writes although Grafana takes it by itself: a key, wherever it is → the values that needn't be said.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    # dashboards, variables and marks
    "editable": (True,),
    "fiscalYearStartMonth": (0,),
    "allowCustomValue": (True,),
    "includeAll": (False,),
    "multi": (False,),
    "selected": (True,),
    "skipUrlSync": (False,),
    "builtIn": (0,),
    "hide": (False,),
    # queries and panels
    "instant": (False,),
    "repeatDirection": ("h",),
    "transparent": (False,),
    "legend": ({**_LEGEND, "showLegend": True}, {**_LEGEND, "showLegend": False}),  # a bargauge has none
    "reduceOptions": ({"calcs": ["lastNotNull"], "fields": "", "values": False},),
    # lines
    "fillOpacity": (0,),
    "pointSize": (5,),
    "showPoints": ("auto",),
    # numbers
    "colorMode": ("value",),
    "justifyMode": ("auto",),
    "percentChangeColorMode": ("standard",),
    "showPercentChange": (False,),
    "wideLayout": (True,),
    # gauges
    "maxVizHeight": (300,),
    "minVizHeight": (16,),
    "minVizWidth": (8,),
    "namePlacement": ("auto",),
    "sizing": ("auto",),
    # bars
    "barRadius": (0,),
    "fullHighlight": (False,),
    "gradientMode": ("none",),
    "stacking": ("none",),
    "xTickLabelRotation": (0,),
    "xTickLabelSpacing": (0,),
    # tables
    "align": ("auto",),
    "cellHeight": ("sm",),
    "frameIndex": (0,),
    "inspect": (False,),
    "showHeader": (True,),
    "showTypeIcons": (False,),
}


def render_dashboards() -> dict[str, str]:
    """Every dashboard's file name → its text; the same text for the same code."""
    files = {}
    for name, make in DASHBOARDS.items():
        dashboard = json.loads(JSONEncoder().encode(make()))
        _drop_unknown(dashboard)
        files[f"{name}.json"] = _format_json(_drop_defaults(dashboard)) + "\n"
    return files


def _format_json(value: Any, indent: str = "") -> str:
    """JSON in which each object and list that fits a line is on one: an override is then a few lines of a diff."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or len(indent) + len(line) <= _WIDTH:
        return line
    inner = indent + " "
    if isinstance(value, dict):
        rows = [f"{inner}{json.dumps(key)}: {_format_json(value[key], inner)}" for key in sorted(value)]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _format_json(each, inner) for each in value) + f"\n{indent}]"


def _drop_defaults(found: Any) -> Any:
    if isinstance(found, list):
        return [_drop_defaults(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {key: _drop_defaults(value) for key, value in found.items() if value not in _DEFAULTS.get(key, ())}


def _drop_unknown(dashboard: dict[str, Any]) -> None:
    """Take out the keys that the SDK adds and Grafana's schema doesn't have, or that nobody wants."""
    for shown in (*dashboard["links"], *dashboard["annotations"]["list"]):
        del shown["placement"]  # it would hide the link or mark in a menu
    for variable in dashboard["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):  # of intervals
            del variable[key]
    for panel in dashboard["panels"]:
        panel["options"].pop("footer", None)  # once a table's
