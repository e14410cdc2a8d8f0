"""What was tried against the stated guarantees: evidence/balance/attacks.md has the list, and what broke."""

from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.attacks import (
    HASHES,
    MANY,
    attacks,
    bound,
    bounded,
    chased,
    excess,
    planned,
    porc,
    share_bound,
    shares,
)
from tests.grouping.contract_feedback import World
from tests.grouping.quotas import goes_to
from tests.grouping.skewed import Stream
from unskew.grouping import create
from unskew.grouping.hashing import draw_candidates, hash_function
from unskew.grouping.keys import Keys
from unskew.grouping.planned import Planned
from unskew.grouping.planned.counts import BUCKETS
from unskew.grouping.state import unpack_values

N = 3000
#: S, ``window`` and ``slack`` of BOUNDED_LOAD.
TRIED = [(1, 1, 0.01), (1, 500, 0.07), (1, 500, 10), (1, 100_000, 0.07), (3, 1, 10), (3, 500, 0.07), (64, 500, 0.07)]
names = pytest.mark.parametrize("name", attacks(2, 1, 1))
any_workers = st.sampled_from([1, 2, 3, 7, 40, 1000])


@names
def test_bounded_load_keeps_its_bound(name):
    """For S sources that have unlike parts of the stream, each restored from its state halfway, and for any σ."""
    for workers, (sources, window, slack) in product([1, 2, 3, 100], TRIED):
        keys = attacks(workers, N, min(window, 1000))[name]
        assert bounded(keys, workers, sources, window, slack) <= 1 + 1e-9


def test_bounded_load_keeps_its_bound_for_one_that_sees_all_answers():
    for workers, (_, window, slack) in product([2, 10, 100], TRIED[:4]):
        keys = chased(create("BOUNDED_LOAD", workers, window=window, slack=slack), N)
        assert bounded(keys, workers, 1, window, slack) <= 1 + 1e-9


@settings(deadline=None, max_examples=30)
@given(
    st.data(),
    st.integers(1, 40),
    st.sampled_from([0.5, 2, 6, 250]),
    st.sampled_from([0.01, 0.07, 10]),
    st.sampled_from([1, 100, 3000, 100_000]),
    st.integers(0, 9),
)
def test_bounded_load_keeps_its_bound_for_any_speeds(data, workers, decades, slack, window, seed):
    """Also if one worker is 10^250 times as fast as another."""
    weights = 10.0 ** np.random.default_rng(seed).uniform(0, decades, workers)
    share = weights / weights.sum()
    keys = attacks(workers, N, min(window, 1000))[data.draw(st.sampled_from(sorted(attacks(2, 1, 1))))]
    chosen = create("BOUNDED_LOAD", workers, slack=slack, window=window, weights=weights.tolist()).route(keys)
    for worker in range(workers):
        assert excess(chosen == worker, (1 + slack) * share[worker]) <= share_bound(share, worker, slack, window)


@names
def test_a_key_leaves_its_home_only_if_that_is_ahead(name):
    """By 6 % of a window, or 6.5 of the worker's tuples. (With two sources, keys begin at their homes.)"""
    for workers, window in product([2, 10], [500, 20_000]):
        keys = attacks(workers, N, min(window, 1000))[name]
        chosen = create("BOUNDED_LOAD", workers, window=window, sources=2).route(keys)
        pace, split = workers / 1.07, set()
        ahead, limit = np.zeros(workers), max(0.06 * round(window / 2**0.5), 6.5 * pace)
        for key, home, worker in zip(keys.tolist(), create("KEY", workers).route(keys), chosen, strict=True):
            ahead = np.maximum(0, ahead - 1)
            if worker != home and key not in split:
                assert ahead[home] > limit - 1e-6
                split.add(key)
            ahead[worker] += pace


@names
def test_what_bounded_load_remembers_is_bounded(name):
    """At most 4·W + 1024 replicas besides the keys' first ones, and 8·W + 1024 keys."""
    for workers in (1, 3, 40):
        router = create("BOUNDED_LOAD", workers, window=100, slack=0.01)
        for begin in range(3):
            router.route(attacks(workers, N, 100)[name] + 10**7 * begin)
            state = unpack_values(router.identity, router.save())
            assert len(state["chains"]) <= 4 * workers + 1024
            assert router.internals()["remembered"] == len(state["key"]) <= 8 * workers + 1024


