"""Every panel's own query has an answer of real servers that a real run has filled, and the right one."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.dashboards.conftest import RUNS, STREAM
from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.checked_in import dashboards
from unskew.dashboards.preview.data_sources import Table
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.selection import Selection
from unskew.grouping.registry import get_colour

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.xdist_group("dashboards")]

NAMES = {grouping: f"{grouping} · dashboards-s2-w4" for grouping in RUNS}


def panel(seen, dashboard: str, title: str, **values: list[str]):
    spec = next(panel for panel in dashboards()[dashboard]["panels"] if panel["title"] == title)
    return Panel.of(spec, seen.sources, Selection(seen.selection.start, seen.selection.stop, values))


def newest(shown) -> dict[str, float]:
    return {shown.name(series): series.values[-1] for series in shown.series}


@pytest.mark.parametrize("name", dashboards())
def test_every_series_has_its_groupings_colour(seen, name):
    for spec in dashboards()[name]["panels"]:
        shown = Panel.of(spec, seen.sources, seen.selection)
        if not isinstance(shown.data, Table):
            for series in shown.series:
                named = series.labels.get("grouping", shown.name(series))
                wanted = get_colour("KEY" if named.startswith("KEY") else "DYNAMIC_KEY")
                assert shown.colour(shown.name(series)) == wanted, (shown.title, shown.name(series))


def test_what_happened_is_marked(seen):
    marks = seen.sources.marks(dashboards()["overview"], seen.selection)
    assert [mark.kind for mark in marks].count("Starts and restarts") == len(RUNS)
    assert {"Scale-ups", "Rebalances"} <= {mark.kind for mark in marks}
    assert all(seen.selection.start <= mark.time <= seen.selection.stop for mark in marks)
    of_prometheus = {mark.kind for mark in seen.sources.marks(dashboards()["balance"], seen.selection)}
    assert {"Starts and restarts", "Rebalances"} <= of_prometheus


def test_shares_are_of_the_whole_load(seen):
    shares = panel(seen, "overview", "What share of the load does each worker have?").table.columns
    assert list(shares["worker"]) == ["0", "1", "2", "3"]
    for name in NAMES.values():
        assert sum(shares[name]) == pytest.approx(100)
    assert max(shares[NAMES["KEY"]]) >= 80  # Turkey is at one worker


def test_the_whole_ranges_std_dev_is_that_of_the_loads(seen):
    shares = panel(seen, "overview", "What share of the load does each worker have?").table.columns
    shown = newest(panel(seen, "overview", "How uneven? STD_DEV"))
    for name in NAMES.values():
        variance = sum((share - 25) ** 2 for share in shares[name]) / 4
        assert shown[name] == pytest.approx(variance**0.5)
    assert shown[NAMES["DYNAMIC_KEY"]] < shown[NAMES["KEY"]]


def test_prometheus_alone_has_the_same_std_dev(seen):
    """To its last window, for which the fixture waits: the range ends after a scrape of it."""
    name, (start, stop) = NAMES["DYNAMIC_KEY"], (seen.selection.start, seen.selection.stop + timedelta(seconds=2))
    later = replace(seen, selection=Selection(start, stop))
    of_influxdb, of_prometheus = (newest(panel(later, of, "How uneven? STD_DEV")) for of in ("overview", "balance"))
    assert of_prometheus[name] == pytest.approx(of_influxdb[name])


def test_the_table_sums_up_what_the_gauges_show(seen):
    table = panel(seen, "groupings", "How do the runs compare?").table.columns
    assert list(table)[:3] == ["run", "tuples", "STD_DEV"]
    assert list(table["run"]) == sorted(NAMES.values())
    assert list(table["tuples"]) == [len(STREAM)] * 2
    gauges = newest(panel(seen, "groupings", "How uneven? STD_DEV"))
    assert dict(zip(table["run"], table["STD_DEV"], strict=True)) == pytest.approx(gauges)


def test_the_hottest_key_is_first(seen):
    table = panel(seen, "keys", "Which keys are hot?").table.columns
    assert list(table["key"][:2]) == ["Turkey"] * 2
    assert list(table["tuples"][:2]) == [len(STREAM) * 0.8] * 2


@pytest.mark.parametrize(
    ("dashboard", "title"),
    [("overview", "How uneven is the load?"), ("pipeline", "Is it falling behind?")],
    ids=["InfluxDB", "Prometheus"],
)
def test_what_is_chosen_is_shown_and_nothing_else(seen, dashboard, title):
    def names(**values):
        return {series.labels.get("series") or series.name for series in panel(seen, dashboard, title, **values).series}

    assert names() == set(NAMES.values())
    assert names(run=[RUNS["KEY"]]) == {NAMES["KEY"]}
    assert names(run=list(RUNS.values())) == set(NAMES.values())
    assert names(grouping=["DYNAMIC_KEY"]) == {NAMES["DYNAMIC_KEY"]}
    assert names(run=["dashboards.s2.w4.kg"]) == set()  # a point is a point


def test_the_variables_offer_what_there_is(seen):
    offered = {}
    for variable in dashboards()["workers"]["templating"]["list"]:
        if variable["type"] == "query":
            answer = seen.sources.influxdb.answer(variable["query"], seen.selection)
            offered[variable["name"]] = sorted(answer.columns["_value"])
    assert offered == {
        "run": sorted(RUNS.values()),
        "grouping": sorted(RUNS),
        "worker": ["0", "1", "2", "3"],
    }
    known = get_metric("run", "tuples").prometheus_name
    queries = [v["query"]["query"] for v in dashboards()["pipeline"]["templating"]["list"] if v["type"] == "query"]
    assert queries == [f"label_values({known}, run)", f"label_values({known}, grouping)"]
