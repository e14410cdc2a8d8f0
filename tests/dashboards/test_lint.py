"""Each rule finds the dashboard that breaks it, and no other rule is needed for that."""

import copy
from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any

from unskew.dashboards import lint
from unskew.dashboards.checked_in import dashboards

Break = Callable[[dict], None]
DEFAULTS = "fieldConfig", "defaults"
SOURCE = "datasource", "uid"
COLOUR = "fieldConfig", "overrides", 0, "properties", 0, "value", "fixedColor"


def lacking(*path: str | int) -> Break:
    """The first panel without what is there."""
    return lambda dashboard: placed(dashboard["panels"][0], path).pop(path[-1])


def having(*path: str | int, value: object) -> Break:
    """The first panel with another value there."""

    def change(dashboard: dict) -> None:
        placed(dashboard["panels"][0], path)[path[-1]] = value

    return change


def placed(panel: dict, path: tuple[str | int, ...]) -> Any:
    return reduce(getitem, path[:-1], panel)


def asking(old: str, new: str) -> Break:
    """Another query, of the first panel whose query has the old text."""

    def change(dashboard: dict) -> None:
        targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
        of = [(each, key) for each in targets for key in ("query", "expr") if old in each.get(key, "")]
        each, key = of[0]
        each[key] = each[key].replace(old, new)

    return change


def at(**position: int) -> Break:
    return lambda dashboard: dashboard["panels"][1]["gridPos"].update(position)


def undeclared(dashboard: dict) -> None:
    dashboard["templating"]["list"] = [v for v in dashboard["templating"]["list"] if v["name"] != "run"]


BROKEN = [
    ("check_descriptions", "overview", lacking("title"), "has no title"),
    ("check_descriptions", "overview", lacking("description"), "has no description"),
    ("check_units", "overview", lacking(*DEFAULTS, "unit"), "has unit none at all"),
    ("check_units", "overview", having(*DEFAULTS, "unit", value="furlongs"), "has unit furlongs"),
    ("check_descriptions", "overview", having("title", value="Load"), "asks no question"),
    (
        "check_descriptions",
        "overview",
        lacking(*DEFAULTS, "noValue"),
        "does not say what it means that there are no data",
    ),
    ("check_descriptions", "overview", having("id", value=2), "panel id 2 is there 2 times"),
    ("check_grid", "overview", at(x=0), "overlaps 'How uneven? STD_DEV'"),
    ("check_grid", "overview", at(x=22), "sticks out"),
    ("check_grid", "overview", at(w=2), "has a gap"),
    (
        "check_variables",
        "overview",
        having(*SOURCE, value="unskew-influxdb"),
        "which no variable chooses",
    ),
    ("check_variables", "overview", undeclared, "uses $run, which is not declared"),
    ("check_variables", "pipeline", asking('run=~"$run", ', ""), "does not heed $run"),
    ("about_metrics", "overview", asking('r._field == "dist_cost"', 'r._field == "disk_cost"'), "window.disk_cost"),
    ("about_metrics", "overview", asking('"window"', '"widow"'), "widow."),
    ("about_metrics", "pipeline", asking("unskew_query_lag", "unskew_query_lack"), "unskew_query_lack"),
    ("about_metrics", "overview", having("targets", value=[]), "asks for no metric"),
    (
        "check_rates",
        "pipeline",
        asking("increase(unskew_run_tuples_total", "avg(unskew_run_tuples_total"),
        "without rate()",
    ),
    ("check_rates", "pipeline", asking("(unskew_query_lag", "rate(unskew_query_lag"), "as a rate"),
    ("check_times", "overview", asking("v.defaultBucket", '"metrics"'), "names a bucket"),
    ("check_times", "overview", asking("v.timeRangeStop)", "now())"), "does not keep to the time range"),
    ("check_colours", "overview", having(*COLOUR, value="#ffffff"), "has not SHUFFLE's colour"),
    ("check_colours", "overview", lacking(*DEFAULTS, "displayName"), "does not name its series"),
]


def test_a_broken_dashboard_is_found(subtests):
    for rule, name, breaks, says in BROKEN:
        with subtests.test(rule=rule, says=says):
            dashboard = copy.deepcopy(dashboards()[name])
            assert list(getattr(lint, rule)(dashboard)) == []
            breaks(dashboard)
            assert any(says in problem for problem in getattr(lint, rule)(dashboard))
    assert {rule.__name__ for rule in lint.RULES} == {rule for rule, *_ in BROKEN}


def test_two_dashboards_of_a_name_are_found():
    for key in ("uid", "title"):
        both = copy.deepcopy(dashboards())
        both["keys"][key] = both["workers"][key]
        assert any(problem.startswith(key) and "2 times" in problem for problem in lint.lint(both))
