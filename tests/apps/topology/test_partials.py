from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker import worker
from unskew.apps.worker.worker import Partials, Worker, count_keys

rows = st.lists(st.tuples(st.sampled_from(["a", "b", "", "ü"]), st.integers(-(2**61), 2**61)), max_size=50)


@given(rows)
def test_count_is_exact_for_any_integer(pairs):
    batch = pa.record_batch(
        [pa.array([k for k, _ in pairs], pa.string()), pa.array([n for _, n in pairs], pa.int64())], ["key", "count"]
    )
    tuples, totals = Counter(k for k, _ in pairs), Counter()
    for key, n in pairs:
        totals[key] = (totals[key] + n + 2**63) % 2**64 - 2**63  # int64 arithmetic
    got = {r["key"]: (r["tuples"], r["count"]) for r in count_keys(batch).to_pylist()}
    assert got == {key: (tuples[key], totals[key]) for key in tuples}


def test_tuples_and_counts_can_come_from_different_batches():
    batch = pa.record_batch([pa.array(["a", "a"])], ["key"])
    result = pa.record_batch([pa.array(["b"]), pa.array([9])], ["key", "count"])
    both = Partials()
    both.add(count_keys(batch, results=False))
    both.add(count_keys(result, load=False))
    assert sorted((r["key"], r["tuples"], r["count"]) for r in both.table().to_pylist()) == [("a", 2, 0), ("b", 0, 9)]


def test_merging_now_and_then_changes_nothing(monkeypatch):
    monkeypatch.setattr(worker, "_MERGE_ROWS", 10)
    merged = Partials()
    rng = np.random.default_rng(0)
    truth: Counter = Counter()
    for window in (0, 1, 0, 1):
        keys = [f"k{i}" for i in rng.integers(0, 30, 100)]
        merged.add(count_keys(pa.record_batch([pa.array(keys)], ["key"])), window, 1000 * window + len(truth))
        truth.update((window, key) for key in keys)
    assert {(r["pane"], r["key"]): r["tuples"] for r in merged.table().to_pylist()} == truth


def test_the_latest_time_of_a_window_survives():
    merged = Partials()
    one = count_keys(pa.record_batch([pa.array(["a"])], ["key"]))
    for ms in (5, 9, 7):
        merged.add(one, 0, ms)
    assert merged.table().to_pylist() == [{"key": "a", "tuples": 3, "count": 3, "pane": 0, "ms": 9}]


def test_no_tuples_no_rows():
    assert Partials().table().num_rows == 0


def test_workers_that_share_a_task_keep_to_themselves():
    tuples = pa.record_batch([pa.array(["a", "b", "a", "c", "a", "b"])], ["key"])
    first = cut_packets(tuples, np.array([0, 4, 0, 4, 8, 8], np.int32), 9)
    second = cut_packets(tuples.slice(0, 2), np.array([4, 0], np.int32), 9)
    rows = pa.Table.from_batches(Worker()(iter([first, second]))).to_pylist()
    got = {(row["worker"], row["key"]): row["tuples"] for row in rows}
    assert got == {(0, "a"): 2, (0, "b"): 1, (4, "a"): 1, (4, "b"): 1, (4, "c"): 1, (8, "a"): 1, (8, "b"): 1}
