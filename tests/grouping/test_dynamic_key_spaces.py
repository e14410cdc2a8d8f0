"""DYNAMIC_KEY's spaces: who is evicted and promoted when, over missed periods and long jumps in time."""

import numpy as np
import pytest

from tests.grouping.dynamic_streams import SHORT, both, hot_stream, pool_of
from tests.grouping.skewed import skewed
from unskew.grouping import create


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
    """A thousand years of periods in which no key is evicted."""
    router = create("DYNAMIC_KEY", 10, promotion_period=0.1, evict_after=10_000 * 365 * 86_400)
    router.route(["a"] * 100, times=0)
    router.route(["b"], times=1000 * 365 * 86_400_000)
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
