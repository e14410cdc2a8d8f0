"""A worker's report of an interval, the window of the last w intervals, and the state that a plan moves.

And the plans that controllers make when workers name their heaviest keys alone.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.table.table_cases import TABLES, WORKERS, observed, tables
from unskew.grouping import create, encode_keys
from unskew.grouping.keys import keys_from_hashes
from unskew.grouping.state import pack_values
from unskew.grouping.table.assignment import max_overload
from unskew.grouping.table.reports import KeyMonitor


def test_monitor_sums_and_restores():
    """The report is the same whether tuples are observed in one piece, in many, or by a restored monitor."""
    keys = encode_keys([f"k{k}" for k in np.random.default_rng(1).zipf(1.5, 3000) % 500])
    costs = np.random.default_rng(0).integers(1, 9, 3000).astype(float)
    expected_costs, expected_sizes = Counter(), Counter()
    for key, cost in zip(keys.hashes[keys.codes].tolist(), costs.tolist(), strict=True):
        expected_costs[key] += cost
        expected_sizes[key] += 1
    monitor = KeyMonitor()
    for start in range(0, 3000, 100):
        part = slice(start, start + 100)
        monitor.observe(encode_keys(keys.distinct.take(keys.codes[part])), costs[part])
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
    keys = encode_keys(["a", "b", "c"])
    monitor = KeyMonitor()
    monitor.observe(type(keys)(keys.codes[:1], keys.hashes, keys.distinct), None)
    assert monitor.report()["keys"].tolist() == [keys.hashes[0]]


@given(tuples=st.lists(st.integers(1, 9), min_size=1, max_size=40), most=st.integers(1, 50))
def test_a_report_names_the_dearest_keys_and_sums_up_the_rest(tuples, most):
    keys = encode_keys([k for k, n in enumerate(tuples) for _ in range(n)])
    whole, bounded = KeyMonitor(), KeyMonitor(most)
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
    """All workers' reports together take a megabyte at most, of 472,000 keys."""
    hashes = encode_keys(np.arange(472_000)).hashes
    total = 0
    for worker in range(workers):
        monitor = create("MIXED", workers).monitor()
        monitor.observe(keys_from_hashes(hashes[worker::workers]), None)
        total += len(pack_values("", monitor.report()))
    assert total <= 1_000_000


REST = np.array([1000.0, 500.0])


@tables
def test_plans_from_bounded_reports_are_as_good(name):
    """2,000 keys, of which 50 a worker are named: the whole load is balanced all the same, and no more state moves."""
    share = np.arange(1, 2001) ** -0.85
    figures = []
    for report_keys in (None, 300):
        router = create(name, WORKERS, theta_max=0.08, report_keys=report_keys)
        controller, moved, plans, table = router.controller(), 0.0, 0, 0
        for number in range(8):
            ranks = np.random.default_rng(number).choice(2000, 100_000, p=share / share.sum())
            keys = encode_keys((ranks + 40 * number) % 2000)
            before = router.route(keys)
            reports = observed(router, keys, before)
            if report_keys:
                assert sum(len(report["keys"]) for report in reports.values()) <= report_keys
            plan = controller.plan(reports)
            loads = [np.bincount(before, minlength=WORKERS).astype(float)]
            if plan is None:
                assert max_overload(loads[0]) <= 0.0801
                continue
            router.adopt(plan)
            after = router.route(keys)
            loads.append(np.bincount(after, minlength=WORKERS).astype(float))
            # READJ promises no more than to get better.
            assert max_overload(loads[1]) <= 0.0801 or (
                name == "READJ" and max_overload(loads[1]) < max_overload(loads[0])
            )
            plans, moved, table = plans + 1, moved + (before != after).mean(), max(table, len(router.table_keys))
        figures.append((plans, moved, table))
    (plans, moved, table), (plans_bounded, moved_bounded, table_bounded) = figures
    assert plans >= 3
    assert plans_bounded <= plans + 1
    assert moved_bounded <= 1.25 * moved
    assert table_bounded <= table


@tables
def test_unnamed_load_counts_and_stays(name):
    """A worker is overloaded by keys that no report names: all its named keys leave."""
    router = create(name, 2, theta_max=0.0, **({"sigma": 0} if name == "READJ" else {}))
    keys = encode_keys(np.arange(64))
    here = np.flatnonzero(router.owners(keys) == 0)
    reports = {
        0: {"keys": np.sort(keys.hashes[here]), "costs": np.ones(len(here)), "sizes": np.ones(len(here)), "rest": REST}
    }
    plan = router.controller().plan(reports)
    router.adopt(plan)
    assert (router.owners(keys) == 1).all()
    assert plan.values["migration"] == len(here)
    assert plan.values["migration_share"] == len(here) / (len(here) + REST[1])


def test_entries_of_unnamed_keys_stay():
    """A key that has left an overloaded worker may be too light to be named by its new one; it's not forgotten."""
    router = create("MINMIG", WORKERS, theta_max=0.0, window=1, report_keys=WORKERS * 20)
    controller = router.controller()
    share = np.arange(1, 2001) ** -0.6
    loads, tables = [], [0]
    keys = encode_keys(np.random.default_rng(0).choice(2000, 100_000, p=share / share.sum()))
    while len(loads) < 30:
        before = router.route(keys)
        loads.append(max_overload(np.bincount(before, minlength=WORKERS).astype(float)))
        plan = controller.plan(observed(router, keys, before))
        if plan is None:
            break
        router.adopt(plan)
        tables.append(len(router.table_keys))
    assert tables == sorted(tables)
    assert len(loads) < 30
    assert loads[-1] < 0.02 < loads[0]


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("READJ", "MINTABLE")])  # see there
def test_a_hot_key_gets_room_among_keys_that_are_not_named(name):
    """Of its worker's 330 others 30 are named at a time, so it takes some plans; and the hot key doesn't wander."""
    keys = encode_keys(np.concatenate([np.zeros(10_000, int), np.random.default_rng(0).integers(1, 2000, 90_000)]))
    router = create(name, WORKERS, theta_max=0.08, report_keys=WORKERS * 30)
    controller, owners = router.controller(), set()
    for _ in range(15):
        before = router.route(keys)
        owners.add(int(before[0]))
        plan = controller.plan(observed(router, keys, before))
        if plan is None:
            break
        router.adopt(plan)
    assert max_overload(np.bincount(router.route(keys), minlength=WORKERS).astype(float)) <= 0.0801
    assert len(owners) <= 2
