"""The routing table paper (Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*) again."""

from collections.abc import Callable
from functools import partial

from evidence.papers.mixed import live
from evidence.papers.mixed.claims import claims
from evidence.papers.mixed.compact import figure_11
from evidence.papers.mixed.live import live_claims
from evidence.papers.mixed.setting import figure_4, figure_7, table_2
from evidence.papers.mixed.sweeps import figure_18, report_sweep
from evidence.papers.page import Report, Sizing
from evidence.papers.stage import Stage

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "figure-4": figure_4,
    "table-2": table_2,
    "figure-7": figure_7,
    "figure-8": partial(report_sweep, "figure-8"),
    "figure-9": partial(report_sweep, "figure-9"),
    "figure-10": partial(report_sweep, "figure-10"),
    "figure-11": figure_11,
    "figure-12": partial(report_sweep, "figure-12"),
    "figure-17": partial(report_sweep, "figure-17"),
    "figure-18": figure_18,
    "figure-19": partial(report_sweep, "figure-19"),
    "figures-20-21": partial(report_sweep, "figures-20-21"),
    "claims": claims,
}

LIVE: dict[str, Callable[[Sizing, Stage], Report]] = {
    "figure-13": live.figure_13,
    "figure-14": live.figure_14,
    "figure-15": live.figure_15,
    "figure-16": live.figure_16,
    "live-claims": live_claims,
}
