"""A join's worker by itself: what needs no batches, crashes or plans to be wrong."""

import numpy as np
import pyarrow as pa
import pytest

from unskew.apps.router.router import Routing
from unskew.apps.worker.joining import join_state
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.join_state import JoinState
from unskew.apps.worker.stateful.operator_output import read_rows
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.grouping.keys import hash_keys
from unskew.grouping.split_join.plan import LEFT, RIGHT, JoinTable

COLUMNS = pa.schema([("c0", pa.int64())])
DAY = 86_400_000_000


def make_config(within_us, where=None):
    names = (["id"], ["id"])
    return JoinConfig(pa.int64(), (COLUMNS, COLUMNS), names, within_us, within_us, Routing("KEY", 1, None), where)


def make_rows(config, keys, times):
    ids = np.arange(len(keys))
    return pa.record_batch([pa.array(keys, pa.int64()), pa.array(times, pa.int64()), ids], schema=config.row_schema(0))


def join(config, left, right):
    state = JoinState(config, MemoryStore(), 0)
    parcels = [*state.add(LEFT, make_rows(config, *left)), *state.add(RIGHT, make_rows(config, *right))]
    rows = [row for parcel in parcels for row in read_rows(parcel.blob).to_pylist()]
    return sorted((row["c1"], row["c2"]) for row in rows)


def test_a_long_bound_and_many_keys_of_a_batch_fit():
    n = 1_000
    keys, times = np.arange(n), np.full(n, 100 * 365 * DAY)
    within = 100 * 365 * DAY
    assert join(make_config(within), (keys, times - within), (keys, times)) == [(each, each) for each in range(n)]


@pytest.mark.parametrize("first", [1_700_000_000_000_000, -DAY, 0])
def test_a_batch_of_many_keys_fits_whenever_it_is(first):
    n = 20_000
    rows = np.arange(n), first + np.arange(n)
    assert join(make_config(2_000_000), rows, rows) == [(each, each) for each in range(n)]


def test_pairs_of_wide_rows_are_made_a_portion_at_a_time(monkeypatch):
    sizes = []

    def note_size(left, right):
        sizes.append(left.num_rows)
        return np.ones(len(right), np.bool_)

    monkeypatch.setattr(join_state, "_PORTION_BYTES", 1_000)
    config = make_config(DAY, note_size)
    rows = np.zeros(50, np.int64), np.arange(50)
    assert len(join(config, rows, rows)) == 2_500
    assert max(sizes) <= 1_000 // 24, "a row has 24 bytes, and its partner too"


class CountingStore(MemoryStore):
    """Counts what is read."""

    def get(self, key):
        self.read = getattr(self, "read", 0) + 1
        return super().get(key)


def test_a_place_that_cannot_be_given_up_reads_one_slice_to_know():
    config, store = make_config(DAY), CountingStore()
    state = JoinState(config, store, 0)
    slices = 8
    [*state.add(LEFT, make_rows(config, np.full(slices, 5), np.arange(slices) * config.slice_us))]
    key = hash_keys(pa.array([5], pa.int64()))
    table = JoinTable(
        key, np.array([LEFT], np.int8), np.array([0, 2]), np.array([1, 0], np.int32), np.array([1.0, 0.0]),
        np.array([0, 1]),
    )  # fmt: skip
    store.read = 0
    assert not len(state.find_empty(table, 0))
    assert store.read == 1
    state.leave(key)
    assert state.find_empty(table, 0).tolist() == key.tolist()
