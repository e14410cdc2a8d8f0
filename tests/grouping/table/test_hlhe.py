"""HLHE discretisation: equal to the paper's construction, and its error bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.table import plain_table
from unskew.grouping.table.hlhe import discretise

degrees = st.sampled_from([1, 2, 4, 8, 64, 256])


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), degrees)
def test_equals_the_paper(values, degree):
    descending = [*sorted(values, reverse=True), 1]
    assert discretise(np.array(descending, np.float64), degree).tolist() == plain_table.discretise(descending, degree)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60), degrees)
def test_error_bound(values, degree):
    """Of every prefix, by value: the accumulated deviation is below R times the smallest value."""
    descending = np.sort(np.array(values))[::-1]
    smallest = descending[-1]
    phi = discretise(descending, degree)
    rounding = 1e-9 * descending.sum()
    assert np.abs(np.cumsum(descending - phi)).max() <= degree * smallest + rounding
    large = descending >= degree * smallest
    assert (np.abs(phi - descending)[large] <= degree * smallest * (1 + 1e-9)).all()
    assert (np.abs(phi - descending)[~large] <= descending[~large] * (1 + 1e-9)).all()


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60), degrees)
def test_few_representatives(values, degree):
    descending = np.sort(np.array([*values, 1], np.float64))[::-1]
    phi = np.unique(discretise(descending, degree))
    assert len(phi) <= descending[0] // degree + 1 + np.log2(degree)


def test_degree_1_is_exact_for_whole_numbers():
    values = np.array([3.0, 1, 7, 5, 2])
    assert discretise(values, 1).tolist() == values.tolist()


def test_zeros_and_order_stay():
    values = np.array([0.0, 8, 0, 3, 1])
    phi = discretise(values, 4)
    assert phi[[0, 2]].tolist() == [0, 0]
    assert phi[[1, 4]].tolist() == [8, 1]
    assert discretise(np.zeros(3), 4).tolist() == [0, 0, 0]
    assert discretise(np.empty(0), 4).tolist() == []


def test_theorem_3_needs_many_small_values():
    """The total deviation isn't always 0, but with enough small values to work it off it is."""
    assert discretise(np.array([3.0, 1.0]), 4).sum() != 4
    many = np.array([9.0, 7, 5, 3, *[2] * 5, *[1] * 9])
    assert discretise(many, 4).sum() == pytest.approx(many.sum())


@pytest.mark.parametrize("degree", [1, 8, 64, 256])
def test_loads_stay_within_one_percent(degree):
    """Figure 11(b), with a million keys of Zipf 0.85 on 15 workers; with few keys it isn't so (7 % with 10,000)."""
    rng = np.random.default_rng(0)
    share = np.arange(1, 1_000_001) ** -0.85
    cost = rng.multinomial(10_000_000, share / share.sum()).astype(np.float64)
    cost = cost[cost > 0]
    worker = rng.integers(0, 15, len(cost))
    true, estimated = (np.bincount(worker, values) for values in (cost, discretise(cost, degree)))
    assert (np.abs(estimated - true) / true).max() < 0.01
