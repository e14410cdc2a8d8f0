"""Parcels hold all rows of every window, in their order, and none is large; and how large buckets may be."""

import numpy as np
import pyarrow as pa
import pytest

from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful import operator_output, store
from unskew.apps.worker.stateful.operator_output import (
    FRAGMENTS,
    RESULTS,
    choose_mergers,
    group_by_key,
    pack_rows,
    read_rows,
    split_by_window,
    spread_over_mergers,
)
from unskew.apps.worker.stateful.store import KEY, BucketIndex, BucketStore, MemoryStore

LARGEST = 4_000


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(operator_output, "LARGEST", LARGEST)
    monkeypatch.setattr(operator_output, "TOGETHER", 2 * LARGEST)


def states(first, count, size=10):
    keys = [f"key {i}" for i in range(first, first + count)]
    return pa.RecordBatch.from_pydict({KEY: keys, "text": [f"{key} ".ljust(size, "x") for key in keys]})


ROWS = [(0, states(0, 900)), (0, states(5, 0)), (60, states(0, 3)), (120, states(0, 5, 10_000)), (180, states(7, 40))]


def opened(made):
    return [
        (window, row)
        for parcel in made
        for window, rows in split_by_window(read_rows(parcel.blob))
        for row in rows.to_pylist()
    ]


def test_rows_come_in_pieces():
    made = list(pack_rows(RESULTS, 3, ROWS))
    assert opened(made) == [(window, row) for window, rows in ROWS for row in rows.to_pylist()]
    assert {(parcel.kind, parcel.merger) for parcel in made} == {(RESULTS, 3)}
    sizes = [read_rows(parcel.blob).nbytes for parcel in made]
    # but for rows that are larger, and what the windows' numbers add
    assert [size for size in sizes if size > 2 * LARGEST] == [size for size in sizes if size > 10_000]
    assert len([size for size in sizes if size > 10_000]) == 5
    assert list(pack_rows(RESULTS, 0, [(0, states(0, 0))])) == []
    (one,) = pack_rows(RESULTS, 0, [(0, states(0, 4)), (60, states(0, 4))])
    assert len(opened([one])) == 8


def test_fragments_come_in_pieces_each_to_its_merger():
    made = list(spread_over_mergers(ROWS, 4))
    assert all(parcel.kind == FRAGMENTS for parcel in made)
    for parcel in made:
        rows = read_rows(parcel.blob)
        assert set(choose_mergers(rows.column(KEY), 4).tolist()) == {parcel.merger}
        assert rows.nbytes <= 2 * LARGEST or rows.num_rows == 1
    together = [(window, row) for window, rows in ROWS for row in rows.to_pylist()]
    assert sorted(opened(made), key=repr) == sorted(together, key=repr)


def test_all_fragments_of_a_key_meet_in_one_piece():
    rows = [states(0, 900), states(300, 900), states(0, 5)]
    pieces = list(group_by_key(rows))
    assert len(pieces) > 3
    keys = [set(piece.column(KEY).to_pylist()) for piece in pieces]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 1200
    assert sum(piece.num_rows for piece in pieces) == 1805
    assert list(group_by_key([])) == []


SCHEMA = pa.schema([(KEY, pa.string()), ("text", pa.string())])


def keep(texts):
    """Keep rows in a bucket above the limit of one state."""
    index, n = BucketIndex.empty(1), len(texts)
    rows = pa.record_batch([pa.array([f"k{each}" for each in range(n)]), pa.array(texts)], schema=SCHEMA)
    BucketStore(MemoryStore(), 0, SCHEMA, None).keep(0, index, rows, np.zeros(n, np.int64), np.zeros(1, np.int64))
    return index


def test_a_key_s_rows_together_may_be_more_than_a_state(monkeypatch):
    monkeypatch.setattr(store, "LARGEST_STATE", 1 << 20)
    assert keep(["some text"] * 300_000).keys.tolist() == [300_000]


@pytest.mark.parametrize("at", [0, 17, 39])
def test_a_row_that_is_larger_than_a_state_is_named(monkeypatch, at):
    monkeypatch.setattr(store, "LARGEST_STATE", 10_000)
    with pytest.raises(StateFault, match=f"the state of key 'k{at}' has 10,0"):
        keep(["x" * (10_001 if each == at else 500) for each in range(40)])
