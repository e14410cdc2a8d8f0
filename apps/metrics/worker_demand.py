"""How many workers the arrivals need, by what the workers' time was used for in the last minute.

A message costs c seconds of work. If λ messages arrive a second, all workers together are busy λ·c of each second. The
fullest worker has a W-th of that, and what it has beyond the mean worker: the share e of all work. It must not be
busier than ``TARGET``, so the least W has λ·c·(1 / W + e) ≤ ``TARGET``.

The excess e stays if W changes, because more often than not it is that of one hot key. If it alone is too much work, no
number of workers helps, but another grouping may.
"""

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from unskew.apps.driver.batch_committer import BatchReport

#: The largest part of the time that the fullest worker should be busy. The rest is for batches' fixed costs and bursts.
TARGET = 0.7
_SPAN_MS = 60_000


def count_wanted_workers(rate: float, cost: float, excess: float) -> int | None:
    """The least W that holds a rate. None: no W does.

    Parameters
    ----------
    rate : float
        λ: messages that arrive per second.
    cost : float
        c: the work on a message (s).
    excess : float
        e: the fullest worker's share of all work, minus the mean worker's.

    Examples
    --------
    >>> count_wanted_workers(1000, 0.005, 0.0), count_wanted_workers(1000, 0.005, 0.05)
    (8, 12)
    >>> count_wanted_workers(1000, 0.005, 0.2)

    """
    work = rate * cost
    if not work:
        return 1
    left = TARGET / work - excess
    return max(1, math.ceil(1 / left - 1e-9)) if left > 0 else None


class WorkerDemand:
    """Measures the work of the batches of the last minute that had messages, or of the newest of them."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, NDArray[np.float64]]] = deque()

    def add(self, report: "BatchReport") -> None:
        batch = report.batch
        messages = sum(
            offset - batch.start.get(topic, {}).get(partition, 0)
            for topic, ends in batch.end.items()
            for partition, offset in ends.items()
        )
        if messages <= 0 or not report.busy.any():
            return
        if self._batches and len(self._batches[-1][2]) != len(report.busy):
            self._batches.clear()  # the run has got another number of workers
        self._batches.append((batch.time_ms, messages, report.busy))
        while batch.time_ms - self._batches[0][0] > _SPAN_MS:
            self._batches.popleft()

    def count_wanted(self, rate: float) -> int | None:
        """The least W for a rate of arrivals (messages/s). If no W holds it, the run's own. None: it isn't known."""
        if not self._batches:
            return None
        busy = np.sum([each for *_, each in self._batches], axis=0)
        excess = float(busy.max() - busy.mean()) / float(busy.sum())
        cost = float(busy.sum()) / sum(messages for _, messages, _ in self._batches)
        return count_wanted_workers(rate, cost, excess) or len(busy)
