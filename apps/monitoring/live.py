"""`--live`: the running topology in a terminal. Who is busy, how even it is, whether it keeps up, what is hot."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.monitoring.bars import worker_bars
from unskew.apps.monitoring.colours import colour
from unskew.apps.run.follow import lags, processed_rate
from unskew.apps.topology.observer import HotKey
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport
from unskew.grouping import measures

_BLOCKS = "▁▂▃▄▅▆▇█"
_HISTORY = 40  # batches
_BESIDE_WORKERS = 3  # lines: title, heading, caption
_ABOVE_KEYS = 9  # lines


class LiveView:
    """What is seen of a run now; fed with the batches' reports and Spark's progress.

    Bars show the latest batch with tuples, not the sum since the start: what a grouping does *now*.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loads = np.zeros(settings.workers, np.int64)
        self._busy = np.zeros(settings.workers)
        self._std_dev: deque[float] = deque(maxlen=_HISTORY)
        self._straggling: deque[float] = deque(maxlen=_HISTORY)
        self._rate: deque[float] = deque(maxlen=_HISTORY)
        self._lag: deque[float] = deque(maxlen=_HISTORY)
        self._hottest: Sequence[HotKey] = ()
        self._rebalances = 0
        self._newest: Rebalance | None = None

    def batch(self, report: BatchReport) -> None:
        """Take in a batch's report."""
        if report.loads.any():
            self._loads, self._busy = report.loads, report.busy
            self._std_dev.append(measures.std_dev(report.loads))
            self._straggling.append(measures.straggling(report.busy))
        for rebalance in report.rebalances:
            self._rebalances += 1
            self._newest = rebalance
        if report.windows:
            self._hottest = report.windows[-1][0].hottest

    def progress(self, progress: Mapping[str, Any]) -> None:
        """Take in Spark's progress of a batch."""
        self._rate.append(processed_rate(progress))
        if waiting := lags(progress):
            self._lag.append(sum(waiting.values()))

    def picture(self, height: int) -> RenderableType:
        """It all, for a terminal with so many lines left."""
        if not self._loads.any():
            return Text("nothing counted yet", style="dim")
        side = Table.grid(expand=True, padding=(0, 2))
        side.add_column(ratio=3)
        side.add_column(ratio=2, min_width=46)
        busy = [f"{seconds:.2f} s" for seconds in self._busy]
        shown = max(1, min(len(busy), height - _BESIDE_WORKERS))
        bars = worker_bars(self._loads, self._settings.grouping, [("busy", busy)], most=shown)
        moved = self._moved()
        keys = self._keys(max(1, height - _ABOVE_KEYS - len(moved)))
        side.add_row(bars, Group(self._lines(), *moved, "", keys))
        return side

    def _moved(self) -> list[RenderableType]:
        """What the newest rebalance did."""
        if self._newest is None:
            return []
        number = f"{self._rebalances} rebalance{'s' * (self._rebalances != 1)}"
        text = f"{number}, in batch {self._newest.batch} {self._newest}"
        return [Text(text, style=colour(self._settings.grouping), no_wrap=False)]

    def _lines(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, history, form in (
            ("STD_DEV (%)", self._std_dev, "{:.2f}"),
            ("slowest / mean worker", self._straggling, "{:.2f}"),
            ("messages/s", self._rate, "{:,.0f}"),
            ("lag (messages)", self._lag, "{:,.0f}"),
        ):
            if history:
                line = Text(sparkline(history), style=colour(self._settings.grouping))
                table.add_row(name, form.format(history[-1]), line)
        table.columns[1].justify = "right"
        return table

    def _keys(self, most: int) -> Table:
        table = Table(box=None, pad_edge=False, title="hottest keys", title_justify="left")
        table.add_column("key", no_wrap=True, max_width=24)
        table.add_column("tuples", justify="right")
        table.add_column("workers", justify="right")
        for hot in self._hottest[:most]:
            table.add_row(Text(hot.key), f"{hot.tuples:,}", str(hot.workers))
        return table


def sparkline(values: Sequence[float] | deque[float]) -> str:
    """Values as blocks from 0 to the largest.

    >>> sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    largest = max(values, default=0) or 1
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * max(0, value) / largest)] for value in values)
