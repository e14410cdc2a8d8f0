"""BOUNDED_LOAD: equal to a plain version, its proved bound on any stream, and calm when the stream changes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.attacks import bound, worst_excess
from tests.grouping.plain_bounded_load import PlainBoundedLoad
from tests.grouping.skewed import LIBRARY, replication
from unskew.grouping import add_sources, create
from unskew.grouping.streams import hot, uniform, zipf


def beyond_the_first(keys, chosen, workers):
    """How many replicas there are besides one a key."""
    return len(np.unique(keys * workers + chosen)) - len(np.unique(keys))


@settings(deadline=None, max_examples=40)
@given(
    LIBRARY,
    st.integers(1, 70),
    st.integers(0, 9),
    st.sampled_from([0.01, 0.07, 0.5]),
    st.integers(100, 3000),
    st.sampled_from([1, 4]),
    st.booleans(),
    st.none() | st.integers(1, 20),
)
def test_equals_the_plain_version(stream, workers, seed, slack, window, sources, weighted, most):
    """Tuple for tuple; a second stream follows, so that replicas are given up."""
    keys = np.concatenate([stream.take(0, 3000, seed), 10**6 + hot(0.5).take(0, 3000, seed)])
    options = {"seed": seed, "slack": slack, "window": window, "sources": sources, "most_workers": most}
    if weighted:
        options["weights"] = [1.0 + worker % 3 for worker in range(workers)]
    router = create("BOUNDED_LOAD", workers, **options)
    assert router.route(keys).tolist() == PlainBoundedLoad(workers, **options).route(keys)


def changing(n, parts, seed):
    """Costs of n tuples: in each part of the stream, lognormal with another mean."""
    costs = np.random.default_rng(seed).lognormal(0, 0.5, n)
    return costs * np.repeat(parts, -(-n // len(parts)))[:n]


@settings(deadline=None, max_examples=30)
@given(
    LIBRARY,
    st.integers(1, 60),
    st.lists(st.sampled_from([0, 0.01, 1, 100, 1e18]), min_size=1, max_size=5),
    st.integers(1, 6000),
    st.integers(0, 9),
    st.booleans(),
)
def test_equals_the_plain_version_where_costs_change(stream, workers, parts, window, seed, weighted):
    keys, costs = stream.take(0, 4000, seed), changing(4000, parts, seed)
    options = {"seed": seed, "window": window}
    if weighted:
        options["weights"] = [1.0 + worker % 3 for worker in range(workers)]
    router = create("BOUNDED_LOAD", workers, **options, balance="cost")
    routes = [router.route(keys[at : at + 700], costs=costs[at : at + 700]) for at in range(0, 4000, 700)]
    assert np.concatenate(routes).tolist() == PlainBoundedLoad(workers, **options).route(keys, costs)


@settings(deadline=None, max_examples=30)
@given(
    LIBRARY,
    st.integers(1, 60),
    st.lists(st.sampled_from([0.01, 1, 100]), min_size=1, max_size=5),
    st.integers(1, 6000),
    st.sampled_from([0.02, 0.07, 0.3]),
)
def test_no_stretch_gives_a_worker_more_cost_than_proved(stream, workers, parts, window, slack):
    """However costs change: ρ · (C + M), and what the limit has fallen by in the stretch."""
    keys, costs = stream.take(0, 3000, 1), changing(3000, parts, 1)
    plain = PlainBoundedLoad(workers, slack=slack, window=window)
    chosen, full = np.array(plain.route(keys, costs)), np.array(plain.full)
    fallen = np.concatenate([[0.0], np.cumsum(np.maximum(0, full[:-1] - full[1:]))])
    rho, tau = (1 + slack) / workers, costs.max() * workers / (1 + slack)
    greatest = max(full.max(), tau / slack) + tau
    for worker in range(workers):
        steps = (chosen == worker) * costs - rho * costs
        # What the limit falls by before a stretch's first tuple isn't the stretch's.
        after = np.cumsum(steps) - rho * np.append(fallen[1:], fallen[-1])
        before = np.cumsum(steps) - steps - rho * fallen
        assert (after - np.minimum.accumulate(before)).max() <= rho * greatest * (1 + 1e-9)


SKEWS = ["R30", "R80", "1.0", "1.4", "R0"]


@pytest.mark.parametrize("stream", [hot(0.3), hot(0.8), zipf(1.0, 10_000)], ids=SKEWS[:3])
def test_costs_that_fall_or_rise_a_hundredfold(stream):
    """Each window from the second one on is balanced, and keys aren't split for long that needn't be."""
    n = 100_000
    for workers, change, factor in product([10, 100], [500_000, 530_000], [0.01, 100]):
        keys = stream.take(0, change + 5 * n, 1)
        costs = np.where(np.arange(len(keys)) < change, 1, factor)
        chosen = create("BOUNDED_LOAD", workers, balance="cost").route(keys, costs=costs)
        windows = [slice(at, at + n) for at in range(change - n, change + 5 * n, n)]
        loads = [np.bincount(chosen[window], minlength=workers).max() for window in windows]
        assert max(loads[2:]) <= 1.2 * n / workers
        extra = [beyond_the_first(keys[window], chosen[window], workers) for window in windows]
        assert max(extra[2:]) - extra[0] <= workers // 2


@pytest.mark.parametrize("factor", [1e12, 1e18, 1e99])
@pytest.mark.parametrize("costly", [1, 200_000], ids=["one", "many"])
def test_costs_beside_which_later_ones_are_nothing(factor, costly):
    """Such as one tuple with 2^63 − 1 for a cost: as soon as it no longer counts, the others are balanced again."""
    n = 100_000
    keys = zipf(1.0, 1000).take(0, 6 * n, 1)
    costs = np.where(np.arange(6 * n) < costly, factor, 1.0)
    chosen = create("BOUNDED_LOAD", 10, balance="cost").route(keys, costs=costs)
    loads = [np.bincount(chosen[at : at + n], minlength=10).max() for at in range(3 * n, 6 * n, n)]
    busy = int(costly == 1)  # the worker of that tuple
    assert max(loads) <= 1.1 * n / (10 - busy)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(LIBRARY, st.integers(1, 4000)), min_size=1, max_size=5),
    st.integers(1, 60),
    st.sampled_from([0.02, 0.07, 0.3]),
    st.integers(1, 20_000),
    st.integers(0, 5),
)
def test_no_stretch_gives_a_worker_more_than_proved(parts, workers, slack, window, seed):
    """Whatever streams follow each other, and wherever the stretch begins and ends."""
    keys = np.concatenate([stream.take(0, n, seed) + 10**6 * i for i, (stream, n) in enumerate(parts)])
    chosen = create("BOUNDED_LOAD", workers, seed=seed, slack=slack, window=window).route(keys)
    assert worst_excess(chosen, workers, slack) <= bound(0, workers, slack, window) + 1e-6


@pytest.mark.parametrize("stream", [hot(0.3), hot(0.8), zipf(1.0, 10_000), zipf(1.4, 10_000), hot(0.0)], ids=SKEWS)
def test_nearly_no_replica_more_than_needed(stream):
    """At most 1.2 times what any assignment needs that keeps max/mean at 1.1, and it does keep it."""
    keys = stream.take(0, 600_000, 1)
    share = np.bincount(keys)[np.unique(keys)] / len(keys)
    for workers in (10, 50):
        chosen = create("BOUNDED_LOAD", workers).route(keys)
        assert replication(keys, chosen) <= 1.2 * np.maximum(1, np.ceil(share * workers / 1.1)).mean()
        loads = [np.bincount(chosen[at : at + 100_000], minlength=workers).max() for at in (300_000, 400_000, 500_000)]
        assert np.mean(loads) <= 1.1 * 100_000 / workers


def test_calm_when_the_stream_changes():
    """A key of 80 % appears, is replaced by another, goes: balanced at once, its replicas given up in two windows."""
    n = 400_000
    parts = [uniform(4096), hot(0.8, 4096), hot(0.8, 4096), uniform(4096)]
    router = create("BOUNDED_LOAD", 20)
    for number, stream in enumerate(parts):
        keys = (stream.take(number * n, (number + 1) * n) + 17 * number) % 4096
        chosen = router.route(keys)
        loads = [np.bincount(chosen[at : at + 100_000], minlength=20).max() for at in range(0, n, 100_000)]
        assert max(loads) <= bound(100_000, 20, 0.07, 100_000)
        assert np.mean(loads[2:]) <= 1.1 * 100_000 / 20
        assert replication(keys[-100_000:], chosen[-100_000:]) <= 1.02
        widest = max(router.internals()["workers"], default=1)
        assert widest >= 16 if number in (1, 2) else widest <= 3
        assert router.internals()["split"] <= 40


def test_a_key_whose_worker_keeps_up_is_on_one():
    """No key is split without need: with many small keys the routes are KEY's."""
    keys = uniform(1_000_000).take(0, 500_000)
    assert (create("BOUNDED_LOAD", 5, sources=2).route(keys) == create("KEY", 5).route(keys)).all()


