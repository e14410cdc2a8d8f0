"""DYNAMIC_KEY equals the authors' README, tuple for tuple, and does what it says about pools and spaces.

Of the spaces: who is evicted and promoted when, over missed periods and long jumps in time.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from tests.grouping.plain_dynamic_key import SHORT, PlainDynamicKey, both, hot_stream, pool_of
from tests.grouping.skewed import skewed
from unskew.grouping import create


@pytest.mark.parametrize(
    "options", [{}, SHORT, {**SHORT, "distinct_keys": 10}, {**SHORT, "evict_after": 3, "seed": 4}], ids=str
)
def test_equals_the_plain_version(options):
    for workers, z in product([1, 2, 3, 10, 50], [0.8, 2.0]):
        stream = skewed(6000, 200, z, duration=60 if options else 600)
        fast, slow, got, expected = both(workers, stream.keys, stream.times, **options)
        assert got == expected, (workers, z)
        internals = fast.internals()
        assert (internals["scale_ups"], internals["scale_downs"]) == (slow.scale_ups, slow.scale_downs)
        assert internals["sizes"] == {"baby": len(slow.baby), "teenage": len(slow.teenage), "old": len(slow.old)}
        shown = {(item["key"], item["frequency"], item["pool"]) for item in internals["old"]}
        assert shown == {(key.text, key.frequency, min(key.pool, workers)) for key in slow.old}


steps = st.lists(
    st.tuples(
        st.sampled_from([f"k{i}" for i in range(25)]), st.sampled_from([-500, 0, 0, 0, 1, 100, 400, 2000, 30_000])
    ),
    max_size=200,
)


@given(
    steps, st.integers(1, 12), st.sampled_from([5, 10, 20]), st.sampled_from([0, 1]), st.sampled_from([0.2, 3, 3600])
)
def test_equals_the_plain_version_on_any_stream(steps, workers, distinct_keys, warm_up, evict_after):
    keys = [key for key, _ in steps]
    times = np.cumsum([step for _, step in steps], dtype=np.int64)
    options = {**SHORT, "distinct_keys": distinct_keys, "warm_up": warm_up, "evict_after": evict_after}
    _, _, got, expected = both(workers, keys, times, **options)
    assert got == expected


@given(steps, st.integers(1, 12))
def test_a_pool_never_leaves_its_ring_slice(steps, workers):
    """Whatever happens, a key is on home … home + pool − 1, and the pool grows one by one."""
    router = create("DYNAMIC_KEY", workers, distinct_keys=20, **SHORT)
    largest = {}
    time = 0
    for key, step in steps:
        time += step
        worker = int(router.route([key], times=time)[0])
        pools = {item["key"]: item["pool"] for item in router.internals()["old"]}
        largest[key] = max(largest.get(key, 2), pools.get(key, 2))
        assert (worker - plain.home(key, workers)) % workers < largest[key] <= max(2, workers)


def test_two_workers_until_old_and_then_one_more_a_check_interval():
    """Defaults: promotion into old after 60 s, checks every 60 s, so at most one worker more a minute."""
    router = create("DYNAMIC_KEY", 10)
    pools = []
    for time, keys in hot_stream(600):
        router.route(keys, times=time)
        pools.append(pool_of(router, "tr"))
    assert set(pools[:60]) == {2}
    assert pools[-1] >= 6
    grown = np.flatnonzero(np.diff(pools)) + 1
    assert (np.diff(pools) <= 1).all()
    assert (np.diff(grown) >= 60).all()


def cooling():
    """One key is hot for 30 s and grows old with a large pool; then all but its own workers get tuples, for 400 s."""
    home = plain.home("tr", 10)
    away = [f"x{i}" for i in range(4000) if (plain.home(f"x{i}", 10) - home) % 10 in {7, 8}][:50]
    yield from hot_stream(30)
    for second in range(30, 430):
        yield 1000 * second, [*away, "tr"]


def test_scales_down_when_the_heat_is_over():
    """A pool shrinks when two of its workers are below the lower threshold: as the plain version, batch by batch."""
    fast, slow = create("DYNAMIC_KEY", 10, **SHORT), PlainDynamicKey(10, **SHORT)
    pools = []
    for time, keys in cooling():
        assert fast.route(keys, times=time).tolist() == slow.route(keys, [time] * len(keys))
        pools.append(pool_of(fast, "tr"))
    assert max(pools) > 4
    assert pools[-1] < max(pools)
    assert fast.internals()["scale_downs"] == slow.scale_downs > 0


def test_keys_of_any_type_are_named():
    router = create("DYNAMIC_KEY", 4)
    for keys in ([b"tr", b"\xff"], [7], [None]):
        router.route(keys, times=0)
    router.route(["x"], times=60_000)
    assert {item["key"] for item in router.internals()["old"]} == {"tr", "\ufffd", "7", "null"}


def test_evicted_after_so_long_and_not_before():
    for silence, left in ((3600, 1), (3636, 0)):
        router = create("DYNAMIC_KEY", 10, promotion_period=36, evict_after=3600)
        router.route(["a"], times=0)
        router.route(["b"], times=1000 * silence)
        assert router.internals()["sizes"]["old"] == left


def test_of_equals_the_one_in_the_higher_space_stays():
    """Room for one old key: one as frequent doesn't take its place, though it came first; a more frequent does."""
    router = create("DYNAMIC_KEY", 10, distinct_keys=10, **SHORT)
    router.route(["first"] * 3 + ["second"] * 5, times=0)
    for time, more, old in ((1000, 2, "second"), (2000, 0, "second"), (3000, 1, "second"), (4000, 0, "first")):
        router.route(["first"] * more + ["other"], times=time)
        assert router.internals()["old"][0]["key"] == old


