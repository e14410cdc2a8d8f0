"""Rules for every dashboard's JSON. Each rule is a function that yields problems.

They are about Grafana. The preview itself reports panels that it can't draw.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unskew.apps.metrics.catalogue import METRICS
from unskew.dashboards.preview.panels import FORMATS, find_override
from unskew.grouping.registry import COLOURS, FAMILIES

Dashboard = Mapping[str, Any]
Rule = Callable[[Dashboard], Iterator[str]]

_COLUMNS = 24
# Grafana's built-in variables in queries and names.
_BUILT_IN = {"__rate_interval", "__interval", "__range", "__field"}
_SERIES = {"timeseries", "stat", "bargauge"}
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_PROMETHEUS_NAMES = {m.prometheus_name: m for m in METRICS if m.is_number}
_FIELDS = {(m.subject.name, m.name) for m in METRICS}


def lint(dashboards: Mapping[str, Dashboard]) -> list[str]:
    """The problems of the dashboards, each beginning with the file's name."""
    uids = Counter(dashboard.get("uid") for dashboard in dashboards.values())
    titles = Counter(dashboard.get("title") for dashboard in dashboards.values())
    found = [f"uid {uid} is there {times} times" for uid, times in uids.items() if times > 1]
    found += [f"title {title!r} is there {times} times" for title, times in titles.items() if times > 1]
    for name, dashboard in dashboards.items():
        found += [f"{name}: {problem}" for rule in RULES for problem in rule(dashboard)]
    return found


def check_descriptions(dashboard: Dashboard) -> Iterator[str]:
    """A dashboard and its panels have a title, a description and a unique id.

    A panel's title is a question, and a panel says what missing data mean.
    """
    for key in ("uid", "title", "description"):
        if not dashboard.get(key):
            yield f"the dashboard has no {key}"
    for panel in dashboard["panels"]:
        for key in ("id", "title", "description"):
            if not panel.get(key):
                yield f"{_name(panel)} has no {key}"
        if "?" not in panel.get("title", "?"):
            yield f"{_name(panel)} asks no question"
        if not panel["fieldConfig"]["defaults"].get("noValue"):
            yield f"{_name(panel)} does not say what it means that there are no data"
    ids = Counter(panel.get("id") for panel in dashboard["panels"])
    yield from (f"panel id {number} is there {times} times" for number, times in ids.items() if times > 1)


def check_units(dashboard: Dashboard) -> Iterator[str]:
    """Panels have a unit, and it is one of Grafana's that the preview can write."""
    for panel in dashboard["panels"]:
        for unit in _units(panel):
            if unit not in FORMATS and not unit.startswith("si:"):
                yield f"{_name(panel)} has unit {unit}"


def check_grid(dashboard: Dashboard) -> Iterator[str]:
    """Panels lie within the grid's 24 columns, don't overlap, and fill their rows."""
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        if at["x"] < 0 or at["x"] + at["w"] > _COLUMNS:
            yield f"{_name(panel)} sticks out of the grid"
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            if other := taken.get(cell):
                yield f"{_name(panel)} overlaps {other}"
                break
            taken[cell] = _name(panel)
    rows = Counter(y for _, y in taken)
    yield from (f"row {y} has a gap" for y, width in sorted(rows.items()) if width < _COLUMNS)


def check_variables(dashboard: Dashboard) -> Iterator[str]:
    """Variables select the data sources, all used variables are declared, and every query uses run and grouping."""
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    queries = [*_targets(dashboard), *((v["name"], v) for v in dashboard["templating"]["list"] if v["type"] == "query")]
    for where, target in queries:
        uid = target.get("datasource", {}).get("uid", "")
        if not re.fullmatch(r"\$\{\w+\}", uid):
            yield f"{where} asks data source {uid!r}, which no variable chooses"
        text = _text(target)
        unknown = set(_VARIABLE.findall(uid + text)) - declared - _BUILT_IN
        yield from (f"{where} uses ${name}, which is not declared" for name in sorted(unknown))
    for where, target in _targets(dashboard):
        used = _VARIABLE.findall(_text(target))
        yield from (f"{where} does not heed ${name}" for name in ("run", "grouping") if name not in used)


