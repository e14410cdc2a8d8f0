"""Columns are found as Spark finds them. No Spark is started."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from unskew import balance, observed
from unskew.apps.library import watch
from unskew.apps.library.stream_join import _name_results, _Side
from unskew.apps.metrics import balance_observation
from unskew.apps.router import row_keys, tuple_packets
from unskew.errors import UsageError


def stream(*columns: str, exact: bool = False) -> Any:
    conf = {"spark.sql.caseSensitive": str(exact).lower()}
    return cast("Any", SimpleNamespace(columns=[*columns], isStreaming=True, sparkSession=SimpleNamespace(conf=conf)))


def test_a_column_is_not_replaced():
    """Spark's ``withColumn`` would replace a column whose name differs in its letters' case alone."""
    for there, exact in (("worker", False), ("worker", True), ("Worker", False)):
        with pytest.raises(UsageError, match=f"there is a column '{there}' already; name another one with worker_col"):
            balance(stream("user", there, exact=exact), "user", 4, "KEY")
    with pytest.raises(AttributeError, match="select"):  # the next that is asked of a stream
        balance(stream("user", "Worker", exact=True), "user", 4, "KEY")


@pytest.mark.parametrize("key", ["user.id", ["user.id"], "USER.id"])
def test_the_key_of_balance_is_that_of_observed(monkeypatch, key):
    """A struct's field is no column of the DataFrame, and a list is none either."""

    class Frame:
        columns = ("user", "worker")
        isStreaming = True  # noqa: N815
        sparkSession = None  # noqa: N815

        def select(self, name):
            assert name in {"user.id", "USER.id"}
            return SimpleNamespace(schema=StructType([StructField("id", LongType())]))

    monkeypatch.setattr(balance_observation, "observe_rows", lambda *given: given)
    monkeypatch.setattr(row_keys, "as_column", lambda name: f"column {name}")
    monkeypatch.setattr(watch, "F", SimpleNamespace(col=str))
    [named] = [key] if isinstance(key, str) else key
    found = cast("Any", observed(cast("Any", Frame()), key, 4))
    assert found[1:] == (f"column {named}", "worker", 4, "unskew")


def test_a_time_is_a_timestamp(monkeypatch):
    """Else the first batch would fail: routers have no time of an integer."""
    monkeypatch.setattr(tuple_packets, "as_column", lambda of: f"column {of}")
    for kind, name in (
        (LongType(), "bigint"),
        (StringType(), "string"),
        (TimestampType(), ""),
        (TimestampNTZType(), ""),
    ):
        schema = StructType([StructField("at", kind)])
        frame = cast("Any", SimpleNamespace(select=lambda _, schema=schema: SimpleNamespace(schema=schema)))
        if name:
            with pytest.raises(UsageError, match=f"time is {name}; valid: a timestamp"):
                tuple_packets.make_time_column(frame, "at")
        else:
            assert cast("Any", tuple_packets.make_time_column(frame, "at")) == "column at"


def make_side(*names):
    return _Side(None, None, None, [StructField(name, LongType()) for name in names], [])


def test_columns_of_a_join_that_differ_in_case_alone_have_the_same_name():
    sides = [make_side("n", "Price"), make_side("N", "price", "ad")]
    assert _name_results(sides, ["user"]) == (["n", "Price"], ["N_right", "price_right", "ad"])
    for left, right in ((["n", "N_RIGHT"], ["n"]), (["User"], []), ([], ["USER"])):
        with pytest.raises(UsageError, match="two columns of the result would be called"):
            _name_results([make_side(*left), make_side(*right)], ["user"])
