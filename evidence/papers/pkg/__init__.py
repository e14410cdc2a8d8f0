"""The PKG paper (Nasir et al., *Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams*) again."""

from collections.abc import Callable

from evidence.papers.page import Report, Sizing
from evidence.papers.pkg.decision_tree import decision_tree
from evidence.papers.pkg.estimation import figure_4, figure_6, probing
from evidence.papers.pkg.heavy_hitters import heavy_hitters
from evidence.papers.pkg.skew import figure_7, figure_9
from evidence.papers.pkg.table_2 import table_2, threshold

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "table-2": table_2,
    "figure-4": figure_4,
    "threshold": threshold,
    "figure-6": figure_6,
    "probing": probing,
    "figure-7": figure_7,
    "figure-9": figure_9,
    "decision-tree": decision_tree,
    "heavy-hitters": heavy_hitters,
}
