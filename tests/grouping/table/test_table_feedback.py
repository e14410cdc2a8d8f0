"""Router, monitors and controller together: what they tell each other, what they remember, and that it balances."""

from collections import Counter, deque

import numpy as np
import pytest

from tests.grouping.table.table_cases import TABLES, WORKERS, observed, tables
from unskew.grouping import create, encode_keys
from unskew.grouping.table.assignment import max_overload


def interval(number, n=20_000):
    """Zipf keys whose ranks move on by 40 every interval."""
    share = np.arange(1, 501) ** -0.85
    rank = np.random.default_rng(number).choice(500, n, p=share / share.sum())
    return encode_keys([f"k{(r + 40 * number) % 500}" for r in rank])


@tables
def test_it_balances(name):
    """Each interval starts from the plan of the interval before, and its own plan balances it."""
    router = create(name, WORKERS, theta_max=0.08)
    controller = router.controller()
    plans = 0
    for number in range(6):
        keys = interval(number)
        before = router.route(keys)
        plan = controller.plan(observed(router, keys, before))
        load = np.bincount(before, minlength=WORKERS).astype(float)
        if max_overload(load) <= 0.08:
            assert plan is None
            continue
        plans += 1
        router.adopt(plan)
        after = router.route(keys)
        planned = max_overload(np.bincount(after, minlength=WORKERS).astype(float))
        # READJ promises no more than to get better.
        assert planned <= 0.0801 or (name == "READJ" and planned < max_overload(load))
        moved = np.unique(keys.hashes[keys.codes[before != after]])
        assert np.isin(moved, plan.values["moved_keys"]).all()
        assert plan.values["moved"] == len(plan.values["moved_keys"])
    assert plans >= 3


@tables
def test_migration_is_accounted(name):
    """Sizes are tuples of the last w intervals, the share is of all of them, from and to are before and after."""
    router = create(name, WORKERS, theta_max=0.02, window=2)
    controller = router.controller()
    last = deque(maxlen=2)
    for number in range(4):
        keys = interval(number)
        last.append(Counter(keys.hashes[keys.codes].tolist()))
        plan = controller.plan(observed(router, keys, router.route(keys)))
        state = sum(last, Counter())
        known = encode_keys(sorted(keys.distinct.to_pylist()))
        before = dict(zip(known.hashes.tolist(), router.route(known).tolist(), strict=True))
        router.adopt(plan)
        after = dict(zip(known.hashes.tolist(), router.route(known).tolist(), strict=True))
        moves = {
            key: (start, end, size)
            for key, start, end, size in zip(
                *(plan.values[field].tolist() for field in ("moved_keys", "moved_from", "moved_to", "moved_sizes")),
                strict=True,
            )
        }
        assert plan.values["migration"] == sum(size for *_, size in moves.values())
        assert plan.values["migration_share"] == pytest.approx(plan.values["migration"] / state.total())
        for key, (start, end, size) in moves.items():
            assert size == state[key]
            assert start != end
            if key in before:
                assert (before[key], after[key]) == (start, end)
        assert all(before[key] == after[key] for key in before.keys() - moves.keys())


@tables
def test_restored_controller_plans_on(name):
    router = create(name, WORKERS, theta_max=0.02, window=3)
    controller, other = router.controller(), router.controller()
    for number in range(5):
        keys = interval(number)
        reports = observed(router, keys, router.route(keys))
        plan = controller.plan(reports)
        again = other.plan(dict(reversed(reports.items())))
        assert plan == again
        if plan is not None:
            router.adopt(plan)
        assert controller.save() == other.save()
        other = router.controller()
        other.load(controller.save())
    with pytest.raises(ValueError, match="controller"):
        create(name, WORKERS, theta_max=0.02, window=2).controller().load(controller.save())


@tables
def test_costs_count_where_they_are_measured(name):
    """All keys have as many tuples, some cost ten times as much: the costs are balanced, not the tuples."""
    keys = encode_keys([f"k{i}" for i in range(40)] * 25)
    costs = np.where(keys.codes < 4, 10.0, 1.0)
    router = create(name, 4, theta_max=0.1)
    before = router.route(keys)
    plan = router.controller().plan(observed(router, keys, before, costs))
    router.adopt(plan)
    after = max_overload(np.bincount(router.route(keys), costs, 4))
    assert after <= 0.1 or (name == "READJ" and after < max_overload(np.bincount(before, costs, 4)))
    assert plan.values["migration"] % 25 == 0


@tables
def test_a_key_too_heavy_stays(name):
    """The other keys leave its worker, then no plan helps any more, so none is made; nor is one without reports."""
    router = create(name, 3, theta_max=0.0)
    controller = router.controller()
    keys = encode_keys(["hot"] * 1000 + [f"k{i}" for i in range(30)] * 2)
    plans = 0
    while (plan := controller.plan(observed(router, keys, router.route(keys)))) is not None:
        plans += 1
        assert plans < 10
        router.adopt(plan)
    assert np.bincount(router.route(keys)).max() < 1030
    assert controller.plan({}) is None


def test_entries_of_forgotten_keys_go():
    router = create("MINMIG", WORKERS, theta_max=0.0, window=1)
    controller = router.controller()
    for number, prefix in enumerate("ab"):
        keys = encode_keys([f"{prefix}{k}" for k in np.random.default_rng(number).zipf(1.5, 3000) % 300])
        router.adopt(controller.plan(observed(router, keys, router.route(keys))))
        assert np.isin(router.table_keys, keys.hashes).all()


def test_degree_plans_nearly_as_well():
    keys = interval(0)
    for degree in (1, 4, 8):
        router = create("MIXED", WORKERS, theta_max=0.05, degree=degree)
        router.adopt(router.controller().plan(observed(router, keys, router.route(keys))))
        assert max_overload(np.bincount(router.route(keys)).astype(float)) <= 0.06


def test_without_a_plan_it_is_key():
    keys = interval(0)
    expected = create("KEY", WORKERS, seed=5).route(keys)
    for name in TABLES:
        assert (create(name, WORKERS, seed=5).route(keys) == expected).all()
