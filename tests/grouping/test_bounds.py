"""SHUFFLE, KEY and FULL_KNOWLEDGE, the bounds of balance and of replication, are what they say in one line each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from unskew.grouping import create

keys = st.lists(st.sampled_from([f"k{i}" for i in range(30)]), max_size=200)


@given(keys, st.integers(1, 40), st.integers(-5, 50), st.integers(0, 100))
def test_shuffle_is_round_robin(stream, workers, seed, source):
    router = create("SHUFFLE", workers, seed=seed).at_source(source)
    answer = router.route(stream).tolist()
    assert answer == [(seed + source + i) % workers for i in range(len(stream))]
    counts = np.bincount(answer, minlength=workers)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("name", ["SHUFFLE", "FULL_KNOWLEDGE"])
def test_keys_that_do_not_matter_are_not_looked_at(name):
    """Not encoded, not hashed: even keys that could not be are routed."""
    router = create(name, 3)
    assert router.route(np.full(6, 0.5), costs=1.0).tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(TypeError, match="double"):
        create("KEY", 3).route(np.full(6, 0.5))


@given(keys, st.integers(1, 40), st.integers(-5, 50), st.integers(0, 100))
def test_key_is_its_hash(stream, workers, seed, source):
    answer = create("KEY", workers, seed=seed).at_source(source).route(stream).tolist()
    assert answer == [plain.home(key, workers, seed) for key in stream]


def greedy(costs, workers):
    """Section III-A: assign the submitted task to the least loaded machine."""
    loads = [0.0] * workers
    answer = []
    for cost in costs:
        least = min(range(workers), key=lambda worker: loads[worker])
        loads[least] += cost
        answer.append(least)
    return answer


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5) | st.floats(0, 1e3), max_size=200), st.integers(1, 20))
def test_equals_the_paper(costs, workers):
    router = create("FULL_KNOWLEDGE", workers)
    assert router.route(["a"] * len(costs), costs=np.array(costs, float)).tolist() == greedy(costs, workers)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=200), st.integers(1, 20))
def test_theorem_4_2(costs, workers):
    """Makespan at most (2 - 1/k) times the optimum, of which max and mean load are lower bounds."""
    answer = create("FULL_KNOWLEDGE", workers).route(["a"] * len(costs), costs=costs)
    makespan = np.bincount(answer, weights=costs).max()
    assert makespan <= sum(costs) / workers + (1 - 1 / workers) * max(costs) + 1e-6
    assert makespan <= (2 - 1 / workers) * max(sum(costs) / workers, *costs, 0) + 1e-6
