"""Keys: which are hot, and what the grouping does with them."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.page import MARKS, page
from unskew.dashboards.grafana.panels import UNITS

_KINDS = [kind for kinds, _ in MARKS.values() for kind in kinds]

#: The ten hottest keys of each window, and what is done about them.
KEYS = page(
    "unskew-keys",
    "Which keys are hot?",
    "The hottest keys of each window, the workers that held them, and what the grouping knows of them.",
    # The hottest keys of the time range.
    [
        panels.rows(
            "Which keys are hot?",
            "Tuples of a key in the windows in which it was among the ten hottest, the number of these windows, "
            "and the most workers that held it in one of them.",
            flux.query(flux.hottest_keys(40)),
            {"key": "key", "series": "run", "tuples": "tuples", "windows": "windows", "workers": "workers"},
            height=11,
        ),
        panels.bars(
            "key",
            "How many workers do the hot keys have?",
            "The most workers that held the key in a window. A grouping that splits hot keys has long bars at the "
            "top and short ones below.",
            UNITS["workers"],
            flux.query(flux.workers_of_hottest(12)),
            height=11,
            lying=True,
        ),
    ],
    # Keys in the course of time.
    [
        panels.windows(
            "How hot is the hottest key?",
            "Tuples of the hottest key of each window.",
            *panels.over_time("hot_key", "tuples", fn="max", where='r.rank == "1"'),
        ),
        panels.windows(
            "How many keys are there?", "Distinct keys in each window.", *panels.over_time("window", "distinct_keys")
        ),
        panels.lines(
            "How hot is it in the open window?",
            "Tuples so far of the hottest key of the window that is still open. It begins anew with each window.",
            *panels.over_time("open_window", "hottest", fn="max"),
            no_value="Open windows are shown with --emit changes",
        ),
        panels.windows(
            "How many workers does the hottest key have?",
            "Workers that held the hottest key of each window.",
            *panels.over_time("hot_key", "holders", fn="max", where='r.rank == "1"'),
        ),
    ],
    # What the grouping knows, and what it did.
    [
        panels.rows(
            "What does the grouping know?",
            "The newest value of each of the grouping's own numbers, all sources together. A grouping that keeps "
            "no state has none.",
            flux.query(flux.internals(get_metric("scheme", "value"))),
            height=9,
            no_value="These groupings keep no numbers of their own",
        ),
        panels.rows(
            "What happened?",
            "Starts, restarts, and what the grouping changed: the marks on the other panels.",
            flux.query(flux.read_events(_KINDS)),
            {"time": "time", "title": "run", "tags": "what", "text": "in words"},
            height=9,
            no_value="Nothing happened in this time range",
        ),
    ],
)
