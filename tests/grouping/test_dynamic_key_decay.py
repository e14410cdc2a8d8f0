"""DYNAMIC_KEY_DECAY is DYNAMIC_KEY with decaying weights, and mends what cumulative shares do to a joining worker."""

import numpy as np
import pytest

from tests.grouping.plain_dynamic_key import SHORT as SHORTEST
from tests.grouping.plain_dynamic_key import PlainDynamicKey
from tests.grouping.skewed import skewed
from unskew.grouping import create
from unskew.grouping.streams import hot

SHORT = SHORTEST | {"distinct_keys": 20}


@pytest.mark.parametrize("half_life", [0.128, 8.192])  # powers of 2 in ms: the weights are then exact in both
@pytest.mark.parametrize("workers", [1, 3, 10, 50])
def test_equals_the_plain_version(workers, half_life):
    stream = skewed(6000, 200, 1.5, duration=30)
    fast = create("DYNAMIC_KEY_DECAY", workers, half_life=half_life, **SHORT)
    slow = PlainDynamicKey(workers, half_life=half_life, **SHORT)
    assert fast.route(stream.keys, times=stream.times).tolist() == slow.route(stream.keys, stream.times.tolist())
    assert fast.internals()["scale_ups"] == slow.scale_ups
    assert fast.internals()["scale_downs"] == slow.scale_downs


def deviations(name, seconds, rate=500, workers=10):
    """STD_DEV of the whole stream, and of each minute: population, in % of the tuples."""
    keys = hot(0.8, 197).take(0, rate * seconds)
    router = create(name, workers)
    routed = np.concatenate([router.route(keys[at * rate : (at + 1) * rate], times=1000 * at) for at in range(seconds)])

    def std_dev(part):
        return float((100 * np.bincount(part, minlength=workers) / len(part)).std())

    return std_dev(routed), [std_dev(minute) for minute in np.split(routed, seconds // 60)]


def test_decaying_shares_mend_it():
    """The trap: DYNAMIC_KEY's STD_DEV of the whole falls while each minute's stays as bad as with two workers."""
    whole, minutes = deviations("DYNAMIC_KEY", 420)
    assert whole < 6
    assert min(minutes[0], minutes[-1]) > 15
    _, minutes = deviations("DYNAMIC_KEY_DECAY", 420)
    assert minutes[0] > 15
    assert max(minutes[6:]) < 6
    assert (np.diff(minutes[:6]) < 0).all()


def test_weights_never_overflow():
    """A thousand half-lives between tuples, over and over: all stays finite, all but the last is forgotten."""
    router = create("DYNAMIC_KEY_DECAY", 3, half_life=0.001)
    for second in range(200):
        router.route(["a", "b"], times=1000 * second)
    assert np.isfinite(router.loads).all()
    assert router.internals()["old"][0]["frequency"] == 1
