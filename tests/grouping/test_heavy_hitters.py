"""D_CHOICES and W_CHOICES equal their plain versions, don't take everything for heavy, and never give one choice."""

from itertools import product
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from tests.grouping.plain_frequent import plain_counters
from tests.grouping.skewed import skewed
from unskew.grouping import create
from unskew.grouping.choices.heavy_hitters import enough_choices, next_time
from unskew.grouping.measures import imbalance_fraction
from unskew.grouping.streams import hot, zipf

SCHEMES = ("D_CHOICES", "W_CHOICES")


def fewest_choices(head, workers, epsilon):
    """The least d ≥ p1·n for which the constraint holds for every prefix h of the head; n if there's none."""
    if not head:
        return min(2, workers)
    tail = max(0.0, 1 - sum(head))
    for d in range(max(2, ceil(head[0] * workers)), workers):
        for h in range(1, len(head) + 1):
            b = workers - workers * ((workers - 1) / workers) ** (h * d)
            load = sum(head[:h]) + (b / workers) ** d * sum(head[h:]) + (b / workers) ** 2 * tail
            if load > b * (1 / workers + epsilon):
                break
        else:
            return d
    return workers


def heavy(counted, expected):
    return counted >= expected + 3 * sqrt(expected) + 3


def by_weight(keys, workers, seed=0, threshold=0.2, tolerance=1e-4, all_workers=False):
    """The tail to the less loaded of two; the heavy hitters to the least loaded of d, or of all workers."""
    room = ceil(4 * workers / threshold)
    due = max(1000, 2 * workers)
    loads = [0] * workers
    choices = workers if all_workers else min(2, workers)
    _, counted, _ = plain_counters(keys, room)
    for n, key in enumerate(keys, 1):
        candidates = plain.draw(key, 2, workers, seed)
        if heavy(counted[n - 1], threshold / workers * n):
            more = [
                plain.below(plain.mix(plain.key_hash(key), plain.function(seed, j)), workers) for j in range(2, choices)
            ]
            candidates = range(workers) if choices == workers else [*candidates, *more]
        worker = min(candidates, key=lambda candidate: loads[candidate])
        loads[worker] += 1
        yield worker
        if not all_workers and n == due:
            due += min(max(1000, 2 * workers, n // 10), max(10_000, 20 * workers))
            counters, _, off = plain_counters(keys[:n], room)
            head = sorted(((c + off) / n for c in counters.values() if heavy(c, threshold / workers * n)), reverse=True)
            choices = fewest_choices(head, workers, tolerance)


@pytest.mark.parametrize("name", SCHEMES)
def test_equals_the_plain_version(name):
    some = [{}, {"threshold": 1}, {"threshold": 2, "seed": 7}]
    for options, workers, z in product(some, [1, 2, 10, 50], [0.5, 1.2, 2.5]):
        keys = skewed(4000, 300, z).keys
        expected = list(by_weight(keys, workers, **options, all_workers=name == "W_CHOICES"))
        assert create(name, workers, **options).route(keys).tolist() == expected, (options, workers, z)


heads = (
    st.lists(st.floats(0.001, 0.5), max_size=12)
    .map(lambda head: sorted(head, reverse=True))
    .filter(lambda head: sum(head) <= 1)
)


@given(heads, st.integers(1, 200), st.sampled_from([1e-4, 1e-2, 0.2]))
def test_enough_choices(head, workers, tolerance):
    found = enough_choices(np.array(head), workers, tolerance)
    assert found == fewest_choices(head, workers, tolerance)


def test_balances_what_two_choices_cannot():
    """A key with a fifth of all tuples: PARTIAL_KEY ends at p1/2 − 1/W (if that's above 0), these near 0."""
    stream = zipf(1.4, 100_000).take(0, 300_000)
    for workers in (10, 200):
        two, *loads = (
            np.bincount(create(name, workers).route(stream), minlength=workers) for name in ("PARTIAL_KEY", *SCHEMES)
        )
        assert imbalance_fraction(two) > 0.05
        assert all(imbalance_fraction(each) < 0.01 for each in loads)


@pytest.mark.parametrize("name", SCHEMES)
def test_tail_keys_stay_on_their_two(name):
    keys = hot(0.5, 2000).take(0, 50_000)
    answer = create(name, 20).route(keys)
    for key in range(1, 300):
        assert set(answer[keys == key].tolist()) <= set(plain.draw(key, 2, 20))


def test_equals_the_plain_version_on_a_longer_stream():
    """Long enough that d is found at ever longer intervals, and that the counters overflow."""
    keys = skewed(40_000, 3000, 0.9).keys
    assert create("D_CHOICES", 20).route(keys).tolist() == list(by_weight(keys, 20))


def test_when_choices_are_found_anew():
    """After a tenth more tuples, between 1000 (or 2·W) and 10,000 (or 20·W)."""
    assert [next_time(n, 10) - n for n in (0, 5000, 30_000, 10**9)] == [1000, 1000, 3000, 10_000]
    assert [next_time(n, 1000) - n for n in (0, 19_000, 100_000, 10**9)] == [2000, 2000, 10_000, 20_000]
