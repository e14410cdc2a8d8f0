"""HISTOGRAM against sorted values, and against Ben-Haim's and Tom-Tov's procedures in plain Python."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Tuple, by_key, parts, streams, whole
from unskew.operators import Histogram, Now

COLUMNS = {"x": pa.float64()}
AT = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
SOME = st.none() | st.sampled_from([-1e17, -2.0, 0.0, -0.0, 0.1, 3.5, 1e300, float("inf"), float("nan")])


def fit(tuples):
    return sorted(each.values["x"] for each in tuples if each.values["x"] is not None and np.isfinite(each.values["x"]))


@given(batches=streams(x=SOME))
def test_bins_are_exact_of_few_values(batches):
    one, split = (run(Histogram("x", at=AT), COLUMNS, batches).final() for run in (whole, parts))
    assert one == split
    for key, tuples in by_key(batches).items():
        values, row = fit(tuples), one[key,]
        counts = {value: values.count(value) for value in values}
        assert [tuple(each.values()) for each in row["bins"]] == list(counts.items())
        assert row["count"] == len(values)
        ends = (values[0], values[-1]) if values else (None, None)
        assert (row["min"], row["max"]) == ends
        assert row["quantiles"] is None if not values else (row["quantiles"][0], row["quantiles"][-1]) == ends


def test_the_number_of_other_keys_changes_no_quantile():
    work = Histogram("x", at=tuple(np.linspace(0.01, 0.99, 99)))
    values = np.random.default_rng(0).normal(size=500)

    def quantiles(others):
        x = np.concatenate([np.arange(others, dtype=float), values])
        slots = pa.array([0] * others + [int(others > 0)] * len(values), pa.int32())
        batch = pa.RecordBatch.from_pydict({"slot": slots, "time": np.zeros(len(x), np.int64), "x": x})
        return work.result(work.merge(work.to_state(batch), slots, keys=1 + (others > 0))).to_pylist()[-1]["quantiles"]

    assert quantiles(1000) == quantiles(0)


@pytest.mark.parametrize(("draw", "error"), [("random", 0.005), ("normal", 0.005), ("exponential", 0.02)])
def test_ranks_are_as_near_as_documented(draw, error):
    """Of 20,000 values at one worker, or at five that merge after each of three batches."""
    random = np.random.default_rng(1)
    values = getattr(random, draw)(size=20_000)
    batches = [
        Batch([Tuple("a", 0, i % 5, {"x": x}) for i, x in enumerate(part)], Now(0, 0), merged=True)
        for part in np.array_split(values, 3)
    ]
    for run in (whole, parts):
        row = run(Histogram("x", at=AT), COLUMNS, batches).final()["a",]
        assert row["count"] == len(values)
        assert len(row["bins"]) == 64
        ranks = np.searchsorted(np.sort(values), row["quantiles"], side="right") / len(values)
        assert np.abs(ranks - AT).max() <= error


@given(values=st.lists(st.integers(-40, 40), min_size=1, max_size=40), bins=st.integers(2, 6))
def test_merging_joins_the_closest_bins(values, bins):
    """The oracle is the paper's procedure, bin by bin; and each published quantile has the *sum* that it should."""
    expected = [[float(value), values.count(value)] for value in sorted(set(values))]
    while len(expected) > bins:
        at = min(range(len(expected) - 1), key=lambda i: expected[i + 1][0] - expected[i][0])
        (left, low), (right, high) = expected[at : at + 2]
        expected[at : at + 2] = [[left * (1 - high / (low + high)) + right * (high / (low + high)), low + high]]
    slots = pa.array(np.zeros(len(values), np.int32))
    work = Histogram("x", bins, AT)
    alone = work.to_state(pa.RecordBatch.from_pydict({"x": pa.array(values, pa.float64())}))
    (row,) = work.result(work.merge(alone, slots, 1)).to_pylist()
    assert [list(each.values()) for each in row["bins"]] == expected
    points = [[float(min(values)), 0], *expected, [float(max(values)), 0]]
    for at, quantile in zip(AT, row["quantiles"], strict=True):
        below = sum_below(points, quantile)
        ties = [below, sum_below(points, quantile, inclusive=True)]  # where bins coincide with an end
        assert ties[0] - 1e-6 <= at * len(values) <= ties[1] + 1e-6


def sum_below(points, x, *, inclusive=False):
    """The paper's *sum*: how many values are at most x; at a jump the number before it, or after."""
    total = 0.0
    for (left, low), (right, high) in pairwise(points):
        if right < x or (right == x and (inclusive or left < right)):
            total += (low + high) / 2
        elif left < x:
            share = (x - left) / (right - left)
            total += (low + low + (high - low) * share) / 2 * share
    return total


def test_what_no_order_changes_must_agree():
    work = Histogram("x", bins=3)

    def state(*values):
        alone = work.to_state(pa.RecordBatch.from_pydict({"x": pa.array(values, pa.float64())}))
        return work.merge(alone, pa.array(np.zeros(len(values), np.int32)), 1)

    whole_state = state(0, 1, 2, 3, 10)
    halves = pa.Table.from_batches([state(0, 3, 10, 1), state(2)]).combine_chunks().to_batches()[0]
    assert work.equivalent(whole_state, work.merge(halves, pa.array([0, 0], pa.int32()), 1))
    for other in (state(0, 1, 2, 10), state(0, 1, 2, 4, 10), state(0, 1, 2, 3, 11), state(0, 10)):
        assert not work.equivalent(whole_state, other)
