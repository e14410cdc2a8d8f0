"""Overview: is the load balanced, what does that cost, and does the run keep up."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import DIST_COST, STD_DEV, STRAGGLING, THROUGHPUT, THROUGHPUT_IS
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS

#: The first one to open.
OVERVIEW = page(
    "unskew-overview",
    "Is the load balanced?",
    "Every run in its grouping's colour: how evenly the workers are loaded (STD_DEV, 0 is perfect), what that "
    "costs (DIST_COST, 1 is cheapest), and whether the run keeps up with its topic.",
    # Each run by its numbers.
    [
        panels.numbers(
            "How uneven? STD_DEV",
            "Population standard deviation of the workers' shares of the load over the whole time range; "
            "0 is perfect balance.",
            UNITS["percent"],
            flux.query(STD_DEV),
        ),
        panels.numbers(
            "At what cost? DIST_COST",
            "Workers that held a key, mean over the keys of all windows in the time range; 1: no key was split.",
            UNITS["workers/key"],
            flux.query(DIST_COST),
        ),
        panels.numbers(
            "How slow is the slowest worker?",
            "Time at work of the slowest worker of each batch over that of the mean worker, all batches together. "
            "A batch waits for its slowest worker; 1 is ideal.",
            UNITS["ratio"],
            flux.query(STRAGGLING),
        ),
        panels.numbers("How fast? THROUGHPUT_RATIO", THROUGHPUT_IS, UNITS["tuples/s"], flux.query(THROUGHPUT)),
        panels.numbers(
            "How many messages wait?",
            "Messages in the topic that no micro-batch had taken at the newest report.",
            UNITS["messages"],
            flux.query(flux.over_range(get_metric("query", "lag"), "last")),
        ),
        panels.numbers(
            "How many were invalid?",
            "Messages in the time range that are invalid for the source type.",
            UNITS["messages"],
            flux.query(flux.over_range(get_metric("batch", "rejected"), "sum")),
        ),
    ],
    # How evenly the workers are loaded.
    [
        panels.windows(
            "How uneven is the load?",
            "STD_DEV of each window: standard deviation of the workers' shares of its tuples. Lower is better.",
            *panels.over_time("window", "std_dev"),
            height=9,
        ),
        panels.bars(
            "worker",
            "What share of the load does each worker have?",
            "Each worker's tuples in percent of its run's, over the time range. Level bars mean balance; "
            "100 / W is ideal.",
            UNITS["percent"],
            flux.query(flux.share_by_worker(get_metric("worker", "tuples"))),
            height=9,
        ),
    ],
    # What that costs, and whether the run keeps up.
    [
        panels.windows(
            "How many workers does a key have?",
            "DIST_COST of each window: workers that held a key, mean over its keys. The price of balance.",
            *panels.over_time("window", "dist_cost"),
        ),
        panels.lines(
            "What does a batch wait for?",
            "Time at work of the slowest worker over that of the mean worker in each batch; 1 is ideal.",
            *panels.over_time("batch", "straggling"),
        ),
        panels.lines(
            "How fast is it?",
            "Messages per second that a micro-batch processed.",
            *panels.over_time("query", "processed_rate"),
        ),
    ],
)
