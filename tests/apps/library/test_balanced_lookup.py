"""Lookups in a query: each row gets its columns, whatever they are called, and hot keys are spread."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from tests.apps.stateful.in_time import in_time
from tests.harness.streams import drain_to_files, read_in_order, write_in_order
from unskew import UsageError, balanced_lookup, watch
from unskew.apps.metrics.balance_observation import BatchBalance
from unskew.lookups import TableLookup

FILES, ROWS, WORKERS, USERS = 4, 3_000, 4, 300


@pytest.fixture(params=["parquet", "delta"])
def users(request, tmp_path) -> TableLookup:
    """A table of users, of whom every tenth isn't there."""
    ids = [user for user in range(USERS) if user % 10]
    table = pa.table({"id": ids, "name": [f"name {user}" for user in ids], "other": ids})
    path = str(tmp_path / "users")
    if request.param == "delta":
        write_deltalake(path, table)
    else:
        (tmp_path / "users").mkdir()
        pq.write_table(table, f"{path}/part.parquet", row_group_size=50)
    return TableLookup(path, "id", {"called": "name"}, request.param)


def write_events(folder: Path, numbers: range, rng: np.random.Generator) -> None:
    """A file a batch, in which every other row is of user 7."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        user = np.where(rng.random(ROWS) < 0.5, 7, rng.integers(0, USERS, ROWS)).astype(np.int32)
        write_in_order(folder, number, pa.table({"user": user, "n": np.arange(number * ROWS, (number + 1) * ROWS)}))


def test_a_stream_goes_on_with_what_its_workers_know(spark, users, tmp_path, seed):
    folder, checkpoint, out = tmp_path / "events", str(tmp_path / "checkpoint"), str(tmp_path / "out")
    rng = np.random.default_rng(seed)

    def drain(_: int) -> list[BatchBalance]:
        events = read_in_order(spark, folder)
        named = balanced_lookup(events, "user", WORKERS, users, "called string", checkpoint=checkpoint, observe="own")
        return watch(drain_to_files(named, out, checkpoint), name="own").rows()

    batches = []
    for numbers in (range(2), range(2, FILES)):
        write_events(folder, numbers, rng)
        batches += in_time(drain)
    rows = spark.read.parquet(out)
    assert rows.columns == ["user", "n", "called"]
    found = rows.collect()
    assert Counter(row.n for row in found) == Counter(range(FILES * ROWS))
    assert all(row.called == (f"name {row.user}" if row.user % 10 else None) for row in found)
    assert all(max(batch.loads) <= 1.1 * np.mean(batch.loads) for batch in batches)
    assert max(sum(batch.states) for batch in batches) <= 1.05 * USERS + WORKERS, "the rows that workers hold"


def test_columns_keep_their_names_types_and_places(spark):
    rows = spark.sql(
        "SELECT 1 AS `a.b`, 'x' AS KEY, named_struct('s', 2) AS r, date'2024-05-06' AS time, 1.5BD AS slot"
    )
    known = pa.table({"key": ["x"], "C0": pa.array([[1, 2]]), "fetched": [3]})
    both, columns = rows.unionByName(rows.withColumn("KEY", F.lit("y"))), "C0 array<bigint>, fetched int"

    def look_up(keys):
        return known.filter(pc.is_in(known["key"], keys))

    for how, other in (("left", 1), ("inner", 0)):
        found = balanced_lookup(both, F.col("KEY"), 2, look_up, columns, how=how)
        assert found.dtypes[:5] == rows.dtypes
        assert found.schema.simpleString().endswith("C0:array<bigint>,fetched:int>")
        assert found.where("KEY = 'x'").collect() == [(*rows.collect()[0], [1, 2], 3)]
        assert found.where("KEY = 'y' and C0 is null").count() == other


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"key": "d"}, "key 'd' is decimal.*valid: string, binary, integer"),
        ({"columns": "K int"}, "there is a column 'k' already"),
        ({"columns": "key int"}, "called 'key'"),
        ({"columns": ""}, "columns is empty"),
        ({"how": "full"}, "how is 'full'; valid: left, inner"),
        ({"on_error": "raise"}, "on_error is 'raise'; valid: fail, ignore"),
        ({"missing_ttl": "soon"}, "missing_ttl is 'soon'"),
        ({"retries": -1}, "retries is -1"),
    ],
)
def test_what_does_not_fit_is_refused(spark, given, says):
    rows = spark.sql("SELECT 'x' AS k, 1.5BD AS d")
    with pytest.raises(UsageError, match=says):
        balanced_lookup(rows, **({"key": "k", "workers": 2, "lookup": len, "columns": "v int"} | given))


def test_a_lookup_that_fails_ends_the_query_with_its_reason(spark):
    rows = spark.sql("SELECT 'x' AS k")
    found = balanced_lookup(rows, "k", 2, TableLookup("/nowhere", "id", ["v"]), "v int", retries=0)
    with pytest.raises(PythonException, match=r"lookup of key 'x' failed.*nowhere"):
        found.collect()
