"""Balance: whether the load is balanced, and what that costs, as Prometheus sees it."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import panels, promql
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS

_WINDOW, _BATCH = get_metric("window", "total_tuples"), get_metric("query", "batch")
_SEEN = "Of several windows between two scrapes, the last one is seen."
_SEEN_BATCH = "Of several batches between two scrapes, the last one is seen."
_UNWATCHED = "No closed window; watched queries have none"
_WORKER = 'worker=~"$worker"'
_HOTTEST = [], 'rank="1"'


#: What the dashboards of InfluxDB show, as far as Prometheus has it: no keys, and no window between two scrapes.
BALANCE = page(
    "unskew-balance",
    "Is the load balanced? With Prometheus alone",
    "Balance, what it costs, busy workers and hot keys, without InfluxDB. Lines have what scrapes have seen: the "
    "newest window or batch. A mark may be of a scrape that failed.",
    # Each run by its numbers.
    [
        panels.numbers(
            "How uneven? STD_DEV",
            "Population standard deviation of the workers' shares of the load in the time range; 0 is perfect "
            "balance. It has all windows that closed after the first scrape, or where none did the newest batch of "
            "each scrape.",
            UNITS["percent"],
            promql.query(promql.spread(get_metric("worker", "closed"), get_metric("task", "tuples"))),
        ),
        panels.numbers(
            "At what cost? DIST_COST",
            "Workers that held a key, mean over the keys of the windows in the time range; 1: no key was split. "
            f"{_SEEN}",
            UNITS["workers/key"],
            promql.query(
                promql.weighted_mean(get_metric("window", "dist_cost"), get_metric("window", "distinct_keys"), _WINDOW)
            ),
        ),
        panels.numbers(
            "How slow is the slowest worker?",
            "Time at work of the slowest worker of each batch over that of the mean worker, all batches together; "
            f"1 is ideal. {_SEEN_BATCH}",
            UNITS["ratio"],
            promql.query(
                promql.ratio(
                    get_metric("batch", "slowest"), get_metric("batch", "mean"), get_metric("batch", "tuples"), _BATCH
                )
            ),
        ),
        panels.numbers(
            "How fast? THROUGHPUT_RATIO",
            "Tuples in closed windows per second, from the start of the run's first batch to the end of the newest "
            "closed window.",
            *panels.now("window", "throughput_ratio"),
            no_value=_UNWATCHED,
        ),
    ],
    # How evenly the workers are loaded.
    [
        panels.lines(
            "How uneven is the load?",
            "STD_DEV: standard deviation of the workers' shares of the tuples in the batches of a minute. "
            f"{_SEEN_BATCH}",
            "percentunit",
            promql.query(promql.recent_spread(get_metric("task", "tuples"))),
            height=9,
        ),
        panels.band(
            "Do the workers stay together?",
            "Each worker's share of the tuples in the batches of a minute. A worker far above the others has a hot "
            f"key; the tooltip names the worker. {_SEEN_BATCH}",
            "percentunit",
            promql.query(promql.recent_share(get_metric("task", "tuples"), _WORKER), ["worker"]),
            height=9,
        ),
    ],
    # What that costs.
    [
        panels.lines(
            "How many workers does a key have?",
            "DIST_COST of the newest window: workers that held a key, mean over its keys. The price of balance. "
            f"{_SEEN}",
            *panels.now("window", "dist_cost"),
        ),
        panels.lines(
            "What does a batch wait for?",
            "Time at work of the slowest worker over that of the mean worker in the newest batch; 1 is ideal. "
            f"{_SEEN_BATCH}",
            *panels.now("batch", "straggling"),
        ),
        panels.lines(
            "How many workers got nothing?",
            "Workers without a tuple in the newest window. Few keys leave some idle if the grouping splits no key. "
            f"{_SEEN}",
            *panels.now("window", "idle_workers"),
        ),
    ],
    # What each worker does and keeps.
    [
        panels.band(
            "How long is each worker at work in a batch?",
            f"Seconds at work in the newest batch. A batch waits for its slowest worker. {_SEEN_BATCH}",
            *panels.now("task", "busy", ["worker"], _WORKER),
        ),
        panels.band(
            "How many keys does each worker hold?",
            f"Distinct keys of each worker in the newest window: the state it has to keep. {_SEEN}",
            *panels.now("worker", "distinct_keys", ["worker"], _WORKER),
            no_value=_UNWATCHED,
        ),
    ],
    # How hot the hottest keys are. Prometheus doesn't know which they are.
    [
        panels.lines(
            "How hot is the hottest key?",
            f"Tuples of the hottest key of the newest window. {_SEEN}",
            *panels.now("hot_key", "tuples", *_HOTTEST),
            no_value=_UNWATCHED,
        ),
        panels.each(
            "rank",
            "What share do the hottest keys have?",
            "Shares of the newest window's tuples that its ten hottest keys have, each by its rank. One above 1 / W is "
            f"too much for a worker: balance needs it split. {_SEEN}",
            "percentunit",
            promql.query(
                promql.share(get_metric("hot_key", "tuples"), get_metric("window", "tuples"), ["rank"]), ["rank"]
            ),
            no_value=_UNWATCHED,
        ),
        panels.lines(
            "How many workers does the hottest key have?",
            f"Workers that held the hottest key of the newest window. {_SEEN}",
            *panels.now("hot_key", "holders", *_HOTTEST),
            no_value=_UNWATCHED,
        ),
    ],
    # What the grouping knows, and what it did.
    [
        panels.gauges(
            "What does the grouping know?",
            "The newest value of each of the grouping's own numbers, all sources together. A grouping that keeps "
            "no state has none.",
            UNITS["number"],
            promql.query(promql.total(get_metric("scheme", "value"), ["internal"]), ["internal"]),
            height=9,
            no_value="These groupings keep no numbers of their own",
        ),
        panels.lines(
            "How many keys does a rebalance move?",
            "Keys that the newest plan moved. Of several plans between two scrapes, the last one is seen.",
            *panels.now("rebalance", "keys"),
            height=9,
            no_value="No plan has moved keys",
        ),
    ],
    source="prometheus",
    workers=True,
)
