"""Keys: which are hot, and what the grouping does with them."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import Flux
from unskew.dashboards.grafana.page import MARKS, Row, page
from unskew.dashboards.grafana.panels import UNITS, Column


def keys() -> Dashboard:
    """The ten hottest keys of each window, and what is done about them."""
    return page(
        "unskew-keys",
        "Which keys are hot?",
        "The hottest keys of each window, the workers that held them, and what the grouping knows of them.",
        [_show_hottest(), _show_windows(), _show_knowledge()],
    )


def _show_hottest() -> Row:
    """The hottest keys of the time range."""
    return [
        panels.rows(
            "Which keys are hot?",
            "Tuples of a key in the windows in which it was among the ten hottest, the number of these windows, "
            "and the most workers that held it in one of them.",
            Flux(flux.hottest_keys(40)),
            {
                "key": Column("key"),
                "series": Column("run"),
                "tuples": Column("tuples", UNITS["tuples"]),
                "windows": Column("windows", UNITS["number"]),
                "workers": Column("workers", UNITS["workers"]),
            },
            11,
        ),
        panels.bars(
            "How many workers do the hot keys have?",
            "The most workers that held the key in a window. A grouping that splits hot keys has long bars at the "
            "top and short ones below.",
            UNITS["workers"],
            Flux(flux.workers_of_hottest(12)),
            "key",
            11,
            lying=True,
        ),
    ]


def _show_windows() -> Row:
    """Keys in the course of time."""
    return [
        panels.windows(
            "How hot is the hottest key?",
            "Tuples of the hottest key of each window.",
            *panels.over_time("hot_key", "tuples", fn="max", where='r.rank == "1"'),
        ),
        panels.windows(
            "How many keys are there?",
            "Distinct keys in each window.",
            *panels.over_time("window", "distinct_keys"),
        ),
        panels.lines(
            "How hot is it in the open window?",
            "Tuples so far of the hottest key of the window that is still open. It begins anew with each window.",
            *panels.over_time("open_window", "hottest", fn="max"),
        ).no_value("Open windows are shown with --emit changes"),
        panels.windows(
            "How many workers does the hottest key have?",
            "Workers that held the hottest key of each window.",
            *panels.over_time("hot_key", "holders", fn="max", where='r.rank == "1"'),
        ),
    ]


def _show_knowledge() -> Row:
    """What the grouping knows, and what it did."""
    kinds = [kind for kinds, _ in MARKS.values() for kind in kinds]
    return [
        panels.rows(
            "What does the grouping know?",
            "The newest value of each of the grouping's own numbers, all sources together. A grouping that keeps "
            "no state has none.",
            Flux(flux.internals(get_metric("scheme", "value"))),
            height=9,
        ).no_value("These groupings keep no numbers of their own"),
        panels.rows(
            "What happened?",
            "Starts, restarts, and what the grouping changed: the marks on the other panels.",
            Flux(flux.read_events(kinds)),
            {
                "time": Column("time"),
                "title": Column("run"),
                "tags": Column("what"),
                "text": Column("in words"),
            },
            9,
        ).no_value("Nothing happened in this time range"),
    ]
