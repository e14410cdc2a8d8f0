"""The statistics of the last w intervals, by key."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.state import Value
from unskew.grouping.table.monitor import sum_by_key


class Window(NamedTuple):
    """What the controller remembers: costs of the last interval, state sizes of the last w (section 2.1).

    Attributes
    ----------
    keys : uint64[n], sizes : float64[n]
        s(k) of each key of each interval: ascending keys, interval after interval, the oldest first.
    intervals : int64[≤ w]
        How many of these rows belong to each interval.
    costs : float64[rows of the last interval]
        c(k) in the last interval.

    """

    keys: NDArray[np.uint64]
    sizes: NDArray[np.float64]
    intervals: NDArray[np.int64]
    costs: NDArray[np.float64]

    def after(self, reports: Iterable[Mapping[str, Value]], length: int) -> "Window":
        """The window one interval later, as the workers report that interval; at most ``length`` intervals."""
        told = list(reports)
        keys = [np.empty(0, np.uint64), *(np.asarray(report["keys"], np.uint64) for report in told)]
        costs, sizes = (
            [np.empty(0), *(np.asarray(report[name], np.float64) for report in told)] for name in ("costs", "sizes")
        )
        keys, costs, sizes = sum_by_key(np.concatenate(keys), np.concatenate(costs), np.concatenate(sizes))
        intervals = np.append(self.intervals, len(keys))
        kept = intervals[-length:]
        rows = int(kept.sum())
        return Window(
            np.append(self.keys, keys)[len(self.keys) + len(keys) - rows :],
            np.append(self.sizes, sizes)[len(self.sizes) + len(sizes) - rows :],
            kept,
            costs,
        )

    def totals(self) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """Every key of the window, ascending, with c(k) of the last interval and S(k, w)."""
        costs = np.zeros(len(self.keys))
        costs[len(self.keys) - len(self.costs) :] = self.costs
        keys, cost, memory = sum_by_key(self.keys, costs, self.sizes)
        return keys, cost, memory


def empty_window() -> Window:
    """Before the first interval."""
    return Window(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64), np.empty(0))
