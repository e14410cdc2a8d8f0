"""The POSG paper (Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping*) again."""

from collections.abc import Callable

from evidence.papers.page import Report, Sizing
from evidence.papers.posg import live, sweeps
from evidence.papers.posg.sketches import start, theorem_4_3
from evidence.papers.posg.sweeps import default
from evidence.papers.posg.time_series import time_series
from evidence.papers.stage import Stage

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "theorem-4.3": theorem_4_3,
    "default": default,
    "start": start,
    "figure-4": sweeps.figure_4,
    "figure-5": sweeps.figure_5,
    "figure-6": sweeps.figure_6,
    "figure-7": sweeps.figure_7,
    "figure-8": sweeps.figure_8,
    "figure-9": sweeps.figure_9,
    "items": sweeps.items,
    "tolerance": sweeps.tolerance,
    "window": sweeps.window,
    "figure-10": time_series,
}

LIVE: dict[str, Callable[[Sizing, Stage], Report]] = {
    "figure-11": live.figure_11,
    "figure-12": live.figure_12,
}