@pytest.mark.parametrize("periods_to_old", [1, 2, 4])
def test_a_jump_is_its_periods_one_by_one(periods_to_old):
    """Periods in which nothing changes are skipped: what happens is the same, evictions one after the other too."""
    options = {**SHORT, "periods_to_old": periods_to_old, "distinct_keys": 20, "evict_after": 300}
    keys = ["a"] * 9 + ["b"] * 5 + [f"k{i}" for i in range(30)]
    for jump in (5, 299_000, 300_700, 301_300, 302_000, 400_000):
        times = [*np.sort(np.arange(len(keys)) * 70 % 3000), 3000 + jump, 3000 + jump + 700]
        fast, slow, got, expected = both(10, [*keys, "b", "a"], np.array(times), **options)
        assert got == expected
        assert fast.internals()["sizes"] == {"baby": len(slow.baby), "teenage": len(slow.teenage), "old": len(slow.old)}
        assert [item["key"] for item in fast.internals()["old"]] == [key.text for key in slow.old]


@pytest.mark.parametrize("name", ["DYNAMIC_KEY", "DYNAMIC_KEY_DECAY"])
def test_a_tuple_without_a_time_is_as_of_the_latest_one(name):
    """The library gives such a time as NaT, whose number is the least."""
    stream = skewed(6000, 200, 2.0, duration=60)
    without = np.random.default_rng(0).random(6000) < 0.1
    without[0] = False
    times = np.where(without, np.datetime64("NaT").astype(np.int64), stream.times)
    plain, other = (create(name, 10, **SHORT) for _ in range(2))
    latest = np.maximum.accumulate(times)
    assert plain.route(stream.keys, times=latest).tolist() == other.route(stream.keys, times=times).tolist()
    assert plain.internals() == other.internals()


def test_a_far_jump_in_time_costs_nothing():
    """A thousand years of periods, and a hundred in which no key is evicted. (The babies stay for one more hour.)"""
    router = create("DYNAMIC_KEY", 10, promotion_period=0.1)
    router.route(["a"] * 100, times=0)
    router.route(["a"], times=1000 * 365 * 86_400_000)
    assert router.internals()["sizes"] == {"baby": 1, "teenage": 0, "old": 0}
    router = create("DYNAMIC_KEY", 10, promotion_period=0.01, evict_after=100 * 365.25 * 86_400)
    router.route(["a"] * 100, times=0)
    router.route(["b"], times=99 * 365 * 86_400_000)
    assert router.internals()["old"] == [{"key": "a", "frequency": 100, "pool": 2}]


@pytest.mark.parametrize("times", ["noon", 2**70, float("nan")])
def test_times_that_are_no_integers_are_named(times):
    with pytest.raises(ValueError, match=r"times can't be taken as int64 .*; valid: a number or 2"):
        create("DYNAMIC_KEY", 4).route(["a", "b"], times=times)
