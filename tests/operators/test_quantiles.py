"""QUANTILES and KLL_QUANTILES against sorted values."""

import math
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Tuple, by_key, parts, streams, whole
from unskew.errors import UsageError
from unskew.operators import KllQuantiles, Now, Quantiles

COLUMNS = {"x": pa.float64()}
AT = (0.0, 0.1, 0.5, 0.99, 1.0)
FLOATS = st.none() | st.floats(allow_subnormal=False) | st.integers(-5, 5).map(float)


def plain(values, at):
    """The value of that rank, and how many there are."""
    fit = sorted(x for x in values if x is not None and math.isfinite(x))
    return (fit[max(math.ceil(Fraction(str(at)) * len(fit)), 1) - 1] if fit else None), len(fit)


def expected(batches):
    values = {key: [each.values["x"] for each in tuples] for key, tuples in by_key(batches).items()}
    return {(key, at): plain(own, at) for key, own in values.items() for at in AT}


@given(batches=streams(x=FLOATS), error=st.sampled_from([0.5, 0.3, 0.01, 1e-5]))
def test_values_within_the_error(batches, error):
    work = Quantiles("x", AT, error)
    one, split = whole(work, COLUMNS, batches).final(), parts(work, COLUMNS, batches).final()
    assert one == split
    true = expected(batches)
    assert one.keys() == true.keys()
    for address, row in one.items():
        value, count = true[address]
        assert row["count"] == count
        if value is None:
            assert row["value"] is None
        else:
            assert abs(row["value"] - value) <= error * abs(value)


def test_a_rank_is_not_rounded_up_to_the_next():
    at = tuple(percent / 100 for percent in range(1, 101))
    for count in (100, 700, 1900):
        batch = Batch([Tuple("a", value, 0, {"x": float(value)}) for value in range(1, count + 1)], Now(count, count))
        final = whole(Quantiles("x", at, 1e-5), COLUMNS, [batch]).final()
        assert [round(final["a", each]["value"]) for each in at] == [n * count // 100 for n in range(1, 101)]


@given(batches=streams(x=FLOATS))
def test_kll_is_exact_of_few_values(batches):
    for run in (whole, parts):
        final = run(KllQuantiles("x", AT), COLUMNS, batches).final()
        assert {address: (row["value"], row["count"]) for address, row in final.items()} == expected(batches)


def test_kll_ranks_within_the_error():
    """Of 60,000 values at six workers: ranks within four times what 99 % are."""
    values = np.random.default_rng(1).lognormal(0, 3, 60_000)
    batches = [
        Batch([Tuple("a", 0, i % 6, {"x": x}) for i, x in enumerate(part)], Now(0, 0), merged=True)
        for part in np.array_split(values, 3)
    ]
    work = KllQuantiles("x", (0.1, 0.5, 0.9, 0.999), k=100)
    for run in (whole, parts):
        for (_, at), row in run(work, COLUMNS, batches).final().items():
            rank = np.searchsorted(np.sort(values), row["value"], side="right") / len(values)
            assert abs(rank - at) <= 4 * 0.027
            assert row["count"] == len(values)


def test_what_kll_says_agrees():
    """Equal samples do; others of the same number and extremes don't."""
    work = KllQuantiles("x", k=50)
    spread, bent = (np.linspace(0, 1, 5000) ** power for power in (1, 3))

    def state(values):
        tuples = pa.RecordBatch.from_pydict({"slot": pa.array(np.zeros(len(values), np.int32)), "x": values})
        return work.update(tuples, pa.RecordBatch.from_pylist([{"sketch": None}], schema=work.state), Now(0, 0))[1]

    assert work.equivalent(state(spread), state(spread[::-1]))
    assert not work.equivalent(state(spread), state(bent))
    assert not work.equivalent(state(spread), state(spread[1:]))


@pytest.mark.parametrize("work", [Quantiles, KllQuantiles])
def test_quantiles_are_checked(work):
    with pytest.raises(UsageError, match=r"^at is 1.5; valid: a number of at least 0, at most 1$"):
        work(at=(0.5, 1.5))
    for none in ((), 0.5, "0.5", {0.5}):
        with pytest.raises(UsageError, match=rf"^at is {re.escape(repr(none))}; valid: a sequence of numbers of"):
            work(at=none)
    assert work(at=np.array([0.5])).at == (0.5,)