def test_keys_that_come_in_runs():
    """evidence/balance/theory.md: the bound itself takes 11 workers a key, and a larger window takes fewer."""
    keys = np.repeat(np.random.default_rng(0).permutation(800), 1000)
    for window, fewest, most, busiest in ((100_000, 74.6, 74.8, 1.12), (1_000_000, 2.6, 2.7, 1.62)):
        chosen = create("BOUNDED_LOAD", 100, window=window).route(keys)
        assert fewest <= replication(keys, chosen) <= most
        assert np.ceil(1000 / bound(1000, 100, 0.07, window)) <= replication(keys, chosen)
        loads = [np.bincount(chosen[at : at + 100_000], minlength=100).max() for at in range(0, 800_000, 100_000)]
        assert max(loads) <= busiest * 1000
    assert np.ceil(1000 / bound(1000, 100, 0.07, 100_000)) == 11
    assert [np.ceil(1000 / bound(1000, 100, 0.07, window)) for window in (375_700, 375_900)] == [4, 3]


def at_several(keys, workers, sources, **options):
    """Route a stream that S sources share in turn, with routers that know nothing of each other."""
    chosen = np.empty(len(keys), np.int32)
    for source in range(sources):
        router = create("BOUNDED_LOAD", workers, sources=sources, **options)
        chosen[source::sources] = router.route(keys[source::sources])
    return chosen


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(LIBRARY, st.integers(1, 4000)), min_size=1, max_size=4),
    st.integers(1, 70),
    st.integers(1, 12),
    st.sampled_from([1, 3]),
    st.integers(1, 3000),
)
def test_no_key_has_more_workers_than_it_may(parts, workers, most, sources, window):
    """Ever, of all sources together; with the largest number, the routes are as without it."""
    keys = np.concatenate([stream.take(0, n, i) for i, (stream, n) in enumerate(parts)])
    chosen = at_several(keys, workers, sources, most_workers=most, window=window)
    pairs = np.unique(keys * workers + chosen)
    assert np.unique(pairs // workers, return_counts=True)[1].max() <= most
    free = at_several(keys, workers, sources, window=window)
    assert (at_several(keys, workers, sources, window=window, most_workers=max(most, workers)) == free).all()


def test_what_waits_is_shown():
    """What a key's workers got beyond what they can do, (1 + slack)/W of the tuples, and beyond 8 % of a window."""
    router, keys, allowed = create("BOUNDED_LOAD", 20, most_workers=2), hot(0.13, 4096).take(0, 600_000), 1.07 / 20
    chosen = router.route(keys)
    tenants = np.unique(chosen[keys == 0])
    loads = np.bincount(chosen, minlength=20)[tenants]
    assert router.internals()["capped"] >= 1
    assert router.internals()["excess"] == pytest.approx((loads - allowed * (600_000 + 8000)).sum(), rel=0.01)
    assert create("BOUNDED_LOAD", 20, most_workers=2).internals()["excess"] == 0
    assert "excess" not in create("BOUNDED_LOAD", 20).internals()


def test_a_scheme_with_a_use_for_the_number_of_sources_gets_it():
    assert add_sources("BOUNDED_LOAD", 4, {"window": 7}) == {"sources": 4, "window": 7}
    assert add_sources("BOUNDED_LOAD", 4, {"sources": 2}) == {"sources": 2}
    assert add_sources("KEY", 4, {}) == {}