def test_a_key_may_leave_its_home_when_first_workers_are_chosen_again():
    """The docstring's second exception: 300 keys come and go, and 40,000 others that have come all along are new."""
    keys = 1000 + np.resize(np.random.default_rng(0).permutation(40_000), 200_000)
    router, home = create("BOUNDED_LOAD", 50), create("KEY", 50).route(keys)
    router.route(np.arange(300))
    chosen = router.route(keys)
    assert (chosen[:99_000] == home[:99_000]).all()
    assert 0 < len(np.unique(keys[chosen != home])) <= 4 * 50
    assert router.internals()["split"] == 0


@names
def test_planned_keeps_its_cap(name):
    """In batches of one tuple to thousands, however few sources have them, restored after each."""
    for workers, sources in product([1, 2, 3, 100, 1000], [1, 64]):
        assert planned(attacks(workers, N, 1000)[name], workers, sources, (1, 3, 50, 1100)) <= 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, 2, 37, 1500]), st.booleans()), min_size=1, max_size=4),
    any_workers,
    st.sampled_from([0, 0.05, 10]),
    st.sampled_from([0, 0.01, 1]),
    st.sampled_from([0, 1, 6, 200]),
    st.sampled_from([1, 5, 64]),
)
def test_planned_keeps_its_cap_for_any_speeds_and_hashes(batches, workers, slack, threshold, decades, sources):
    """Also of keys whose hashes are the numbers of buckets, and in batches of fewer tuples than workers."""
    rng = np.random.default_rng(workers)
    weights = 10.0 ** rng.uniform(0, decades, workers)
    planner = Planned(workers, slack=slack, threshold=threshold, weights=weights.tolist())
    for kind, n, crafted in batches:
        ids = drawn(kind, n, rng)
        parts = [ids[own] for own in shares(n, sources)]
        if crafted:
            some = np.arange(BUCKETS * workers + 3, dtype=np.uint64)
            parts = [Keys((own % len(some)).astype(np.int32), some, pa.nulls(len(some))) for own in parts]
        loads = np.bincount(np.concatenate(planner.route_together(parts)), minlength=workers)
        fair = weights / weights.sum() * n
        assert (loads <= np.maximum(np.ceil(fair - 1e-6), (1 + slack) * fair + 1e-6)).all()


def drawn(kind, n, rng):
    """Keys of a batch, int64[n]: one, all new, skewed, sorted, or few."""
    return [
        np.zeros(n, np.int64),
        rng.integers(10**6, 10**15) + np.arange(n),
        rng.zipf(1.2, n) % 500,
        np.sort(rng.integers(0, 50, n)),
        rng.integers(0, 200, n),
    ][kind]


def priced(kind, n, rng):
    """Costs of n tuples: alike, lognormal, of any size, some 0, all 0, or one as large as all others together."""
    return [
        np.ones(n),
        rng.lognormal(0, 3, n),
        10.0 ** rng.uniform(-200, 90, n),
        rng.integers(0, 2, n).astype(float),
        np.zeros(n),
        np.where(rng.random(n) < 0.01, 1e18, 1e-3),
    ][kind]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 5), st.sampled_from([1, 2, 37, 800]), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    any_workers,
    st.sampled_from([0, 0.05]),
    st.sampled_from([0, 0.01, 1]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([1, 2, 5, 16]),
    st.integers(0, 99),
)
def test_planned_by_cost_in_waves(batches, workers, slack, threshold, decades, sources, seed):
    """Each wave adds at most one tuple's cost for each key and bucket that it cuts at a worker."""
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(0, decades, workers)
    planner = Planned(workers, slack=slack, threshold=threshold, weights=weights.tolist(), balance="cost")
    for kind, price, n, alone in batches:
        keys, costs, own = drawn(kind, n, rng), priced(price, n, rng), shares(n, sources)
        loads, beyond, done = np.zeros(workers), np.zeros(workers), 0.0
        planner.begin()
        for wave in [[one] for one in own] if alone else [own]:
            counts = [planner.count(keys[one], costs[one]) for one in wave]
            quotas = planner.wave(counts)
            for one, quota in zip(wave, quotas, strict=True):
                loads += np.bincount(planner.follow(keys[one], quota, costs[one]), costs[one], workers)
            cut = [there for there in goes_to(planner, counts, quotas).values() if len(there) > 1]
            beyond += costs.max() * np.bincount([worker for there in cut for worker in there], minlength=workers)
            done += costs[np.concatenate(wave)].sum()
            fair = (1 + slack) * weights / weights.sum() * done
            assert (loads <= (1 + 1e-9) * (fair + beyond)).all()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 4),
    st.integers(0, 5),
    st.sampled_from([1, 2, 37, 800]),
    any_workers,
    st.sampled_from([0, 0.05, 1]),
    st.sampled_from([0, 0.01, 1]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(["tuples", "cost"]),
)
def test_few_replicas_in_a_first_batch_of_any_costs_and_speeds(
    kind, price, n, workers, slack, threshold, decades, balance
):
    rng = np.random.default_rng(n)
    weights = (10.0 ** rng.uniform(0, decades, workers)).tolist()
    planner = Planned(workers, slack=slack, threshold=threshold, weights=weights, balance=balance)
    keys = drawn(kind, n, rng)
    chosen = planner.route(keys, costs=priced(price, n, rng))
    assert len(np.unique(np.stack([keys, chosen]), axis=1).T) <= len(np.unique(keys)) + workers - 1


