"""The PKG paper (Nasir et al., *Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams*) again."""

from collections.abc import Callable

from apps.reproduce.pkg.figure_4 import figure_4
from apps.reproduce.pkg.figure_6 import figure_6
from apps.reproduce.pkg.figure_7 import figure_7
from apps.reproduce.pkg.figure_9 import figure_9
from apps.reproduce.pkg.probing import probing
from apps.reproduce.pkg.table_2 import table_2
from apps.reproduce.pkg.threshold import threshold
from apps.reproduce.report import Report, Settings

EXPERIMENTS: dict[str, Callable[[Settings], Report]] = {
    "table-2": table_2,
    "figure-4": figure_4,
    "threshold": threshold,
    "figure-6": figure_6,
    "probing": probing,
    "figure-7": figure_7,
    "figure-9": figure_9,
}
