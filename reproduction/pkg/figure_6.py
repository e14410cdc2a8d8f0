"""Figure 6: local estimation balances as well as the oracle, by other decisions."""

import numpy as np
from matplotlib.figure import Figure

from reproduction.page import Cell, Report, Sizing
from reproduction.pkg.datasets import WP
from reproduction.pkg.routing import Spread, route
from unskew.grouping import encode, streams
from unskew.grouping.keys import Keys

MESSAGES = 10_000_000
K, WORKERS = 10_000, 5
EXPONENTS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1)
SOURCES = (5, 10, 50, 100)


def figure_6(settings: Sizing) -> Report:
    """Share of messages that the sources send elsewhere than the oracle, over z and S; and the overlap on WP."""
    m = settings.of(MESSAGES, least=200_000)
    rows: list[tuple[Cell, ...]] = []
    curves: dict[int, list[float]] = {s: [] for s in SOURCES}
    for z in EXPONENTS:
        keys = encode(streams.zipf(z, K).take(0, m, seed=settings.seed))
        oracle, local = _both(keys, WORKERS, settings.seed)
        shares = {s: 100 * float(np.mean(spread.assigned != oracle.assigned)) for s, spread in local.items()}
        for s, share in shares.items():
            curves[s].append(share)
        worst = max(spread.average for spread in local.values())
        rows.append((f"ZF, z = {z}", *shares.values(), oracle.average, worst, "falls with z", None))
    high, low = max(row[-1] for row in curves.values()), min(row[0] for row in curves.values())
    rows = [(*row[:-1], "agree" if high < low else "they don't fall") for row in rows]
    keys = WP.draw(settings)
    oracle, local = _both(keys, WORKERS, settings.seed)
    agree = {s: float(np.mean(spread.assigned == oracle.assigned)) for s, spread in local.items()}
    overlaps = [100 * share / (2 - share) for share in agree.values()]
    rows.append(
        (
            "WP-like, Jaccard overlap",
            *overlaps,
            oracle.average,
            max(s.average for s in local.values()),
            "47",
            "a",
        )
    )
    columns = (
        "stream",
        *(f"L{s}, %" for s in SOURCES),
        "imbalance G",
        "imbalance L, worst",
        "paper",
        "why they differ",
    )
    notes = [
        f"K = 10 k, W = 5, {m:,} messages: share of them that goes elsewhere than by the oracle, and balances as well.",
        "a: the paper's 47 % on WP is without its W and S. Jaccard overlap: a/(2 − a) when the share a goes alike.",
    ]
    return Report("PKG, Figure 6: disagreement with the oracle", columns, rows, notes, lambda f: _draw(f, curves))


def _both(keys: Keys, workers: int, seed: int) -> tuple[Spread, dict[int, Spread]]:
    oracle = route("PARTIAL_KEY", keys, workers, seed=seed, estimation="global")
    return oracle, {s: route("PARTIAL_KEY", keys, workers, sources=s, seed=seed) for s in SOURCES}


def _draw(figure: Figure, curves: dict[int, list[float]]) -> None:
    axes = figure.subplots()
    for (sources, values), shade in zip(curves.items(), ("#9ecae1", "#4292c6", "#0072b2", "#08306b"), strict=True):
        axes.plot(EXPONENTS, values, marker=".", color=shade, label=f"S = {sources}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("z")
    axes.set_ylabel("messages sent elsewhere than by the oracle, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