@names
def test_porc_keeps_its_bound(name):
    assert all(porc(attacks(workers, N, 1000)[name], workers) < 1 + 1e-12 for workers in (1, 2, 100))


@pytest.mark.parametrize("order", ["first", "last", "spread"])
@pytest.mark.parametrize("name", ["W_CHOICES", "D_CHOICES"])
def test_heavy_hitters_are_found_in_any_order(name, order):
    """A key of 1.5·θ among keys that come once. With less than θ of all tuples so far it has two workers."""
    workers, n = 20, 60_000
    for times, heavy in ((0.95, False), (1.5, True)):
        hot = int(times * 0.2 / workers * n)
        keys = {
            "first": np.where(np.arange(n) < hot, 0, np.arange(n)),
            "last": np.where(np.arange(n) >= n - hot, 0, 1 + np.arange(n)),
            "spread": np.where(np.isin(np.arange(n), np.linspace(0, n - 1, hot).astype(int)), 0, 1 + np.arange(n)),
        }[order]
        router = create(name, workers)
        chosen = router.route(keys)
        assert router.internals()["heavy"] == int(heavy)
        if not heavy and order != "first":
            assert len(np.unique(chosen[keys == 0])) <= 2


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 3))
def test_off_greedy_keeps_grahams_bound(counts, workers):
    """4/3 − 1/(3W) times the least possible without splitting keys, which trying all assignments finds."""
    keys = np.repeat(np.arange(len(counts)), counts)
    router = create("OFF_GREEDY", workers)
    router.fit(keys)
    greatest = np.bincount(router.route(keys), minlength=workers).max()
    best = min(np.bincount(assigned, counts, workers).max() for assigned in product(range(workers), repeat=len(counts)))
    assert greatest <= (4 / 3 - 1 / (3 * workers)) * best + 1e-9


def test_whoever_knows_the_hashes_beats_two_choices():
    """Theorem 5.1 is about random hash functions. Of 2,000 equal keys that share two workers, no other gets any."""
    pairs = np.sort(draw_candidates(HASHES, hash_function(0), 2, 10), axis=1)
    alike = MANY[(pairs == pairs[0]).all(axis=1)]
    keys = np.resize(alike, 20_000)
    assert len(alike) >= 5 * 10
    for name in ("PARTIAL_KEY", "D_CHOICES", "W_CHOICES"):
        assert len(np.unique(create(name, 10).route(keys))) == 2
    for name in ("BOUNDED_LOAD", "PLANNED", "PORC"):
        assert np.bincount(create(name, 10).route(keys), minlength=10).max() <= bound(20_000, 10, 0.07, 100_000)


def test_a_key_that_suddenly_is_hot_has_two_choices_until_d_is_found_again():
    """D_CHOICES: of p1·W = 15 workers it is on 2."""
    router = create("D_CHOICES", 1000)
    router.route(np.random.default_rng(0).integers(0, 10**6, 1_000_000))
    assert len(np.unique(router.route(np.full(15_000, -1)))) == 2
    assert len(np.unique(router.route(np.full(20_000, -1)))) >= 15


@pytest.mark.parametrize("name", ["LLFD", "MINTABLE", "MINMIG", "MIXED", "MIXED_BF", "READJ", "POSG"])
def test_plans_of_odd_costs_end(name):
    """Two sources adopt what the controller makes of an interval's costs; each tuple has a worker."""
    unlike = np.where(np.random.default_rng(0).random(900) < 0.01, 1e18, 1e-3)
    for workers, costs in product([1, 2, 40], [np.zeros(900), np.full(900, 1e-300), np.full(900, 1e90), unlike]):
        for attack in ("one key", "keys of one home", "ever hotter"):
            keys = attacks(workers, 900, 300)[attack]
            World(partial(create, name), workers).run(Stream(keys, np.arange(900), costs), 300)
