"""A bucket above the limit of one state: a key's rows together may be more, a single row may not."""

import numpy as np
import pyarrow as pa
import pytest

from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful import store
from unskew.apps.worker.stateful.store import KEY, BucketIndex, BucketStore, MemoryStore

SCHEMA = pa.schema([(KEY, pa.string()), ("text", pa.string())])


def keep(texts):
    index, n = BucketIndex.empty(1), len(texts)
    rows = pa.record_batch([pa.array([f"k{each}" for each in range(n)]), pa.array(texts)], schema=SCHEMA)
    BucketStore(MemoryStore(), 0, SCHEMA, None).keep(0, index, rows, np.zeros(n, np.int64), np.zeros(1, np.int64))
    return index


def test_many_small_rows_together_may_be_more(monkeypatch):
    monkeypatch.setattr(store, "LARGEST_STATE", 1 << 20)
    assert keep(["some text"] * 300_000).keys.tolist() == [300_000]


@pytest.mark.parametrize("at", [0, 17, 39])
def test_a_row_that_is_too_large_is_named(monkeypatch, at):
    monkeypatch.setattr(store, "LARGEST_STATE", 10_000)
    with pytest.raises(StateFault, match=f"the state of key 'k{at}' has 10,0"):
        keep(["x" * (10_001 if each == at else 500) for each in range(40)])
