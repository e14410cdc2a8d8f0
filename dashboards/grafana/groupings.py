"""Groupings: what each one's balance costs, side by side."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from unskew.apps.metrics.catalogue import metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.flux import DIST_COST, STD_DEV, STRAGGLING, THROUGHPUT, THROUGHPUT_IS, Flux
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS, Column

_NANO = 1e9

_ROUTING = flux.ratio(metric("batch", "routing"), metric("batch", "tuples"), _NANO)
_TUPLES = flux.over_range(metric("window", "tuples"), "sum")


def groupings() -> Dashboard:
    """Runs compared by one number each, and in the course of time."""
    return page(
        "unskew-groupings",
        "What does balance cost? — groupings side by side",
        "Each run by one number: how balanced (STD_DEV, slowest over mean worker), at what cost (DIST_COST, routing "
        "time), with what gain (THROUGHPUT_RATIO). KEY is the cheapest, SHUFFLE the most balanced; good groupings "
        "come near to both.",
        [
            panels.gauges(
                "How uneven? STD_DEV",
                "Population standard deviation of the workers' shares of the load in the time range; 0 is perfect.",
                UNITS["percent"],
                Flux(STD_DEV),
                8,
            ).decimals(2),
            panels.gauges(
                "How many workers does a key have? DIST_COST",
                "Workers that held a key, mean over the keys of all windows; 1 is the least.",
                UNITS["workers/key"],
                Flux(DIST_COST),
                8,
            ).decimals(2),
            panels.gauges(
                "How fast? THROUGHPUT_RATIO",
                THROUGHPUT_IS,
                UNITS["tuples/s"],
                Flux(THROUGHPUT),
                8,
            ),
            panels.gauges(
                "How slow is the slowest worker?",
                "Time at work of the slowest worker of each batch over that of the mean worker; 1 is ideal.",
                UNITS["ratio"],
                Flux(STRAGGLING),
                8,
            ).decimals(2),
            panels.gauges(
                "How long does routing a tuple take?",
                "Nanoseconds that the grouping takes to route a tuple.",
                "ns",
                Flux(_ROUTING),
                8,
            ),
            panels.bars(
                "Where does a batch's time go?",
                "Mean duration of each stage of the micro-batches; addBatch is the work.",
                UNITS["seconds"],
                Flux(flux.by_stage(metric("stage", "duration"))),
                8,
                "stage",
                6,
                lying=True,
            ),
            panels.rows(
                "How do the runs compare?",
                "The numbers above, and the tuples in the windows of the time range.",
                Flux(
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
                24,
                {
                    "series": Column("run"),
                    "tuples": Column("tuples", UNITS["tuples"]),
                    "std_dev": Column("STD_DEV", UNITS["percent"]),
                    "straggling": Column("slowest / mean worker", UNITS["ratio"]),
                    "dist_cost": Column("DIST_COST", UNITS["workers/key"]),
                    "routing": Column("routing a tuple", "ns"),
                    "throughput": Column("THROUGHPUT_RATIO", UNITS["tuples/s"]),
                },
                8,
            ),
            panels.windows(
                "How uneven is the load?",
                "STD_DEV of each window: standard deviation of the workers' shares of its tuples.",
                UNITS["percent"],
                Flux(flux.over_time(metric("window", "std_dev"))),
                12,
            ),
            panels.windows(
                "How many workers does a key have?",
                "DIST_COST of each window: workers that held a key, mean over its keys.",
                UNITS["workers/key"],
                Flux(flux.over_time(metric("window", "dist_cost"))),
                12,
            ),
            panels.windows(
                "How far above the mean is the busiest worker?",
                "Imbalance of each window: the largest load minus the mean load, in percent of the window's tuples.",
                "percentunit",
                Flux(flux.over_time(metric("window", "imbalance_fraction"))),
                12,
            ),
            panels.lines(
                "How big is the state?",
                "Rows of open windows: one for each window, key and worker. Split keys have several.",
                UNITS["records"],
                Flux(flux.over_time(metric("query", "state_rows"))),
                12,
            ).no_value("No open windows: a keyed work has states"),
            panels.lines(
                "How many replicas does a batch's plan add?",
                "Replicas that keys and buckets got in each batch that was planned before it was routed (PLANNED). "
                "Few after the first batches: keys keep their workers.",
                UNITS["records"],
                Flux(flux.over_time(metric("planner", "added"))),
                12,
            ).no_value("No batch was planned: only PLANNED does it"),
            panels.lines(
                "How long do sources wait for a batch's plan?",
                "Longest time that a source waited for its quotas in each batch that was planned (PLANNED). "
                "A source that has counted waits for those that still count.",
                UNITS["seconds"],
                Flux(flux.over_time(metric("planner", "waited"))),
                12,
            ).no_value("No batch was planned: only PLANNED does it"),
        ],
    )
