"""The aggregator: the workers' partial counts of a closed window merged by key, and the records that tell of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.topology.messages import message_id, window_id
from unskew.producers.rendering import digits, joined

#: A key of a closed window: the window (ms), and what all workers together counted.
MERGED = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("key", pa.string()),
        ("tuples", pa.int64()),
        ("count", pa.int64()),
        ("workers", pa.int64()),
    ]
)
_SUMMED = ("tuples", "count", "workers")
# Of JSON, as Spark writes it: records of earlier versions were its.
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_TRANSLATION = str.maketrans(_ESCAPES)


class Merger:
    """Merges rows of (window, key, worker) to one a (window, key); only the key that may go on is kept in memory.

    The rows must come with those of one (window, key) together, as sorting by both brings them.
    """

    def __init__(self) -> None:
        self._open = MERGED.empty_table()  # the last key so far, or nothing

    def add(self, rows: pa.RecordBatch) -> pa.Table:
        """Take rows of start, end, key, tuples, count (ms); those of ``MERGED`` that are whole now."""
        one = pa.array(np.ones(rows.num_rows, np.int64))
        columns = [one if name == "workers" else rows.column(name).cast(kind) for name, kind in _types()]
        merged = _merge(pa.concat_tables([self._open, pa.table(columns, schema=MERGED)]))
        whole = max(0, merged.num_rows - 1)
        self._open = merged.slice(whole)
        return merged.slice(0, whole)

    def finish(self) -> pa.Table:
        """The last key."""
        last, self._open = self._open, MERGED.empty_table()
        return last


def _types() -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in MERGED)


def _merge(rows: pa.Table) -> pa.Table:
    """Sum neighbours of the same window and key."""
    if rows.num_rows == 0:
        return rows
    rows = rows.combine_chunks()
    first = np.concatenate([[0], np.flatnonzero(_differs(rows["start"]) | _differs(rows["key"])) + 1])
    sums = {name: pa.array(np.add.reduceat(rows[name].to_numpy(), first)) for name in _SUMMED}
    kept = rows.take(pa.array(first))
    return pa.table([sums.get(name, kept[name]) for name in MERGED.names], schema=MERGED)


def _differs(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each value but the first is another than the one before."""
    values = column.chunk(0)
    return pc.call_function("not_equal", [values[1:], values[:-1]]).to_numpy(zero_copy_only=False)


def records(merged: pa.Table) -> list[dict[str, Any]]:
    """The records of the aggregator topic, ``key`` and ``value`` (bytes), as the client's batch call wants them."""
    if merged.num_rows == 0:
        return []
    rows = merged.combine_chunks().to_batches()[0]
    starts, places = np.unique(rows["start"].to_numpy(), return_inverse=True)
    windows = pa.array([window_id(int(start)) for start in starts]).take(pa.array(places))
    names = joined(windows, "/", rows["key"])
    ids = pa.array([message_id(name) for name in names.to_pylist()])
    end, tuples, count, workers = (digits(rows[name].to_numpy()) for name in ("end", "tuples", "count", "workers"))
    key = _escaped(rows["key"])
    values = joined(
        *('{"key":"', key, '","messageId":"', ids, '","timestamp":', end),
        *(',"tags":{"key":"', key, '","window":"', windows),
        *('"},"fields":{"count":', count, ',"tuples":', tuples, ',"workers":', workers, "}}"),
    )
    pairs = zip(names.cast(pa.binary()).to_pylist(), values.cast(pa.binary()).to_pylist(), strict=True)
    return [{"key": name, "value": value} for name, value in pairs]


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Each text as it stands between the quotes of a JSON text."""
    odd = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(r'[\x00-\x1f"\\]'))
    if not pc.call_function("any", [odd]).as_py():
        return texts
    return pa.array([text.translate(_TRANSLATION) for text in texts.to_pylist()], pa.string())
