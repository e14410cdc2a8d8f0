"""What a join of streams makes of its arguments, without Spark."""

import pytest
from pyspark.sql.types import LongType, StructField

from unskew.apps.library.stream_join import _name_results, _Side
from unskew.errors import UsageError


def make_side(*names):
    return _Side(None, None, None, [StructField(name, LongType()) for name in names], [])


def test_names_that_differ_in_case_alone_are_the_same():
    sides = [make_side("n", "Price"), make_side("N", "price", "ad")]
    assert _name_results(sides, ["user"]) == (["n", "Price"], ["N_right", "price_right", "ad"])
    for left, right in ((["n", "N_RIGHT"], ["n"]), (["User"], []), ([], ["USER"])):
        with pytest.raises(UsageError, match="two columns of the result would be called"):
            _name_results([make_side(*left), make_side(*right)], ["user"])
