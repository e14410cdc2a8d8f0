"""Partial counts: what a worker knows of each key, (window, key) → tuples, count, latest time."""

import numpy as np
import pyarrow as pa

# Rows gathered before they are merged: memory is bounded by the distinct keys, not by the tuples.
_MERGE_ROWS = 262_144
_SCHEMA = pa.schema([("key", pa.string()), ("tuples", pa.int64()), ("count", pa.int64())])
_PLACED = _SCHEMA.append(pa.field("window", pa.int64())).append(pa.field("ms", pa.int64()))


def count(batch: pa.RecordBatch, *, load: bool = True, results: bool = True) -> pa.Table:
    """One row a distinct key of the batch.

    ``tuples`` is how many tuples of the key there are (0 unless ``load``), ``count`` the sum of their ``count`` column,
    or their number where there is no such column (0 unless ``results``).
    """
    key = batch.column("key")
    if pa.types.is_dictionary(key.type) and len(key.dictionary) > len(key):
        key = key.dictionary_decode()  # a small part of a batch: most of the batch's keys aren't in it
    keys = key if pa.types.is_dictionary(key.type) else key.dictionary_encode()
    codes = keys.indices.to_numpy(zero_copy_only=False)
    number = np.bincount(codes, minlength=len(keys.dictionary))
    total = number
    if "count" in batch.schema.names:
        total = np.zeros(len(number), np.int64)
        # exact for any int64, which a weighted bincount is not
        np.add.at(total, codes, batch.column("count").to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    seen = np.flatnonzero(number)
    columns = [
        keys.dictionary.take(pa.array(seen)).cast(pa.string()),
        pa.array(number[seen] * load, pa.int64()),
        pa.array(total[seen] * results, pa.int64()),
    ]
    return pa.table(columns, schema=_SCHEMA)


class Partials:
    """Tables of ``count`` gathered and merged."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._limit = _MERGE_ROWS

    def add(self, counts: pa.Table, window: int = 0, latest_ms: int = 0) -> None:
        """Add counts of one window, the latest tuple of which has the time ``latest_ms``."""
        n = counts.num_rows
        self._tables.append(
            pa.table([*counts.columns, pa.array(np.full(n, window)), pa.array(np.full(n, latest_ms))], schema=_PLACED)
        )
        self._rows += n
        if self._rows > self._limit:
            merged = self.table()
            self._tables, self._rows = [merged], merged.num_rows
            self._limit = max(_MERGE_ROWS, 2 * self._rows)

    def table(self) -> pa.Table:
        """One row a (window, key): key, tuples, count, window, ms."""
        if not self._tables:
            return _PLACED.empty_table()
        grouped = pa.concat_tables(self._tables).group_by(["window", "key"])
        sums = grouped.aggregate([("tuples", "sum"), ("count", "sum"), ("ms", "max")])
        return sums.rename_columns(["window", "key", "tuples", "count", "ms"]).select(_PLACED.names)
