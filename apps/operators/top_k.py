"""TOP_K: a key's most frequent items, with a bound on the error."""

import numpy as np
import pyarrow as pa

from unskew.apps.operators.interface import (
    MergeableOperator,
    Now,
    ResultsAndStates,
    Summary,
    concat_batches,
    make_results,
)
from unskew.apps.operators.list_columns import (
    build_lists,
    combine_column,
    count_entries,
    flatten_lists,
    rank_entries,
    reduce_entries,
    sort_entries,
    wrap_entries,
)
from unskew.grouping.arguments import check_integer
from unskew.grouping.keys import sum_by_key

_ITEMS = pa.list_(pa.struct([("item", pa.string()), ("count", pa.int64())]))


class TopK(Summary, MergeableOperator):
    """The k most frequent items of a key, from at most m counters.

    For each item of a key with n tuples, ``count`` ≤ true count ≤ ``count + error``, and ``error`` ≤ n/(m + 1), for any
    order, batches, workers and merges. So the state has every item with more than n/(m + 1) tuples. While a key has at
    most m items, all counts are exact. Beyond that, states depend on the order of merges, within these bounds.

    A tuple costs some 0.4 µs. In each batch with a tuple of a key, each of the key's counters costs as much.

    Parameters
    ----------
    item : str
        The column, which must be castable to a string. Null is an item too.
    k : int
        How many items are published, at least 1.
    counters : int
        m, at least k. 0: 10·k.
    when : str
        ``change`` (publish at each change) or ``end``.

    Raises
    ------
    ValueError
        A parameter is invalid.

    Notes
    -----
    The columns of a result are ``rank`` from 1, ``item``, ``count`` and ``error``. Items of equal counts are ordered by
    name. A rank that becomes empty is published with a null item.

    References
    ----------
    J. Misra, D. Gries, Finding Repeated Elements, 1982. P. Agarwal, G. Cormode, Z. Huang, J. Phillips, Z. Wei, K. Yi,
    Mergeable Summaries, PODS 2012, section 3: add the counters up, then subtract the (m + 1)th largest from all.

    Examples
    --------
    With one counter for three items, the result is the item of more than half of the tuples. Its true count is 3, which
    is ``count + error``:

    >>> slots = pa.array([0] * 5, pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5] * 5, "item": ["a", "a", "b", "a", "c"]})
    >>> work = TopK(k=1, counters=1)
    >>> states = work.merge(work.to_state(tuples), slots, keys=1)
    >>> work.result(states).to_pylist()
    [{'slot': 0, 'rank': 1, 'item': 'a', 'count': 2, 'error': 1}]

    """

    state = pa.schema([("total", pa.int64()), ("error", pa.int64()), ("items", _ITEMS)])
    results = pa.schema([("rank", pa.int32()), ("item", pa.string()), ("count", pa.int64()), ("error", pa.int64())])
    identity = ("rank",)

    def __init__(self, item: str = "item", k: int = 10, counters: int = 0, when: str = "change") -> None:
        super().__init__(when)
        self.k = check_integer("k", k, 1)
        self.counters = check_integer("counters", counters, self.k) if counters else 10 * self.k
        self.item = item
        self.columns = (item,)
        self.types = {item: pa.string()}

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """The count of one item for each tuple."""
        n = tuples.num_rows
        ones = pa.array(np.ones(n, np.int64))
        items = wrap_entries([self.column(tuples, self.item), ones], _ITEMS)
        return pa.RecordBatch.from_arrays([ones, pa.array(np.zeros(n, np.int64)), items], schema=self.state)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """Add up the counters. If there are more than m, subtract the (m + 1)th largest from all."""
        owners = slots.to_numpy()
        flat = sort_entries(
            reduce_entries(flatten_lists(states.column("items"), owners), "item", count="sum"), "-count", "item"
        )
        slot, count = combine_column(flat, "slot").to_numpy(), combine_column(flat, "count").to_numpy()
        surplus = np.zeros(keys, np.int64)
        first_out = rank_entries(slot) == self.counters
        surplus[slot[first_out]] = count[first_out]
        left = count - surplus[slot]
        flat = flat.set_column(flat.column_names.index("count"), "count", pa.array(left)).filter(pa.array(left > 0))
        total = sum_by_key(owners, states.column("total").to_numpy(), keys)
        error = sum_by_key(owners, states.column("error").to_numpy(), keys) + surplus
        return pa.RecordBatch.from_arrays(
            [pa.array(total), pa.array(error), build_lists(flat, keys, _ITEMS)], schema=self.state
        )

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Publish the items in order, and the ranks that have become empty."""
        if self.when == "end":
            return None, after
        had, has = (np.minimum(count_entries(states.column("items")), self.k) for states in (before, after))
        gone = np.maximum(had - has, 0)
        slot = np.repeat(np.arange(len(gone), dtype=np.int32), gone)
        rank = has[slot] + rank_entries(slot) + 1
        zero = pa.array(np.zeros(len(slot), np.int64))
        empty = make_results(self, pa.array(slot), pa.array(rank), pa.nulls(len(slot), pa.string()), zero, zero)
        return concat_batches([self.result(after), empty], empty.schema), after

    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """The k most frequent items of each key."""
        flat = flatten_lists(states.column("items"))
        flat = flat.filter(pa.array(rank_entries(combine_column(flat, "slot").to_numpy()) < self.k))
        slot = combine_column(flat, "slot")
        error = states.column("error").take(slot)
        rank = pa.array(rank_entries(slot.to_numpy()) + 1)
        return make_results(self, slot, rank, combine_column(flat, "item"), combine_column(flat, "count"), error)

    def equivalent(self, one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
        """Whether totals are equal, and the bounds on each item's true count overlap."""
        if one.column("total") != other.column("total"):
            return False
        bounds = [_list_bounds(states) for states in (one, other)]
        for slot, item in bounds[0].keys() | bounds[1].keys():
            (low, high), (other_low, other_high) = (
                each.get((slot, item), (0, states.column("error")[slot].as_py()))
                for each, states in zip(bounds, (one, other), strict=True)
            )
            if low > other_high or other_low > high:
                return False
        errors, totals = (
            np.concatenate([each.column(name).to_numpy() for each in (one, other)]) for name in ("error", "total")
        )
        return bool((errors * (self.counters + 1) <= totals).all())


def _list_bounds(states: pa.RecordBatch) -> dict[tuple[int, str | None], tuple[int, int]]:
    error = states.column("error").to_pylist()
    rows = flatten_lists(states.column("items")).to_pylist()
    return {(row["slot"], row["item"]): (row["count"], row["count"] + error[row["slot"]]) for row in rows}
