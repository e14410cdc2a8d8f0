"""The dashboards, and the text of the JSON files that Grafana reads, made of the code."""

import json
from typing import Any

from unskew.dashboards.grafana.balance import BALANCE
from unskew.dashboards.grafana.groupings import GROUPINGS
from unskew.dashboards.grafana.keys import KEYS
from unskew.dashboards.grafana.overview import OVERVIEW
from unskew.dashboards.grafana.pipeline import PIPELINE
from unskew.dashboards.grafana.workers import WORKERS

#: In the order of reading: file's name → dashboard.
DASHBOARDS = {
    "overview": OVERVIEW,
    "workers": WORKERS,
    "keys": KEYS,
    "pipeline": PIPELINE,
    "groupings": GROUPINGS,
    "balance": BALANCE,
}


_WIDTH = 200  # columns of a file: an override in one line


def render_dashboards() -> dict[str, str]:
    """Every dashboard's file name → its text; the same text for the same code."""
    return {f"{name}.json": _format_json(dashboard) + "\n" for name, dashboard in DASHBOARDS.items()}


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
