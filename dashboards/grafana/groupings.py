"""Groupings: what each one's balance costs, side by side."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import DIST_COST, STD_DEV, STRAGGLING, THROUGHPUT, THROUGHPUT_IS
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS

_NANO = 1e9

_ROUTING = flux.ratio(get_metric("batch", "routing"), get_metric("batch", "tuples"), _NANO)
_TUPLES = flux.over_range(get_metric("window", "tuples"), "sum")


#: Runs compared by one number each, and in the course of time.
GROUPINGS = page(
    "unskew-groupings",
    "What does balance cost? — groupings side by side",
    "Each run by one number: how balanced (STD_DEV, slowest over mean worker), at what cost (DIST_COST, routing "
    "time), with what gain (THROUGHPUT_RATIO). KEY is the cheapest, SHUFFLE the most balanced; good groupings "
    "come near to both.",
    # Balance, cost and gain of each run.
    [
        panels.gauges(
            "How uneven? STD_DEV",
            "Population standard deviation of the workers' shares of the load in the time range; 0 is perfect.",
            UNITS["percent"],
            flux.query(STD_DEV),
        ),
        panels.gauges(
            "How many workers does a key have? DIST_COST",
            "Workers that held a key, mean over the keys of all windows; 1 is the least.",
            UNITS["workers/key"],
            flux.query(DIST_COST),
        ),
        panels.gauges("How fast? THROUGHPUT_RATIO", THROUGHPUT_IS, UNITS["tuples/s"], flux.query(THROUGHPUT)),
    ],
    # Where the time of each run goes.
    [
        panels.gauges(
            "How slow is the slowest worker?",
            "Time at work of the slowest worker of each batch over that of the mean worker; 1 is ideal.",
            UNITS["ratio"],
            flux.query(STRAGGLING),
        ),
        panels.gauges(
            "How long does routing a tuple take?",
            "Nanoseconds that the grouping takes to route a tuple.",
            "ns",
            flux.query(_ROUTING),
        ),
        panels.bars(
            "stage",
            "Where does a batch's time go?",
            "Mean duration of each stage of the micro-batches; addBatch is the work.",
            UNITS["seconds"],
            flux.query(flux.by_stage(get_metric("stage", "duration"))),
            height=6,
            lying=True,
        ),
    ],
    # All numbers in one table.
    [
        panels.rows(
            "How do the runs compare?",
            "The numbers above, and the tuples in the windows of the time range.",
            flux.query(
                flux.summary(
                    {
                        "tuples": _TUPLES,
                        "std_dev": STD_DEV,
                        "straggling": STRAGGLING,
                        "dist_cost": DIST_COST,
                        "routing": _ROUTING,
                        "throughput": THROUGHPUT,
                    }
                )
            ),
            {
                "series": "run",
                "tuples": "tuples",
                "std_dev": "STD_DEV",
                "straggling": "slowest / mean worker",
                "dist_cost": "DIST_COST",
                "routing": "routing a tuple",
                "throughput": "THROUGHPUT_RATIO",
            },
            {
                "STD_DEV": UNITS["percent"],
                "slowest / mean worker": UNITS["ratio"],
                "DIST_COST": UNITS["workers/key"],
                "routing a tuple": "ns",
                "THROUGHPUT_RATIO": UNITS["tuples/s"],
            },
            height=8,
        ),
    ],
    # Balance and cost in the course of time.
    [
        panels.windows(
            "How uneven is the load?",
            "STD_DEV of each window: standard deviation of the workers' shares of its tuples.",
            *panels.over_time("window", "std_dev"),
        ),
        panels.windows(
            "How many workers does a key have?",
            "DIST_COST of each window: workers that held a key, mean over its keys.",
            *panels.over_time("window", "dist_cost"),
        ),
    ],
    # The busiest worker, and the state.
    [
        panels.windows(
            "How far above the mean is the busiest worker?",
            "Imbalance of each window: the largest load minus the mean load, in percent of the window's tuples.",
            "percentunit",
            flux.query(flux.over_time(get_metric("window", "imbalance_fraction"))),
        ),
        panels.lines(
            "How big is the state?",
            "Rows of open windows: one for each window, key and worker. Split keys have several.",
            *panels.over_time("query", "state_rows"),
            no_value="No open windows: a keyed operator has states",
        ),
    ],
    # What planning a batch costs.
    [
        panels.lines(
            "How many replicas does a batch's plan add?",
            "Replicas that keys and buckets got in each batch that was planned before it was routed (PLANNED). "
            "Few after the first batches: keys keep their workers.",
            *panels.over_time("planner", "added"),
            no_value="No batch was planned: only PLANNED does it",
        ),
        panels.lines(
            "How long do sources wait for a batch's plan?",
            "Longest time that a source waited for its quotas in each batch that was planned (PLANNED). "
            "A source that has counted waits for those that still count.",
            *panels.over_time("planner", "waited"),
            no_value="No batch was planned: only PLANNED does it",
        ),
    ],
)
