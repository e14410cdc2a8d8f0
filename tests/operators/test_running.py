"""RUNNING against Python's fractions."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Tuple, by_key, parts, streams, whole
from unskew.apps.operators import exact_sums
from unskew.operators import Now, Statistics

COLUMNS = {"x": pa.float64()}
FLOATS = st.none() | st.floats() | st.sampled_from([0.1, 1e100, -1e100, 1e16, -1e16, 1.0, 1e-300, 5e-324])


def plain(values):
    """The statistics of a key, in exact arithmetic."""
    fit = [x for x in values if x is not None and abs(x) <= 1e140]
    n, total = len(fit), sum(map(Fraction, fit))
    mean = total / n if n else None
    return {
        "count": n,
        "sum": float(total),
        "min": min(fit, default=None),
        "max": max(fit, default=None),
        "mean": None if mean is None else float(total) / n,
        "variance": None if mean is None else sum((Fraction(x) - mean) ** 2 for x in fit) / n,
        "unfit": len(values) - n,
    }


@pytest.mark.parametrize("when", ["change", "end"])
@given(batches=streams(x=FLOATS))
def test_exact_wherever_the_tuples_were(batches, when):
    work = Statistics("x", when)
    one, split = whole(work, COLUMNS, batches), parts(work, COLUMNS, batches)
    assert one.final() == split.final()
    expected = {(key,): plain([each.values["x"] for each in tuples]) for key, tuples in by_key(batches).items()}
    assert one.final().keys() == expected.keys()
    for key, row in one.final().items():
        variance, true = row.pop("variance"), expected[key].pop("variance")
        assert row == expected[key]
        if true is None:
            assert variance is None
        else:
            largest = max(abs(row["min"]), abs(row["max"]))
            assert math.isclose(variance, true, rel_tol=1e-13, abs_tol=largest**2 * 1e-31 + 1e-300)


@pytest.mark.parametrize("values", [[1e9, 1e9 + 0.25, 1e9 + 0.75], [1e14 + 1 / 64, 1e14 + 0.25, 1e14 + 0.75]])
def test_a_small_variance_beside_a_large_mean(values):
    """Also beside a sum that is no float, as the second one's."""
    batch = Batch([Tuple("a", 0, 0, {"x": x}) for x in values], Now(0, 0))
    variance = whole(Statistics("x"), COLUMNS, [batch]).final()[("a",)]["variance"]
    assert math.isclose(variance, plain(values)["variance"], rel_tol=1e-12)


def test_sums_are_rounded_as_by_fsum():
    """Half-way cases, whose last bit is decided far behind."""
    random = Random(0)
    for _ in range(2000):
        x = random.choice([1.0, 3.0, 2.0**52 + 1])
        half = math.ulp(x) / 2
        values = [x, half, random.choice([-1, 0, 1]) * half * 2.0**-60, -x, x] * random.randint(1, 2)
        random.shuffle(values)
        sums = exact_sums.sum_expansions(
            exact_sums.make_expansions(np.array(values)), np.zeros(len(values), np.int32), 1
        )
        assert exact_sums.take_leading_parts(sums)[0][0] == math.fsum(values)
        assert sum(map(Fraction, sums[0].as_py())) == sum(map(Fraction, values))


def test_a_column_that_is_no_number_is_named():
    batch = Batch([Tuple("a", 0, 0, {"x": "many"})], Now(0, 0))
    with pytest.raises(ValueError, match=r"^column 'x' is string, not double: .*many"):
        whole(Statistics("x"), {"x": pa.string()}, [batch])
