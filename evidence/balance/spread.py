"""A picture of what groupings do with a hot key: `python -m evidence.balance.spread [FILE]`.

100,000 tuples, of which 80 % have one key and the others 199 keys, are routed to ten workers by one source.
"""

import sys
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import rc_context
from matplotlib.figure import Figure

from unskew.grouping import create

GROUPINGS = ("KEY", "PARTIAL_KEY", "D_CHOICES", "BOUNDED_LOAD", "PLANNED")
TUPLES, KEYS, HOT, WORKERS = 100_000, 200, 0.8, 10
# Orange and blue of Okabe and Ito's palette, which the colour-blind tell apart; a grey that shows on light and dark.
_HOT, _OTHERS, _TEXT = "#E69F00", "#56B4E9", "#808080"
_STYLE: Any = {f"{part}color": _TEXT for part in ("text.", "axes.edge", "axes.label", "xtick.", "ytick.")}


def draw(file: str = "docs/spread.png") -> None:
    """Draw each worker's share of the tuples, a panel a grouping."""
    rng = np.random.default_rng(0)
    codes = np.where(rng.random(TUPLES) < HOT, 0, rng.integers(1, KEYS, TUPLES))
    keys = pa.array([f"key {code}" for code in codes])
    figure = Figure(figsize=(10, 3), layout="constrained")
    for name, axes in zip(GROUPINGS, figure.subplots(1, len(GROUPINGS), sharey=True), strict=True):
        workers = create(name, workers=WORKERS).route(keys)
        hot, others = (np.bincount(workers[rows], minlength=WORKERS) for rows in (codes == 0, codes != 0))
        axes.bar(range(WORKERS), hot / TUPLES * 100, color=_HOT, label="the hot key")
        axes.bar(range(WORKERS), others / TUPLES * 100, bottom=hot / TUPLES * 100, color=_OTHERS, label="other keys")
        axes.axhline(100 / WORKERS, color=_TEXT, linestyle="--", linewidth=1)
        most = np.bincount(workers, minlength=WORKERS).max() / TUPLES * WORKERS
        holders = len(np.unique(codes * WORKERS + workers)) / KEYS
        axes.set_title(f"{name}\nmax/mean {most:.2f}\n{holders:.2f} workers a key", fontsize=9)
        axes.set_xticks([0, WORKERS - 1])
        axes.set_xlabel("worker")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("% of the tuples")
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(file, dpi=100, transparent=True)


if __name__ == "__main__":
    with rc_context(_STYLE):
        draw(*sys.argv[1:])
