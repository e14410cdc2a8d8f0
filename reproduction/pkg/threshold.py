"""The switch from balanced to unbalanced, near W = 2/p1."""

import numpy as np
from matplotlib.figure import Figure

from reproduction.page import Cell, Report, Sizing
from reproduction.pkg.datasets import LN1, LN2, TW, WP, share_of_first
from reproduction.pkg.routing import route
from unskew.apps.monitoring.colours import colour


def threshold(settings: Sizing) -> Report:
    """KEY's and PARTIAL_KEY's final imbalance around each dataset's W = 2/p1, beside the limits of theory."""
    rows: list[tuple[Cell, ...]] = []
    curves: dict[str, tuple[float, list[int], list[float], list[float]]] = {}
    for data in (WP, TW, LN1, LN2):
        keys = data.draw(settings)
        p1, m = share_of_first(keys), len(keys)
        limit = 2 / p1
        tried = sorted({max(2, round(limit * factor)) for factor in (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3)})
        partial = [route("PARTIAL_KEY", keys, w, sources=5, seed=settings.seed).final for w in tried]
        key = [route("KEY", keys, w, seed=settings.seed).final for w in tried]
        curves[data.symbol] = (limit, tried, partial, key)
        for w, of_partial, of_key in zip(tried, partial, key, strict=True):
            floor = max(0.0, p1 / 2 - 1 / w)
            rows.append(
                (
                    data.symbol, w, w * p1 / 2, f"{'un' if w > limit else ''}balanced", floor, of_partial,
                    max(0.0, p1 - 1 / w), of_key, _why(of_partial, floor, m, w, limit),
                )
            )  # fmt: skip
    columns = (
        "data", "W", "W·p1/2", "paper", "p1/2 − 1/W", "PARTIAL_KEY", "p1 − 1/W", "KEY", "why they differ",
    )  # fmt: skip
    notes = [
        "Paper: balanced or largely imbalanced; of the W tried the switch is around 50 for WP and 100 for TW, where W",
        "surpasses O(1/p1). With two choices the hottest key alone fills its workers at W = 2/p1: its floor is",
        "p1/2 − 1/W.",
        "a: the next hot keys share workers with the first. Theorem 5.1 promises balance up to W = 1/(5·p1) only.",
    ]
    return Report("PKG: the switch near W = 2/p1", columns, rows, notes, lambda figure: _draw(figure, curves))


def _why(ours: float, floor: float, m: int, workers: int, limit: float) -> str:
    if ours * m < 10:
        return "agree"
    if floor and ours < 1.1 * floor + 2e-3:
        return "agree: the floor"
    if workers <= limit:
        return "agree" if ours * m < 100 else "a"
    return "a"


def _draw(figure: Figure, curves: dict[str, tuple[float, list[int], list[float], list[float]]]) -> None:
    for axes, (symbol, (limit, tried, partial, key)) in zip(figure.subplots(2, 2).flat, curves.items(), strict=True):
        axes.plot(tried, np.maximum(partial, 1e-8), marker=".", color=colour("PARTIAL_KEY"), label="PARTIAL_KEY")
        axes.plot(tried, key, marker=".", color=colour("KEY"), label="KEY")
        axes.axvline(limit, color="#8c8c8c", linestyle=":", label="W = 2/p1")
        axes.set_yscale("log")
        axes.set_title(symbol, fontsize=10)
    figure.supylabel("imbalance / messages")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
