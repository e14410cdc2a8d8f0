"""What is counted: a worker's interval, the window of the last w intervals, and what a plan moves."""

from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping import create, encode
from unskew.grouping.keys import hashed
from unskew.grouping.state import pack
from unskew.grouping.table.migration import migrate
from unskew.grouping.table.monitor import KeyMonitor
from unskew.grouping.table.records import Records
from unskew.grouping.table.window import empty_window


def test_monitor_sums_and_restores():
    """In one piece, in many, or restored between: the same report."""
    keys = encode([f"k{k}" for k in np.random.default_rng(1).zipf(1.5, 3000) % 500])
    costs = np.random.default_rng(0).integers(1, 9, 3000).astype(float)
    expected_costs, expected_sizes = Counter(), Counter()
    for key, cost in zip(keys.hashes[keys.codes].tolist(), costs.tolist(), strict=True):
        expected_costs[key] += cost
        expected_sizes[key] += 1
    monitor = KeyMonitor()
    for start in range(0, 3000, 100):
        part = slice(start, start + 100)
        monitor.observe(encode(keys.distinct.take(keys.codes[part])), costs[part])
        if start == 1500:
            state = monitor.save()
            monitor = KeyMonitor()
            monitor.load(state)
    report = monitor.report()
    assert dict(zip(report["keys"].tolist(), report["costs"].tolist(), strict=True)) == expected_costs
    assert dict(zip(report["keys"].tolist(), report["sizes"].tolist(), strict=True)) == expected_sizes
    assert (np.diff(report["keys"].astype(object)) > 0).all()
    assert monitor.report() is None


def test_monitor_ignores_unused_dictionary_entries():
    keys = encode(["a", "b", "c"])
    monitor = KeyMonitor()
    monitor.observe(type(keys)(keys.codes[:1], keys.hashes, keys.distinct), None)
    assert monitor.report()["keys"].tolist() == [keys.hashes[0]]


@given(tuples=st.lists(st.integers(1, 9), min_size=1, max_size=40), most=st.integers(1, 50))
def test_a_report_names_the_dearest_keys_and_sums_up_the_rest(tuples, most):
    keys, whole, bounded = encode([k for k, n in enumerate(tuples) for _ in range(n)]), KeyMonitor(), KeyMonitor(most)
    costs = np.random.default_rng(len(tuples)).integers(1, 5, len(keys)).astype(float)
    for monitor in (whole, bounded):
        monitor.observe(keys, costs)
    whole, bounded = whole.report(), bounded.report()
    assert whole["rest"].tolist() == [0, 0]
    named = np.isin(whole["keys"], bounded["keys"])
    assert len(bounded["keys"]) == named.sum() == min(most, len(tuples))
    for field in ("keys", "costs", "sizes"):
        assert bounded[field].tolist() == whole[field][named].tolist()
    assert whole["costs"][~named].max(initial=0) <= bounded["costs"].min()
    assert bounded["rest"].tolist() == [whole["costs"][~named].sum(), whole["sizes"][~named].sum()]


@pytest.mark.parametrize("workers", [1, 10, 200])
def test_reports_are_bounded_whatever_the_keys(workers):
    """All workers' together take a megabyte at most, of 472,000 keys."""
    hashes = encode(np.arange(472_000)).hashes
    total = 0
    for worker in range(workers):
        monitor = create("MIXED", workers).monitor()
        monitor.observe(hashed(hashes[worker::workers]), None)
        total += len(pack("", monitor.report()))
    assert total <= 1_000_000


def test_window_is_the_last_w_intervals():
    rng = np.random.default_rng(0)
    window, past = empty_window(), deque(maxlen=3)
    for _ in range(7):
        reports, costs, sizes = [], Counter(), Counter()
        for _ in range(rng.integers(0, 4)):
            keys = np.unique(rng.integers(0, 20, 6)).astype(np.uint64)
            report = {"keys": keys, "costs": rng.random(len(keys)), "sizes": rng.integers(1, 5, len(keys)) * 1.0}
            reports.append(report)
            costs.update(dict(zip(keys.tolist(), report["costs"].tolist(), strict=True)))
            sizes.update(dict(zip(keys.tolist(), report["sizes"].tolist(), strict=True)))
        past.append(sizes)
        window = window.after(reports, 3)
        keys, cost, memory = window.totals()
        state = sum(past, Counter())
        assert keys.tolist() == sorted(state)
        assert memory.tolist() == [state[k] for k in sorted(state)]
        assert cost == pytest.approx([costs[k] for k in sorted(state)])


def test_migration_of_figure_4():
    """The plan of MINTABLE's side: keys of 4, 5, 2 and 1 move, 12 of 20; two entries."""
    keys = Records(
        np.array([7.0, 4, 5, 2, 1, 1]),
        np.array([7.0, 4, 5, 2, 1, 1]),
        np.array([0, 0, 0, 1, 1, 1], np.int32),
        np.array([0, 0, 1, 0, 1, 1], np.int32),
        np.ones(6, np.int64),
        2,
    )
    plan = migrate(np.arange(10, 16, dtype=np.uint64), keys, np.array([0, 1, 1, 0, 0, 1], np.int32))
    assert plan.table_keys.tolist() == [11, 14]
    assert plan.table_workers.tolist() == [1, 0]
    assert plan.moved_keys.tolist() == [11, 12, 13, 14]
    assert plan.moved_to.tolist() == [1, 1, 0, 0]
    assert plan.cost == 12
    assert plan.share == 12 / 20
