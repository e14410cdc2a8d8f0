"""Statistics per key: workers' reports of an interval, and the controller's window of reports."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Monitor
from unskew.grouping.interface import Costs
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value
from unskew.grouping.table.assignment import sum_by_position

# Rows are summed by key when they exceed the keys by so many, so that a row is sorted O(1) times.
_UNSUMMED = 1 << 16


class KeyMonitor(Monitor):
    """Measures one worker's computation cost and new state per key in the interval (section 4, step 1).

    A key's cost c(k) is its tuples' cost, if measured, or their number. Its state s(k) of the interval is the number of
    its tuples, because an operator over a window keeps them or something of their size.

    A report names the ``most`` keys of the highest costs, and has only sums of the others. The paper's compact records
    wouldn't shorten it, because plans need the keys.

    Memory: 24 bytes for each distinct key of the interval, and during the interval up to twice that and 1.5 MiB,
    because the algorithms are defined on all keys.

    Parameters
    ----------
    most : int, optional
        The number of keys in a report, of 24 bytes each. None: all.

    """

    state_fields = ("keys", "costs", "sizes")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._clear()

    def observe(self, keys: Keys, costs: Costs) -> None:
        distinct = len(keys.hashes)
        sizes = np.bincount(keys.codes, minlength=distinct).astype(np.float64)
        spent = sizes if costs is None else sum_by_position(keys.codes, costs, distinct)
        # A dictionary may have keys without tuples.
        seen = np.flatnonzero(sizes)
        self._unsummed.append((keys.hashes[seen], spent[seen], sizes[seen]))
        self._rows += len(seen)
        if self._rows > len(self.keys) + _UNSUMMED:
            self._sum()

    def report(self) -> Mapping[str, Value] | None:
        """Report ``keys`` uint64[k], ascending, ``costs`` float64[k], ``sizes`` float64[k], and ``rest`` float64[2].

        ``rest`` has the total cost and size of the keys that aren't named.
        """
        self._sum()
        keys, costs, sizes = self.keys, self.costs, self.sizes
        self._clear()
        if self.most is not None and len(keys) > self.most:
            named = np.zeros(len(keys), np.bool_)
            named[np.argsort(-costs, kind="stable")[: self.most]] = True
            rest = np.array([costs[~named].sum(), sizes[~named].sum()])
            keys, costs, sizes = keys[named], costs[named], sizes[named]
        else:
            rest = np.zeros(2)
        return {"keys": keys, "costs": costs, "sizes": sizes, "rest": rest} if len(keys) else None

    def save(self) -> bytes:
        self._sum()
        return super().save()

    def load(self, data: bytes) -> None:
        self._clear()
        super().load(data)

    def _clear(self) -> None:
        self.keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.costs: NDArray[np.float64] = np.empty(0)
        self.sizes: NDArray[np.float64] = np.empty(0)
        self._unsummed: list[tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]] = []
        self._rows = 0

    def _sum(self) -> None:
        parts = [(self.keys, self.costs, self.sizes), *self._unsummed]
        self.keys, self.costs, self.sizes = totals_by_key(
            *(np.concatenate(column) for column in zip(*parts, strict=True))
        )
        self._unsummed, self._rows = [], 0

    def _identity(self) -> str:
        return "routing table monitor"


def totals_by_key(
    keys: NDArray[np.uint64], *values: NDArray[np.float64]
) -> tuple[NDArray[np.uint64], *tuple[NDArray[np.float64], ...]]:
    """The distinct keys, ascending, and their sum of each column."""
    distinct, at = np.unique(keys, return_inverse=True)
    return distinct, *(sum_by_position(at, column, len(distinct)) for column in values)


class ReportWindow(NamedTuple):
    """The controller's statistics (section 2.1): costs of the last interval, state sizes of the last w."""

    keys: NDArray[np.uint64]  #: uint64[n]: The keys of all intervals, oldest first, ascending in each.
    sizes: NDArray[np.float64]  #: float64[n]: s(k) of each of these keys in its interval.
    intervals: NDArray[np.int64]  #: int64[≤ w]: The number of rows of each interval.
    costs: NDArray[np.float64]  #: float64[rows of the last interval]: c(k) of each key of the last interval.

    def after(self, reports: Iterable[Mapping[str, Value]], length: int) -> "ReportWindow":
        """The window with the workers' reports of the next interval: at most ``length`` intervals."""
        reports = list(reports)
        keys = [np.empty(0, np.uint64), *(np.asarray(report["keys"], np.uint64) for report in reports)]
        costs, sizes = (
            [np.empty(0), *(np.asarray(report[name], np.float64) for report in reports)] for name in ("costs", "sizes")
        )
        keys, costs, sizes = totals_by_key(np.concatenate(keys), np.concatenate(costs), np.concatenate(sizes))
        intervals = np.append(self.intervals, len(keys))
        kept = intervals[-length:]
        rows = int(kept.sum())
        return ReportWindow(
            np.append(self.keys, keys)[len(self.keys) + len(keys) - rows :],
            np.append(self.sizes, sizes)[len(self.sizes) + len(sizes) - rows :],
            kept,
            costs,
        )

    def totals(self) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """Every key of the window, ascending, with c(k) of the last interval and S(k, w)."""
        costs = np.zeros(len(self.keys))
        costs[len(self.keys) - len(self.costs) :] = self.costs
        keys, cost, memory = totals_by_key(self.keys, costs, self.sizes)
        return keys, cost, memory


def empty_window() -> ReportWindow:
    """The window before the first interval."""
    return ReportWindow(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64), np.empty(0))
