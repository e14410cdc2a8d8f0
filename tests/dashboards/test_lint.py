"""Each rule finds the dashboard that breaks it, and no other rule is needed for that."""

import copy
from collections.abc import Callable

import pytest

from unskew.dashboards.checked_in import dashboards

lint = pytest.importorskip("unskew.dashboards.lint", exc_type=ImportError)

Break = Callable[[dict], None]


def first(dashboard) -> dict:
    return dashboard["panels"][0]


def query(dashboard, old: str, new: str) -> None:
    for target in (target for panel in dashboard["panels"] for target in panel["targets"]):
        key = "query" if "query" in target else "expr"
        if old in target[key]:
            target[key] = target[key].replace(old, new)
            return
    raise AssertionError(f"no query has {old}")


def without(key: str) -> Break:
    return lambda dashboard: first(dashboard).pop(key)


def asking(old: str, new: str) -> Break:
    return lambda dashboard: query(dashboard, old, new)


def at(**position: int) -> Break:
    return lambda dashboard: dashboard["panels"][1]["gridPos"].update(position)


def another_colour(dashboard) -> None:
    first(dashboard)["fieldConfig"]["overrides"][0]["properties"][0]["value"]["fixedColor"] = "#ffffff"


def no_question(dashboard) -> None:
    first(dashboard)["title"] = "Load"


def silent(dashboard) -> None:
    del first(dashboard)["fieldConfig"]["defaults"]["noValue"]


def same_ids(dashboard) -> None:
    dashboard["panels"][1]["id"] = first(dashboard)["id"]


def odd_unit(dashboard) -> None:
    first(dashboard)["fieldConfig"]["defaults"]["unit"] = "furlongs"


def no_unit(dashboard) -> None:
    del first(dashboard)["fieldConfig"]["defaults"]["unit"]


def fixed_source(dashboard) -> None:
    first(dashboard)["targets"][0]["datasource"]["uid"] = "unskew-influxdb"


def nameless(dashboard) -> None:
    del first(dashboard)["fieldConfig"]["defaults"]["displayName"]


def no_query(dashboard) -> None:
    first(dashboard)["targets"] = []


def undeclared(dashboard) -> None:
    dashboard["templating"]["list"] = [v for v in dashboard["templating"]["list"] if v["name"] != "run"]


BROKEN = [
    ("described", "overview", without("title"), "has no title"),
    ("described", "overview", without("description"), "has no description"),
    ("measured", "overview", no_unit, "has unit none at all"),
    ("measured", "overview", odd_unit, "has unit furlongs"),
    ("described", "overview", no_question, "asks no question"),
    ("described", "overview", silent, "does not say what it means that there are no data"),
    ("described", "overview", same_ids, "panel id 1 is there 2 times"),
    ("placed", "overview", at(x=0), "overlaps 'How uneven? STD_DEV'"),
    ("placed", "overview", at(x=22), "sticks out"),
    ("placed", "overview", at(w=2), "has a gap"),
    ("templated", "overview", fixed_source, "which no variable chooses"),
    ("templated", "overview", undeclared, "uses $run, which is not declared"),
    ("templated", "pipeline", asking('run=~"$run", ', ""), "does not heed $run"),
    ("about_metrics", "overview", asking('r._field == "dist_cost"', 'r._field == "disk_cost"'), "window.disk_cost"),
    ("about_metrics", "overview", asking('"window"', '"widow"'), "widow."),
    ("about_metrics", "pipeline", asking("unskew_query_lag", "unskew_query_lack"), "unskew_query_lack"),
    ("about_metrics", "overview", no_query, "asks for no metric"),
    ("rated", "pipeline", asking("increase(unskew_run_tuples_total", "avg(unskew_run_tuples_total"), "without rate()"),
    ("rated", "pipeline", asking("(unskew_query_lag", "rate(unskew_query_lag"), "as a rate"),
    ("timely", "overview", asking("v.defaultBucket", '"metrics"'), "names a bucket"),
    ("timely", "overview", asking("v.timeRangeStop)", "now())"), "does not keep to the time range"),
    ("coloured", "overview", another_colour, "has not SHUFFLE's colour"),
    ("coloured", "overview", nameless, "does not name its series"),
    ("linked", "overview", lambda dashboard: dashboard.pop("links"), "no link"),
    ("linked", "overview", lambda dashboard: dashboard["annotations"].update(list=[]), "nothing marks"),
]


@pytest.mark.parametrize(("rule", "name", "breaks", "says"), BROKEN, ids=[f"{b[0]}: {b[3]}" for b in BROKEN])
def test_a_broken_dashboard_is_found(rule, name, breaks, says):
    dashboard = copy.deepcopy(dashboards()[name])
    assert list(getattr(lint, rule)(dashboard)) == []
    breaks(dashboard)
    assert any(says in problem for problem in getattr(lint, rule)(dashboard))


def test_every_rule_is_tried():
    assert {rule.__name__ for rule in lint.RULES} == {rule for rule, *_ in BROKEN}


@pytest.mark.parametrize("key", ["uid", "title"])
def test_two_dashboards_of_a_name_are_found(key):
    both = copy.deepcopy(dashboards())
    both["keys"][key] = both["workers"][key]
    assert any(problem.startswith(key) and "2 times" in problem for problem in lint.lint(both))
