"""From the code to the JSON files that Grafana reads, which are checked in."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
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
    """Every dashboard's file name and text; the same text for the same code."""
    files = {}
    for name, make in DASHBOARDS.items():
        dashboard = json.loads(JSONEncoder().encode(make()))
        _tidy(dashboard)
        files[f"{name}.json"] = json.dumps(dashboard, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return files


def parsed(files: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The same as JSON values."""
    return {name: json.loads(text) for name, text in files.items()}


def write(files: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Write what differs and remove what is no dashboard of ours any more; yields what was changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in outdated(files, folder):
        if name in files:
            (folder / name).write_text(files[name], encoding="utf-8")
        else:
            (folder / name).unlink()
        yield name


def outdated(files: Mapping[str, str], folder: Path) -> list[str]:
    """Names of the files in the folder that aren't what they should be."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return [name for name in sorted(files.keys() | there.keys()) if files.get(name) != there.get(name)]


def _tidy(dashboard: dict[str, Any]) -> None:
    """Take out what the SDK puts in of itself and Grafana's schema doesn't have, or nobody wants."""
    for shown in (*dashboard["links"], *dashboard["annotations"]["list"]):
        del shown["placement"]  # into a menu, where nobody sees it
    for variable in dashboard["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):  # of intervals
            del variable[key]
    for panel in dashboard["panels"]:
        panel["options"].pop("footer", None)  # once a table's
