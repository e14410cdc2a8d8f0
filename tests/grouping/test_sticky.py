"""POTC, ON_GREEDY and OFF_GREEDY equal their one-line definitions; a key stays where it is; memory has its bound."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from unskew.grouping import create
from unskew.grouping.measures import imbalance_fraction
from unskew.grouping.streams import hot

SCHEMES = ("POTC", "ON_GREEDY", "OFF_GREEDY")


def potc(keys, workers, choices, seed, max_keys):
    """Traditional PoTC: the least loaded candidate when the key first appears, and that one ever after."""
    loads, where = [0] * workers, {}
    for key in keys:
        candidates = plain.draw(key, choices, workers, seed)
        if key not in where and len(where) < max_keys:
            where[key] = min(candidates, key=lambda worker: loads[worker])
        worker = where.get(key, candidates[0])
        loads[worker] += 1
        yield worker


def on_greedy(keys, workers, seed, max_keys, where=None):
    """Picks the least loaded worker to handle a new key."""
    loads, where = [0] * workers, {} if where is None else where
    for key in keys:
        if key not in where and len(where) < max_keys:
            where[key] = loads.index(min(loads))
        worker = where.get(key, plain.home(key, workers, seed))
        loads[worker] += 1
        yield worker


def off_greedy(keys, foreseen, workers, seed, max_keys):
    """Sorts the keys by decreasing frequency and executes On-Greedy."""
    loads, where = [0] * workers, {}
    for key, frequency in Counter(foreseen).most_common(max_keys):
        where[key] = loads.index(min(loads))
        loads[where[key]] += frequency
    return on_greedy(keys, workers, seed, max_keys, where)


keys = st.lists(st.sampled_from([f"k{i}" for i in range(40)]), max_size=300)
limits = st.sampled_from([1, 5, 1_000_000])


@given(keys, st.integers(1, 30), st.integers(2, 9), st.integers(-3, 3), limits)
def test_potc(stream, workers, choices, seed, max_keys):
    router = create("POTC", workers, seed=seed, choices=choices, max_keys=max_keys)
    assert router.route(stream).tolist() == list(potc(stream, workers, choices, seed, max_keys))


@given(keys, st.integers(1, 30), st.integers(-3, 3), limits)
def test_on_greedy(stream, workers, seed, max_keys):
    router = create("ON_GREEDY", workers, seed=seed, max_keys=max_keys)
    assert router.route(stream).tolist() == list(on_greedy(stream, workers, seed, max_keys))


@given(keys, keys, st.integers(1, 30), st.integers(-3, 3), limits)
def test_off_greedy(foreseen, unforeseen, workers, seed, max_keys):
    stream = foreseen + unforeseen
    router = create("OFF_GREEDY", workers, seed=seed, max_keys=max_keys)
    router.fit(foreseen[:100])
    router.fit(foreseen[100:])
    assert router.route(stream).tolist() == list(off_greedy(stream, foreseen, workers, seed, max_keys))


@pytest.mark.parametrize("name", SCHEMES)
@given(keys, st.integers(1, 30))
def test_a_key_is_never_split(name, stream, workers):
    answer = create(name, workers).route(stream).tolist()
    assert len(set(zip(stream, answer, strict=True))) == len(set(stream))


@pytest.mark.parametrize("name", SCHEMES)
def test_memory_is_bounded_by_max_keys(name):
    router = create(name, 10, max_keys=500)
    sizes = []
    for batch in range(5):
        router.route([f"key-{batch}-{i}" for i in range(1000)])
        sizes.append(len(router.save()))
    assert router.internals() == {"remembered": 500}
    assert sizes[-1] <= sizes[0]


@given(st.floats(0.3, 1), st.integers(5, 50))
def test_no_splitting_no_balance_above_p1(p1, workers):
    """A scheme that doesn't split the first key has an imbalance of at least p1 − 1/W; Off-Greedy has just that."""
    stream = hot(p1, 2000).take(0, 50_000)
    router = create("OFF_GREEDY", workers)
    router.fit(stream)
    loads = np.bincount(router.route(stream), minlength=workers)
    first = np.bincount(stream).max() / len(stream)
    assert imbalance_fraction(loads) == pytest.approx(first - 1 / workers, abs=0.002)


def test_off_greedy_foresees_before_it_routes():
    router = create("OFF_GREEDY", 3)
    router.route(["a"])
    with pytest.raises(ValueError, match="OFF_GREEDY can't foresee more: it has begun to route"):
        router.fit(["a"])


def test_off_greedy_keeps_its_foresight_when_saved():
    first, second = create("OFF_GREEDY", 3), create("OFF_GREEDY", 3)
    first.fit(["a", "b", "b", "c"])
    second.load(first.save())
    assert second.route(["a", "b", "c"]).tolist() == first.route(["a", "b", "c"]).tolist() == [1, 0, 2]
