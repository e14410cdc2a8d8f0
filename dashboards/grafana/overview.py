"""Overview: is the load balanced, what does that cost, and does the run keep up."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from unskew.apps.metrics.catalogue import metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import DIST_COST, STD_DEV, STRAGGLING, THROUGHPUT, THROUGHPUT_IS, Flux
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS


def overview() -> Dashboard:
    """The first one to open."""
    return page(
        "unskew-overview",
        "Is the load balanced?",
        "Every run in its grouping's colour: how evenly the workers are loaded (STD_DEV, 0 is perfect), what that "
        "costs (DIST_COST, 1 is cheapest), and whether the run keeps up with its topic.",
        [
            panels.numbers(
                "How uneven? STD_DEV",
                "Population standard deviation of the workers' shares of the load over the whole time range; "
                "0 is perfect balance.",
                UNITS["percent"],
                Flux(STD_DEV),
                4,
            ).decimals(2),
            panels.numbers(
                "At what cost? DIST_COST",
                "Workers that held a key, mean over the keys of all windows in the time range; 1: no key was split.",
                UNITS["workers/key"],
                Flux(DIST_COST),
                4,
            ).decimals(2),
            panels.numbers(
                "How slow is the slowest worker?",
                "Time at work of the slowest worker of each batch over that of the mean worker, all batches together. "
                "A batch waits for its slowest worker; 1 is ideal.",
                UNITS["ratio"],
                Flux(STRAGGLING),
                4,
            ).decimals(2),
            panels.numbers(
                "How fast? THROUGHPUT_RATIO",
                THROUGHPUT_IS,
                UNITS["tuples/s"],
                Flux(THROUGHPUT),
                4,
            ),
            panels.numbers(
                "How many messages wait?",
                "Messages in the topic that no micro-batch had taken at the newest report.",
                UNITS["messages"],
                Flux(flux.over_range(metric("query", "lag"), "last")),
                4,
            ),
            panels.numbers(
                "How many were invalid?",
                "Messages in the time range that are invalid for the source type.",
                UNITS["messages"],
                Flux(flux.over_range(metric("batch", "rejected"), "sum")),
                4,
            ),
            panels.windows(
                "How uneven is the load?",
                "STD_DEV of each window: standard deviation of the workers' shares of its tuples. Lower is better.",
                UNITS["percent"],
                Flux(flux.over_time(metric("window", "std_dev"))),
                12,
                9,
            ),
            panels.bars(
                "What share of the load does each worker have?",
                "Each worker's tuples in percent of its run's, over the time range. Level bars mean balance; "
                "100 / W is ideal.",
                UNITS["percent"],
                Flux(flux.share_by_worker(metric("worker", "tuples"))),
                12,
                "worker",
                9,
            ),
            panels.windows(
                "How many workers does a key have?",
                "DIST_COST of each window: workers that held a key, mean over its keys. The price of balance.",
                UNITS["workers/key"],
                Flux(flux.over_time(metric("window", "dist_cost"))),
                8,
            ),
            panels.lines(
                "What does a batch wait for?",
                "Time at work of the slowest worker over that of the mean worker in each batch; 1 is ideal.",
                UNITS["ratio"],
                Flux(flux.over_time(metric("batch", "straggling"))),
                8,
            ),
            panels.lines(
                "How fast is it?",
                "Messages per second that a micro-batch processed.",
                UNITS["messages/s"],
                Flux(flux.over_time(metric("query", "processed_rate"))),
                8,
            ),
        ],
    )
