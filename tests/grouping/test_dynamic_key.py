"""DYNAMIC_KEY equals the authors' README, tuple for tuple, and does what it says about pools and spaces.

Of the spaces: who is evicted and promoted when, over missed periods and long jumps in time.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from tests.grouping.plain_dynamic_key import SHORT, PlainDynamicKey, both, hot_stream, pool_of
from tests.grouping.skewed import skewed
from unskew.grouping import create


@pytest.mark.parametrize("workers", [1, 2, 3, 10, 50])
@pytest.mark.parametrize(
    "options", [{}, SHORT, {**SHORT, "distinct_keys": 10}, {**SHORT, "evict_after": 3, "seed": 4}], ids=str
)
@pytest.mark.parametrize("z", [0.8, 2.0])
def test_equals_the_plain_version(workers, options, z):
    stream = skewed(6000, 200, z, duration=60 if options else 600)
    fast, slow, got, expected = both(workers, stream.keys, stream.times, **options)
    assert got == expected
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


def test_warm_up_holds_pools_back():
    for warm_up, grows in ((1000, False), (1, True)):
        router = create("DYNAMIC_KEY", 10, **{**SHORT, "warm_up": warm_up})
        for time, keys in hot_stream(30):
            router.route(keys, times=time)
        assert (router.internals()["scale_ups"] > 0) == grows


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


def below_lower_threshold(low):
    """A router whose key's pool of 4 has so many workers with a share of 1 % and the rest with a lot more."""
    router = create("DYNAMIC_KEY", 10, **SHORT)
    router.route(["tr"], times=0)
    slot = int(np.flatnonzero(router.spaces.space)[0])
    router.spaces.pool[slot] = 4
    ring = [(plain.home("tr", 10) + step) % 10 for step in range(10)]
    router.loads[:] = 10
    router.loads[ring[:low]] = 1
    router.total[0] = router.loads.sum()
    router.route(["tr"], times=600)
    return int(router.spaces.pool[slot])


def test_two_workers_below_are_enough_to_shrink_and_one_is_not():
    assert [below_lower_threshold(low) for low in range(5)] == [4, 4, 3, 3, 3]


def test_keys_of_any_type_are_named():
    router = create("DYNAMIC_KEY", 4)
    for keys in ([b"tr", b"\xff"], [7], [None]):
        router.route(keys, times=0)
    router.route(["x"], times=60_000)
    assert {item["key"] for item in router.internals()["old"]} == {"tr", "\ufffd", "7", "null"}


def test_more_newcomers_than_room():
    """Twice the babies' room is let in between promotions; the rest still has its two workers."""
    router = create("DYNAMIC_KEY", 10, distinct_keys=10)
    keys = [f"k{i}" for i in range(1000)]
    workers = router.route(keys, times=0)
    assert router.internals()["sizes"]["baby"] == 10
    for key, worker in zip(keys, workers.tolist(), strict=True):
        assert (worker - plain.home(key, 10)) % 10 < 2


@pytest.mark.parametrize(
    ("option", "value", "valid"),
    [
        ("distinct_keys", 0, "an integer of at least 1"),
        ("distinct_keys", 1.5, "an integer of at least 1"),
        ("warm_up", -1, "a duration of at least 0 s"),
        ("check_interval", float("nan"), "a duration of at least 0 s"),
        ("promotion_period", 0, "a duration of at least 0.001 s"),
        ("promotion_period", "15 months", "a duration of at least 0.001 s"),
        ("periods_to_old", 0, "an integer of at least 1"),
        ("evict_after", float("inf"), "a duration of at least 0 s"),
    ],
)
def test_bad_parameters(option, value, valid):
    with pytest.raises(ValueError, match=f"{option} is {value!r}; valid: {valid}"):
        create("DYNAMIC_KEY", 10, **{option: value})


def test_evicted_keys_start_anew():
    router = create("DYNAMIC_KEY", 10, **SHORT)
    for time, keys in hot_stream(30):
        router.route(keys, times=time)
    assert pool_of(router, "tr") > 2
    router.route(["other"], times=30_000 + 3_700_000)
    assert router.internals()["old"] == []
    assert router.internals()["sizes"]["old"] == 0


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


def test_missed_periods_are_made_up_at_once():
    """A batch's one time may pass several periods: babies are old after 4 of them, however they pass."""
    jump = create("DYNAMIC_KEY", 10)
    jump.route(["a"] * 5, times=0)
    jump.route(["b"], times=60_000)
    assert jump.internals()["old"] == [{"key": "a", "frequency": 5, "pool": 2}]
    step = create("DYNAMIC_KEY", 10)
    step.route(["a"] * 5, times=0)
    for time in range(15_000, 60_001, 15_000):
        step.route([], times=time)
    step.route(["b"], times=60_000)
    assert step.internals() == jump.internals()


def test_a_far_jump_in_time_costs_nothing():
    """A thousand years of empty periods are skipped when the spaces are empty (the babies stay for one more hour)."""
    router = create("DYNAMIC_KEY", 10, promotion_period=0.1)
    router.route(["a"] * 100, times=0)
    router.route(["a"], times=1000 * 365 * 86_400_000)
    assert router.internals()["sizes"] == {"baby": 1, "teenage": 0, "old": 0}


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


def test_a_far_jump_with_keys_that_stay():
    """A hundred years of short periods in which no key is evicted."""
    router = create("DYNAMIC_KEY", 10, promotion_period=0.01, evict_after=100 * 365.25 * 86_400)
    router.route(["a"] * 100, times=0)
    router.route(["b"], times=99 * 365 * 86_400_000)
    assert router.internals()["old"] == [{"key": "a", "frequency": 100, "pool": 2}]


def test_the_clock_never_goes_back():
    router = create("DYNAMIC_KEY", 10)
    router.route(["a"], times=100_000)
    router.route(["a"], times=-5)
    router.route(["a"], times=114_999)
    assert router.internals()["sizes"]["baby"] == 1
    router.route(["a"], times=115_000)
    assert router.internals()["sizes"]["teenage"] == 1


def test_origin_is_the_first_time_seen():
    """The same stream, shifted in time, is routed alike."""
    stream = skewed()
    at_0 = create("DYNAMIC_KEY", 10).route(stream.keys, times=stream.times - stream.times[0])
    at_epoch = create("DYNAMIC_KEY", 10).route(stream.keys, times=stream.times + 1_750_000_000_000)
    assert (at_0 == at_epoch).all()
