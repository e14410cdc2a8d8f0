"""The POSG paper (Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping*) again."""

from collections.abc import Callable

from reproduction.page import Report, Sizing
from reproduction.posg import figures, live
from reproduction.posg.start import start
from reproduction.posg.sweeps import default
from reproduction.posg.theorem import theorem_4_3
from reproduction.posg.time_series import time_series
from reproduction.stage import Stage

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "theorem-4.3": theorem_4_3,
    "default": default,
    "start": start,
    "figure-4": figures.figure_4,
    "figure-5": figures.figure_5,
    "figure-6": figures.figure_6,
    "figure-7": figures.figure_7,
    "figure-8": figures.figure_8,
    "figure-9": figures.figure_9,
    "items": figures.items,
    "tolerance": figures.tolerance,
    "window": figures.window,
    "figure-10": time_series,
}

LIVE: dict[str, Callable[[Sizing, Stage], Report]] = {
    "figure-11": live.figure_11,
    "figure-12": live.figure_12,
}
