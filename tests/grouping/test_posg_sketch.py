"""The pair of sketches: Count-Min's bound, the estimates' range, and the paper's numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping import encode, streams
from unskew.grouping.posg.sketch import cells, estimate, expected_estimate, frequency, shape, update


def sketched(keys, costs, seed, rows, columns):
    encoded = encode(keys)
    at = cells(encoded, seed, rows, columns)
    frequencies, works = np.zeros((1, rows, columns), np.int64), np.zeros((1, rows, columns))
    for code, cost in zip(encoded.codes, costs, strict=True):
        update(frequencies, works, 0, at, code, cost)
    return encoded, at, frequencies, works


@given(
    z=st.floats(0, 2),
    k=st.integers(1, 2000),
    epsilon=st.floats(0.01, 1),
    delta=st.floats(0.01, 0.5),
    seed=st.integers(0, 2**31),
)
def test_count_min_bound(z, k, epsilon, delta, seed):
    """Estimate ≥ f, always; estimate - f ≥ ε(m - f) for a key with probability at most δ."""
    m = 1000
    keys = streams.zipf(z, k).take(0, m, seed=seed)
    rows, columns = shape(epsilon, delta)
    encoded, at, frequencies, _ = sketched(keys, np.ones(m), seed, rows, columns)
    true = np.bincount(encoded.codes)
    estimated = np.array([frequency(frequencies, 0, at, key) for key in range(len(at))])
    assert (estimated >= true).all()
    bad = (estimated - true >= epsilon * (m - true)) & (true < m)
    # The keys of one sketch aren't independent: Markov's inequality, far on the safe side.
    assert bad.mean() <= 4 * delta


def test_count_min_bound_on_average():
    epsilon, delta, m = 0.1, 0.1, 2000
    bad = []
    for seed in range(60):
        keys = streams.zipf(0.8, 3000).take(0, m, seed=seed)
        encoded, at, frequencies, _ = sketched(keys, np.ones(m), seed, *shape(epsilon, delta))
        true = np.bincount(encoded.codes)
        estimated = np.array([frequency(frequencies, 0, at, key) for key in range(len(at))])
        bad.append((estimated - true >= epsilon * (m - true)).mean())
    assert np.mean(bad) <= delta


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(1, 64)), min_size=1, max_size=200), st.integers(0, 100))
def test_estimates_lie_between_the_least_and_the_greatest_cost(tuples, seed):
    keys, costs = [key for key, _ in tuples], [cost for _, cost in tuples]
    _, at, frequencies, works = sketched(keys, costs, seed, 3, 7)
    for key in range(len(at)):
        assert min(costs) - 1e-9 <= estimate(frequencies, works, 0, at, key, 0.0) <= max(costs) + 1e-9


def test_alone_in_its_cell_a_key_is_exact():
    _, at, frequencies, works = sketched(["a", "b", "a"], [5.0, 9.0, 7.0], 0, 4, 1000)
    assert [estimate(frequencies, works, 0, at, key, 0.0) for key in range(2)] == [6.0, 9.0]


def test_theorem_4_3_numeric_case():
    """With k = 55, n = 4096, costs 1 to 64, each 64 times: E between 32.08 and 32.92."""
    expected = expected_estimate(np.repeat(np.arange(1, 65.0), 64), 55)
    assert np.floor(100 * expected.min()) / 100 == 32.08
    assert np.floor(100 * expected.max()) / 100 == 32.91
    assert round(expected.max(), 2) == 32.92


def test_theorem_4_3_holds_for_our_hash_functions():
    n, columns = 200, 20
    costs = np.random.default_rng(1).permutation(np.arange(n)) % 64 + 1.0
    encoded = encode(np.arange(n))
    ratios = np.zeros((400, n))
    for seed in range(400):
        at = cells(encoded, seed, 1, columns)[:, 0]
        ratios[seed] = (np.bincount(at, costs, columns) / np.maximum(1, np.bincount(at, minlength=columns)))[at]
    error = ratios.mean(axis=0) - expected_estimate(costs, columns)
    assert np.abs(error).max() < 5 * ratios.std(axis=0).max() / 20


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.1), (0.7, 0.25), (1.0, 0.1), (0.001, 0.1)])
def test_shapes(epsilon, delta):
    """Rows: 4 for δ = 0.1 and 2 for 0.25; c is e/ε, rounded up (the paper's 54 and 55 columns for 0.05)."""
    rows, columns = shape(epsilon, delta)
    assert rows == {0.1: 4, 0.25: 2}[delta]
    assert columns == int(np.ceil(np.e / epsilon))


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (0.1, 0), (0.1, 1), (0.1, 2)])
def test_bad_precision(epsilon, delta):
    with pytest.raises(ValueError, match=r"(epsilon|delta) is .*; valid"):
        shape(epsilon, delta)
