"""FULL_KNOWLEDGE against the greedy scheduler as the paper writes it, and its bound."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.skewed import skewed
from unskew.grouping import create


def plain(costs, workers):
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
    assert router.route(["a"] * len(costs), costs=np.array(costs, float)).tolist() == plain(costs, workers)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=200), st.integers(1, 20))
def test_theorem_4_2(costs, workers):
    """Makespan at most (2 - 1/k) times the optimum, of which max and mean load are lower bounds."""
    answer = create("FULL_KNOWLEDGE", workers).route(["a"] * len(costs), costs=costs)
    makespan = np.bincount(answer, weights=costs).max()
    assert makespan <= sum(costs) / workers + (1 - 1 / workers) * max(costs) + 1e-6
    assert makespan <= (2 - 1 / workers) * max(sum(costs) / workers, *costs, 0) + 1e-6


def test_equal_costs_are_round_robin():
    stream = skewed()
    equal = create("FULL_KNOWLEDGE", 7).route(stream.keys, costs=1.0)
    assert (equal == create("SHUFFLE", 7).route(stream.keys)).all()


def test_the_price_of_greed():
    """The worst case that the paper gives: a(a-1) short tuples, then a long one."""
    a = 4
    costs = [1.0] * (a * (a - 1)) + [float(a)]
    answer = create("FULL_KNOWLEDGE", a).route(["x"] * len(costs), costs=costs)
    assert np.bincount(answer, weights=costs).max() == (2 - 1 / a) * a
