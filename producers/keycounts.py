"""How often each key was sent: the summary's statistics, and the ground truth that tests hold results against."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class KeyCounts:
    """Exact counts of the keys of a stream, in tuples and in what the messages count (clicks, views).

    O(n) time; memory of the distinct keys.

    Attributes
    ----------
    total : int
        Tuples: keys, each time one occurs.

    Examples
    --------
    >>> counts = KeyCounts()
    >>> counts.add(pa.array(["tr", "de", "tr"]), np.array([5, 7, 1]))
    >>> counts.top(1), counts.total, counts.distinct
    ([('tr', 2)], 3, 2)
    >>> counts.sums()
    {'tr': 6, 'de': 7}

    """

    #: Rows of blocks' counts that may wait before they are merged.
    _pending_rows = 1 << 20

    def __init__(self) -> None:
        self.total = 0
        self._merged = pa.table(
            {"key": pa.array([], pa.string()), "tuples": pa.array([], pa.int64()), "count": pa.array([], pa.int64())}
        )
        self._pending: list[pa.Table] = []
        self._waiting = 0

    def add(self, keys: pa.Array, counts: NDArray[np.int64] | None = None) -> None:
        """Count these keys (strings, or a dictionary of them); ``counts`` is what each adds, 1 if None."""
        self.total += len(keys)
        coded = keys if isinstance(keys, pa.DictionaryArray) else keys.dictionary_encode()
        codes, distinct = coded.indices.to_numpy(), coded.dictionary
        tuples = np.bincount(codes, minlength=len(distinct))
        sums = tuples if counts is None else _sums(codes, counts, len(distinct))
        seen = tuples > 0  # a dictionary may hold more than is used
        table = pa.table({"key": distinct, "tuples": tuples, "count": sums}).filter(pa.array(seen))
        self._pending.append(table)
        self._waiting += len(table)
        if self._waiting > self._pending_rows:
            self._merge()

    @property
    def distinct(self) -> int:
        """How many keys there are."""
        return len(self._merge())

    def top(self, n: int) -> list[tuple[str, int]]:
        """The ``n`` keys of most tuples with these, most first; ties by the key."""
        rows = self._merge().sort_by([("tuples", "descending"), ("key", "ascending")]).slice(0, n)
        return _pairs(rows, "tuples")

    def tuples(self) -> dict[str, int]:
        """Every key's tuples."""
        return dict(_pairs(self._merge(), "tuples"))

    def sums(self) -> dict[str, int]:
        """Every key's summed counts: what the topology's aggregator must come to."""
        return dict(_pairs(self._merge(), "count"))

    def _merge(self) -> pa.Table:
        if self._pending:
            self._merged = _grouped(pa.concat_tables([self._merged, *self._pending]))
            self._pending, self._waiting = [], 0
        return self._merged


def _sums(codes: NDArray[np.int32], counts: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    sums = np.zeros(k, np.int64)
    np.add.at(sums, codes, counts)  # not bincount's weights: they are floating-point numbers
    return sums


def _grouped(table: pa.Table) -> pa.Table:
    grouped = table.group_by("key").aggregate([("tuples", "sum"), ("count", "sum")])
    return grouped.rename_columns({"tuples_sum": "tuples", "count_sum": "count"}).select(["key", "tuples", "count"])


def _pairs(table: pa.Table, column: str) -> list[tuple[str, int]]:
    return list(zip(table["key"].to_pylist(), table[column].to_pylist(), strict=True))
