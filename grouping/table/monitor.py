"""What a worker tells of the keys it has executed."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Monitor
from unskew.grouping.interface import Costs
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value
from unskew.grouping.table.records import sum_at

# Rows that may wait, beside as many as there are keys, until they are summed by key: so a row is sorted O(1) times.
_UNSUMMED = 1 << 16


class KeyMonitor(Monitor):
    """One worker's computation cost and new state of each key in the interval (section 4, step 1 of the workflow).

    A key's cost c(k) is what its tuples cost where that is measured, else their number. Its state s(k) of the interval
    is the number of its tuples: an operator over a window keeps them, or something of their size.

    A report names ``most`` keys, those of the highest costs, and the others by their sums alone. (The paper's compact
    records are no way to shorten it: a plan with groups must be one of keys in the end, so their names must be sent.)

    Memory: 24 bytes for each distinct key of the interval, twice that and 1.5 MiB while it lasts: the algorithms are
    defined on all keys.

    Parameters
    ----------
    most : int, optional
        How many keys a report names, 24 bytes each. None: all.

    """

    state_fields = ("keys", "costs", "sizes")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._clear()

    def observe(self, keys: Keys, costs: Costs) -> None:
        distinct = len(keys.hashes)
        sizes = np.bincount(keys.codes, minlength=distinct).astype(np.float64)
        spent = sizes if costs is None else sum_at(keys.codes, costs, distinct)
        # A dictionary may name keys that no tuple has.
        seen = np.flatnonzero(sizes)
        self._unsummed.append((keys.hashes[seen], spent[seen], sizes[seen]))
        self._rows += len(seen)
        if self._rows > len(self.keys) + _UNSUMMED:
            self._sum()

    def report(self) -> Mapping[str, Value] | None:
        """``keys`` uint64[k] ascending, ``costs``, ``sizes`` float64[k], ``rest`` float64[2]: others' cost and size."""
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
        self.keys, self.costs, self.sizes = sum_by_key(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        self._unsummed, self._rows = [], 0

    def _identity(self) -> str:
        return "routing table monitor"


def sum_by_key(
    keys: NDArray[np.uint64], *values: NDArray[np.float64]
) -> tuple[NDArray[np.uint64], *tuple[NDArray[np.float64], ...]]:
    """The distinct keys in ascending order, and each column's sum for each of them."""
    distinct, at = np.unique(keys, return_inverse=True)
    return distinct, *(sum_at(at, column, len(distinct)) for column in values)
