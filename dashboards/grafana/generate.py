"""The five dashboards, and the text of the JSON files that Grafana reads, made of the code."""

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

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
}


def rendered() -> dict[str, str]:
    """Every dashboard's file name → its text; the same text for the same code."""
    files = {}
    for name, make in DASHBOARDS.items():
        dashboard = json.loads(JSONEncoder().encode(make()))
        _tidy(dashboard)
        files[f"{name}.json"] = json.dumps(dashboard, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return files


def _tidy(dashboard: dict[str, Any]) -> None:
    """Take out the keys that the SDK adds and Grafana's schema doesn't have, or that nobody wants."""
    for shown in (*dashboard["links"], *dashboard["annotations"]["list"]):
        del shown["placement"]  # it would hide the link or mark in a menu
    for variable in dashboard["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):  # of intervals
            del variable[key]
    for panel in dashboard["panels"]:
        panel["options"].pop("footer", None)  # once a table's
