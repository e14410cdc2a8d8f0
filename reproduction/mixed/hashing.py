"""Figure 7: how skewed the load is under hashing alone."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reproduction.mixed import sweeps
from reproduction.mixed.follow import Case
from reproduction.page import Report, Sizing
from unskew.grouping import create

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_7(settings: Sizing) -> Report:
    """The workers' loads in ascending order, by workers and by keys; averages over hash functions."""
    base, hashes = sweeps.base(settings), sweeps.intervals(settings)
    workers = {n: _loads(base.at(workers=n), hashes) for n in (5, 10, 20, 30, 40)}
    keys = {n: _loads(base.at(keys=n), hashes) for n in (5_000, 10_000, 100_000, 1_000_000)}
    forty = {n: _loads(base.at(workers=40, keys=n), hashes) for n in (100_000, 1_000_000)}
    points = [
        *((n, base.workload.keys, load) for n, load in workers.items()),
        *((base.workers, n, load) for n, load in keys.items()),
        *((40, n, load) for n, load in forty.items()),
    ]
    rows = [
        (
            w,
            k,
            100 * (load[-1] - 1),
            "2.5, K not said" if w == 40 else None,
            load[-1] / load[0],
            "a" if w == 40 else None,
        )
        for w, k, load in points
    ]

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, 2)
        for panel, what, series in zip(panels, ("workers", "keys"), (workers, keys), strict=True):
            for value, load in series.items():
                panel.plot(load, 100 * np.arange(1, len(load) + 1) / len(load), marker=".", label=f"{value:,} {what}")
            panel.set_xlabel("load / mean load")
            panel.set_ylabel("workers, %")
            panel.legend()

    return Report(
        "Mixed, figure 7: skewness under hashing",
        ("workers", "keys", "θ, %, ours", "paper: max / min load", "ours", "why they differ"),
        rows,
        [
            "a: with a K between our last two it is the paper's. Ours: one interval, averaged over hash functions. The",
            "paper: 50 intervals, between which keys swap loads, and consistent hashing.",
        ],
        draw,
    )


def _loads(case: Case, hashes: int) -> NDArray[np.float64]:
    """The load of the lightest to the heaviest worker, over the mean load: float64[W]."""
    total = np.zeros(case.workers)
    for seed in range(hashes):
        home = create("KEY", case.workers, seed=case.workload.seed + seed).route(np.arange(case.workload.keys))
        total += np.sort(np.bincount(home, next(case.workload.intervals(home, case.workers)), case.workers))
    return total / total.mean()
