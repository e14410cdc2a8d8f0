"""Whether Kafka's partitions are uneven, which no grouping can mend: it balances the workers, not the sources.

A *hot partition* gets messages at a rate above the mean of all partitions + 2 standard deviations, so that it stands
out from the others, and above 1.2 times the mean, for among many even ones some always stand out by chance. *Size skew*
is the largest rate ÷ the mean. Among fewer than six partitions none can stand out so far: there the size skew alone
tells of it.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.apps.metrics.query_progress import compute_lags, get_end_offsets
from unskew.grouping.measures import load_shares, straggler_ratio

_SPAN = 60.0  # s
_DEVIATIONS = 2.0
_LEAST = 1.2  # of the mean


def find_hot(loads: ArrayLike) -> NDArray[np.bool_]:
    """Which partitions have more than the mean + 2 population standard deviations, and 1.2 times the mean, bool[S].

    >>> find_hot([1, 1, 1, 1, 1, 1, 1, 9]).nonzero()[0].tolist()
    [7]
    """
    array = np.asarray(loads, np.float64)
    return array > max(array.mean() + _DEVIATIONS * array.std(), _LEAST * array.mean())


@dataclass(frozen=True)
class Arrivals:
    """What arrived in each partition of the topic, over about the last minute."""

    rates: dict[str, float]  #: Partition → messages that arrived per second.
    #: Partition → messages per second by which its lag grew. It is negative if the lag got smaller.
    velocities: dict[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """Partition → its share of what arrived, from 0 to 1. The shares are 0 if nothing did."""
        return dict(zip(self.rates, (load_shares(list(self.rates.values())) / 100).tolist(), strict=True))

    @property
    def skew(self) -> float:
        """The size skew: the largest rate ÷ the mean. It is 1 if all are even, or nothing arrived."""
        return straggler_ratio(list(self.rates.values()))

    @property
    def hot(self) -> list[str]:
        return [
            partition
            for partition, is_hot in zip(self.rates, find_hot(list(self.rates.values())), strict=True)
            if is_hot
        ]


class ArrivalMeter:
    """Measures arrivals from Spark's progress, batch by batch."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, int], dict[str, int]]] = deque()

    def add(self, progress: Mapping[str, Any]) -> Arrivals | None:
        """Take in Spark's progress of a batch.

        Returns
        -------
        Arrivals or None
            None: of the last minute there are no two batches for which Spark asked Kafka for the newest offsets.

        """
        ends = get_end_offsets(progress)
        if not ends:
            return None
        now = datetime.fromisoformat(progress["timestamp"]).timestamp()
        if self._seen and self._seen[-1][0] == now:  # the same batch once more
            self._seen.pop()
        self._seen.append((now, ends, compute_lags(progress)))
        # The oldest that is kept is the newest of those that are a minute old.
        while len(self._seen) > 2 and now - self._seen[1][0] >= _SPAN:
            self._seen.popleft()
        began, first, waited = self._seen[0]
        seconds = now - began
        # A topic that was made again, or a clock that was set back, begins anew.
        if seconds < 0 or any(end < first.get(partition, end) for partition, end in ends.items()):
            self._seen.clear()
            return None
        if seconds == 0:
            return None
        waiting = self._seen[-1][2]
        # A partition that is new had no messages before.
        rates = {partition: (end - first.get(partition, 0)) / seconds for partition, end in ends.items()}
        velocities = {partition: (lag - waited.get(partition, 0)) / seconds for partition, lag in waiting.items()}
        return Arrivals(rates, velocities)
