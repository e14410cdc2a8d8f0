"""The PKG paper (Nasir et al., *Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams*) again."""

from collections.abc import Callable

from reproduction.page import Report, Sizing
from reproduction.pkg.figure_4 import figure_4
from reproduction.pkg.figure_6 import figure_6
from reproduction.pkg.figure_7 import figure_7
from reproduction.pkg.figure_9 import figure_9
from reproduction.pkg.probing import probing
from reproduction.pkg.table_2 import table_2
from reproduction.pkg.threshold import threshold

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "table-2": table_2,
    "figure-4": figure_4,
    "threshold": threshold,
    "figure-6": figure_6,
    "probing": probing,
    "figure-7": figure_7,
    "figure-9": figure_9,
}
