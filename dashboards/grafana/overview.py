"""Overview: is the load balanced, what does that cost, and does the run keep up."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import DIST_COST, STD_DEV, STRAGGLING, THROUGHPUT, THROUGHPUT_IS, Flux
from unskew.dashboards.grafana.page import Row, page
from unskew.dashboards.grafana.panels import UNITS


def overview() -> Dashboard:
    """The first one to open."""
    return page(
        "unskew-overview",
        "Is the load balanced?",
        "Every run in its grouping's colour: how evenly the workers are loaded (STD_DEV, 0 is perfect), what that "
        "costs (DIST_COST, 1 is cheapest), and whether the run keeps up with its topic.",
        [_show_numbers(), _show_loads(), _show_cost_and_speed()],
    )


def _show_numbers() -> Row:
    """Each run by its numbers."""
    return [
        panels.numbers(
            "How uneven? STD_DEV",
            "Population standard deviation of the workers' shares of the load over the whole time range; "
            "0 is perfect balance.",
            UNITS["percent"],
            Flux(STD_DEV),
        ).decimals(2),
        panels.numbers(
            "At what cost? DIST_COST",
            "Workers that held a key, mean over the keys of all windows in the time range; 1: no key was split.",
            UNITS["workers/key"],
            Flux(DIST_COST),
        ).decimals(2),
        panels.numbers(
            "How slow is the slowest worker?",
            "Time at work of the slowest worker of each batch over that of the mean worker, all batches together. "
            "A batch waits for its slowest worker; 1 is ideal.",
            UNITS["ratio"],
            Flux(STRAGGLING),
        ).decimals(2),
        panels.numbers(
            "How fast? THROUGHPUT_RATIO",
            THROUGHPUT_IS,
            UNITS["tuples/s"],
            Flux(THROUGHPUT),
        ),
        panels.numbers(
            "How many messages wait?",
            "Messages in the topic that no micro-batch had taken at the newest report.",
            UNITS["messages"],
            Flux(flux.over_range(get_metric("query", "lag"), "last")),
        ),
        panels.numbers(
            "How many were invalid?",
            "Messages in the time range that are invalid for the source type.",
            UNITS["messages"],
            Flux(flux.over_range(get_metric("batch", "rejected"), "sum")),
        ),
    ]


def _show_loads() -> Row:
    """How evenly the workers are loaded."""
    return [
        panels.windows(
            "How uneven is the load?",
            "STD_DEV of each window: standard deviation of the workers' shares of its tuples. Lower is better.",
            *panels.over_time("window", "std_dev"),
            9,
        ),
        panels.bars(
            "What share of the load does each worker have?",
            "Each worker's tuples in percent of its run's, over the time range. Level bars mean balance; "
            "100 / W is ideal.",
            UNITS["percent"],
            Flux(flux.share_by_worker(get_metric("worker", "tuples"))),
            "worker",
            9,
        ),
    ]


def _show_cost_and_speed() -> Row:
    """What that costs, and whether the run keeps up."""
    return [
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
    ]
