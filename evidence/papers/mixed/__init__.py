"""The routing table paper (Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*) again."""

from collections.abc import Callable

from evidence.papers.mixed import live, sweeps
from evidence.papers.mixed.claims import claims
from evidence.papers.mixed.compact import figure_11
from evidence.papers.mixed.follow import Point
from evidence.papers.mixed.live import live_claims
from evidence.papers.mixed.setting import figure_4, figure_7, table_2
from evidence.papers.mixed.sweeps import figure_18, sweep_report
from evidence.papers.page import Remarks, Report, Sizing
from evidence.papers.stage import Stage

_SWEEPS = Remarks.of(
    "Mixed: sweeps",
    "Scaled: intervals (the paper's 50 × scale, 3 at least) and the largest key domain. Times are CPU times here.",
)
_BRUTE = f"MIXED_BF is left out above {sweeps.MOST_KEYS_BY_FORCE:,} keys."


def _sweep(title: str, name: str, run: Callable[[Sizing], list[Point]], *notes: str) -> Callable[[Sizing], Report]:
    return lambda settings: sweep_report(f"Mixed, {title}", name, run(settings), notes, _SWEEPS)


EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "figure-4": figure_4,
    "table-2": table_2,
    "figure-7": figure_7,
    "figure-8": _sweep("figure 8: workers", "workers", sweeps.over_workers),
    "figure-9": _sweep("figure 9: imbalance tolerance", "θmax", sweeps.over_theta_max),
    "figure-10": _sweep("figure 10: key domain", "keys", sweeps.over_keys, _BRUTE),
    "figure-11": figure_11,
    "figure-12": _sweep("figure 12: fluctuation", "f", sweeps.over_f),
    "figure-17": _sweep("figure 17: table bound", "Amax", sweeps.over_table_max),
    "figure-18": figure_18,
    "figure-19": _sweep("figure 19: window", "intervals", sweeps.over_window),
    "figures-20-21": _sweep("figures 20 and 21: β", "β", sweeps.over_beta),
    "claims": claims,
}

LIVE: dict[str, Callable[[Sizing, Stage], Report]] = {
    "figure-13": live.figure_13,
    "figure-14": live.figure_14,
    "figure-15": live.figure_15,
    "figure-16": live.figure_16,
    "live-claims": live_claims,
}