def about_metrics(dashboard: Dashboard) -> Iterator[str]:
    """Every metric in a query is in ``unskew.apps.metrics.catalogue``."""
    for where, target in _targets(dashboard):
        names = set(re.findall(r"\bunskew_\w+", target.get("expr", "")))
        yield from (f"{where} asks for {name}, which there isn't" for name in sorted(names - _PROMETHEUS_NAMES.keys()))
        for line in target.get("query", "").splitlines():
            if measurement := re.search(r'r\._measurement == "(\w+)"', line):
                fields = {(measurement[1], field) for field in re.findall(r'r\._field == "(\w+)"', line)}
                unknown = fields - _FIELDS or ({(measurement[1], "*")} if not fields else set())
                yield from (f"{where} asks for {'.'.join(one)}, which there isn't" for one in sorted(unknown))
        if not names and "_measurement" not in target.get("query", ""):
            yield f"{where} asks for no metric"


def check_rates(dashboard: Dashboard) -> Iterator[str]:
    """Counters are shown as rates or increases. Gauges never are."""
    for where, target in _targets(dashboard):
        expression = target.get("expr", "")
        for name in re.findall(r"\bunskew_\w+", expression):
            turned = bool(re.search(rf"\b(rate|increase)\({name}\b", expression))
            metric = _PROMETHEUS_NAMES.get(name)
            if metric is not None and turned != (metric.kind == "counter"):
                yield f"{where} shows {metric.kind} {name} {'as a rate' if turned else 'without rate()'}"


def check_times(dashboard: Dashboard) -> Iterator[str]:
    """InfluxDB queries use the dashboard's time range and bucket variable, and name no bucket."""
    for where, target in _targets(dashboard):
        query = target.get("query")
        if query is not None and query.count("from(bucket: v.defaultBucket)") != query.count("from("):
            yield f"{where} names a bucket"
        if query is not None and query.count("v.timeRangeStop)") < query.count("from("):
            yield f"{where} does not keep to the time range"


def check_colours(dashboard: Dashboard) -> Iterator[str]:
    """Every grouping has its family's colour on every panel except tables, whose text Grafana doesn't colour.

    Every series is named after its run.
    """
    for panel in (each for each in dashboard["panels"] if each["type"] != "table"):
        for grouping, first in ((grouping, family[0]) for family in FAMILIES for grouping in family):
            if (find_override(panel, f"{grouping} · stream", "color") or {}).get("fixedColor") != COLOURS[first]:
                yield f"{_name(panel)} has not {grouping}'s colour"
        if panel["type"] in _SERIES:
            shown = panel["fieldConfig"]["defaults"].get("displayName", "")
            for target in panel["targets"]:
                if "series" not in shown and "{{grouping}} · {{stream}}" not in target.get("legendFormat", ""):
                    yield f"{_name(panel)} does not name its series by grouping and run"


#: All rules.
RULES: tuple[Rule, ...] = (
    check_descriptions,
    check_units,
    check_grid,
    check_variables,
    about_metrics,
    check_rates,
    check_times,
    check_colours,
)


def _targets(dashboard: Dashboard) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Queries of panels and annotations, with their name and data source."""
    for panel in dashboard["panels"]:
        if not panel.get("targets"):
            yield f"{_name(panel)} (without a query)", {}
        asked = panel.get("datasource", {})
        yield from ((_name(panel), {"datasource": asked, **target}) for target in panel.get("targets") or [])
    for mark in dashboard["annotations"]["list"]:
        yield mark["name"], {"datasource": mark["datasource"], **mark["target"]}


def _units(panel: Mapping[str, Any]) -> Iterator[str]:
    yield panel["fieldConfig"]["defaults"].get("unit", "none at all")
    for override in panel["fieldConfig"]["overrides"]:
        yield from (one["value"] for one in override["properties"] if one["id"] == "unit")


def _text(target: Mapping[str, Any]) -> str:
    query = target.get("query") or target.get("expr") or ""
    return query["query"] if isinstance(query, dict) else query


def _name(panel: Mapping[str, Any]) -> str:
    return repr(panel.get("title") or f"panel {panel.get('id')}")
