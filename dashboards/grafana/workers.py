"""Workers: who does how much."""

from unskew.apps.metrics.catalogue import get_metric
from unskew.dashboards.grafana import flux, panels
from unskew.dashboards.grafana.page import page
from unskew.dashboards.grafana.panels import UNITS

#: Each worker's load, time and keys.
WORKERS = page(
    "unskew-workers",
    "Which workers are busy?",
    "A line for each worker of each run, in its grouping's colour. Lines close together mean balance.",
    # Shares of the load.
    [
        panels.band(
            "Do the workers stay together?",
            "Each worker's share of each window's tuples. A worker far above the others has a hot key; "
            "the tooltip names the worker.",
            *panels.over_time("worker", "share", by=["worker"], variables=flux.WITH_WORKER),
            height=9,
        ),
        panels.bars(
            "worker",
            "What share of the load does each worker have?",
            "Each worker's tuples in percent of its run's, over the time range; 100 / W is ideal.",
            UNITS["percent"],
            flux.query(flux.share_by_worker(get_metric("worker", "tuples"), flux.WITH_WORKER)),
            height=9,
        ),
    ],
    # Time at work.
    [
        panels.band(
            "How long is each worker at work in a batch?",
            "Seconds at work in each batch. A batch waits for its slowest worker.",
            *panels.over_time("task", "busy", by=["worker"], variables=flux.WITH_WORKER),
            height=9,
        ),
        panels.bars(
            "worker",
            "How long was each worker at work?",
            "Seconds at work, all batches of the time range together.",
            UNITS["seconds"],
            flux.query(flux.by_worker(get_metric("task", "busy"))),
            height=9,
        ),
    ],
    # What workers keep and count.
    [
        panels.bars(
            "worker",
            "How many keys does each worker hold?",
            "Distinct keys of each worker in a window, mean over the windows: the state it has to keep.",
            UNITS["keys"],
            flux.query(flux.by_worker(get_metric("worker", "distinct_keys"), "mean")),
        ),
        panels.bars(
            "worker",
            "How much does each worker count?",
            "Sum of the counts of each worker's tuples; their number if they carry no counts.",
            UNITS["number"],
            flux.query(flux.by_worker(get_metric("worker", "counts"))),
        ),
    ],
    # Who got nothing, and what plans did about it.
    [
        panels.windows(
            "How many workers got nothing?",
            "Workers without a tuple in each window. Few keys leave some idle if the grouping splits no key.",
            *panels.over_time("window", "idle_workers"),
        ),
        panels.lines(
            "How many keys does a rebalance move?",
            "A point for each plan that moved keys; groupings without a controller have none.",
            *panels.over_time("rebalance", "keys"),
            no_value="No plan has moved keys",
        ),
        panels.lines(
            "How even is the load after a rebalance?",
            "Slowest over mean worker in the first batch routed by each plan that moved keys; 1 is ideal.",
            *panels.over_time("rebalance", "after"),
            no_value="No plan has moved keys",
        ),
    ],
    workers=True,
)
