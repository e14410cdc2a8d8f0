"""How often each key was sent: the summary's statistics, and the ground truth that tests hold results against."""

import pyarrow as pa


class KeyCounts:
    """Exact counts of the keys of a stream; O(n) time, memory of the distinct keys.

    Examples
    --------
    >>> counts = KeyCounts()
    >>> counts.add(pa.array(["tr", "de", "tr"]))
    >>> counts.top(1), counts.total, counts.distinct
    ([('tr', 2)], 3, 2)

    """

    #: Rows of blocks' counts that may wait before they are merged.
    _pending_rows = 1 << 20

    def __init__(self) -> None:
        self.total = 0
        self._merged = pa.table({"key": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
        self._pending: list[pa.Table] = []
        self._waiting = 0

    def add(self, keys: pa.Array) -> None:
        """Count these keys: strings, or a dictionary of them."""
        counted = keys.value_counts()
        distinct = counted.field("values")
        if pa.types.is_dictionary(distinct.type):
            distinct = distinct.dictionary_decode()
        self._pending.append(pa.table({"key": distinct, "count": counted.field("counts")}))
        self._waiting += len(distinct)
        self.total += len(keys)
        if self._waiting > self._pending_rows:
            self._merge()

    @property
    def distinct(self) -> int:
        """How many keys there are."""
        return len(self._merge())

    def top(self, n: int) -> list[tuple[str, int]]:
        """The ``n`` most frequent keys with their counts, most frequent first; ties by the key."""
        table = self._merge()
        rows = table.sort_by([("count", "descending"), ("key", "ascending")]).slice(0, n)
        return list(zip(rows["key"].to_pylist(), rows["count"].to_pylist(), strict=True))

    def to_dict(self) -> dict[str, int]:
        """Every key's count."""
        table = self._merge()
        return dict(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))

    def _merge(self) -> pa.Table:
        if self._pending:
            both = pa.concat_tables([self._merged, *self._pending])
            grouped = both.group_by("key").aggregate([("count", "sum")])
            self._merged = grouped.rename_columns({"count_sum": "count"}).select(["key", "count"])
            self._pending, self._waiting = [], 0
        return self._merged
