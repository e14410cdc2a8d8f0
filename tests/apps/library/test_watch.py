"""`unskew.watch`: the figures of a query's last batches are those of its rows."""

import io
import sys
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from tests.apps.stateful import driver
from tests.commands import printed_by
from tests.conftest import ONE_CONNECT
from tests.harness.streams import drain_to_files, read_in_order, write_in_order
from unskew import balance, balanced_map, create, keyed_map, observed, watch
from unskew.apps.metrics.balance_observation import BatchBalance, WorkerLoad
from unskew.errors import UsageError

WORKERS, BATCHES, ROWS = 4, 3, 500
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def progress(number, rows, **observations):
    given = {name: Row(**values) for name, values in observations.items()}
    time = f"2026-01-01T00:00:0{number}.500Z"
    return SimpleNamespace(batchId=number, timestamp=time, numInputRows=rows, observedMetrics=given)


def loads(*values, keys, replicas):
    return {"replicas": replicas, **{f"worker_{w}": n for w, n in enumerate(values)}, "keys": keys}


@pytest.fixture
def query():
    """Three batches, of which one has no tuples. There are more than ten workers: 10 doesn't come before 2."""
    many = loads(*range(12), keys=20, replicas=30)
    none = loads(*[0] * 12, keys=0, replicas=0)
    one = loads(*[2] * 12, keys=20, replicas=19)
    batches = [progress(0, 66, mine=many), progress(1, 0, mine=none), progress(2, 24, mine=one)]
    return SimpleNamespace(recentProgress=batches)


def test_rows_are_the_batches_that_had_tuples(query):
    first, last = watch(query, name="mine").rows()
    begun = datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert first == BatchBalance(0, begun, 66, tuple(range(12)), imbalance=5.5, replication=1.5)
    assert (last.batch, last.imbalance, last.replication) == (2, 0.0, 1.0)
    above, below = watch(query, name="mine").plot().axes
    assert [list(line.get_xdata()) for line in above.lines] == [[0, 2]] * 12
    assert [list(line.get_ydata()) for line in below.lines] == [[1.5, 1.0]]
    assert watch(SimpleNamespace(recentProgress=[])).plot().axes


def reported(*texts, grouping="KEY"):
    return {**{f"worker_{w}": text for w, text in enumerate(texts)}, "grouping": grouping}


def test_rows_from_the_reports_of_workers():
    """A worker without tuples has sent none. The replicas are counted, and so are the keys unless some are split."""
    one = reported(WorkerLoad(30, 4, 0.5, 10, 100, 3, late=[0, 0]).text(), None, grouping="POSG")
    other = reported(WorkerLoad(6, 2, 0.5, late=[1, 3]).text(), WorkerLoad(2, 2, 0.1, late=[1, 0]).text())
    batches = [progress(0, 30, **{"unskew": one, "unskew keys": {"keys": 2}}), progress(1, 8, unskew=other)]
    first, last = watch(SimpleNamespace(recentProgress=batches)).rows()
    assert (first.loads, first.imbalance, first.replication) == ((30, 0), 15.0, 2.0)
    assert (first.busy, first.states, first.size, first.moved) == ((0.5, 0.0), (10, 0), (100, 0), 3)
    assert (last.loads, last.replication, last.states, last.grouping) == ((6, 2), 1.0, (), "KEY")
    assert (first.late, last.late) == ((), (2, 3))
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(watch(SimpleNamespace(recentProgress=batches)))
    assert [line.split()[-6:-1:2] for line in console.export_text().splitlines() if "2026" in line] == [
        ["2.00", "10", "3"],
        ["1.67", "0", "0"],
    ]
    with pytest.raises(UsageError, match=r"no observation 'none'; valid: unskew$"):
        watch(SimpleNamespace(recentProgress=batches), name="none").rows()


def test_a_query_that_is_not_observed_says_so(query):
    with pytest.raises(UsageError, match="the query has no observation 'unskew'; valid: mine"):
        watch(query).rows()
    with pytest.raises(UsageError, match=r"no observation 'unskew'; valid: a query of unskew.observed"):
        watch(SimpleNamespace(recentProgress=[progress(0, 5)])).rows()
    assert watch(SimpleNamespace(recentProgress=[])).rows() == []
    assert watch(SimpleNamespace(recentProgress=[progress(0, 0)])).rows() == []


def test_a_notebook_shows_what_was_measured(query):
    query.name = "placed"
    assert repr(watch(query, name="mine")) == "Watch(query='placed', name='mine')"
    assert "<pre>" in watch(query, name="mine")._repr_html_()
    shown = repr(watch(query, name="mine").rows()[0])
    assert shown.startswith("BatchBalance(")
    assert "=()" not in shown


def files(folder) -> list[list[str | None]]:
    """Write a stream, a file a batch; the users of each. Half of the rows have one user, and a tenth none."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    batches = []
    for number in range(BATCHES):
        drawn = rng.integers(1, 60, ROWS), rng.random(ROWS)
        users = [None if p < 0.1 else "u0" if p < 0.6 else f"u{n}" for n, p in zip(*drawn, strict=True)]
        write_in_order(folder, number, pa.table({"user": pa.array(users, pa.string()), "batch": [number] * ROWS}))
        batches.append(users)
    return batches


def test_the_figures_are_those_of_the_rows(spark: SparkSession, tmp_path):
    files(tmp_path / "in")
    checkpoint = str(tmp_path / "checkpoint")
    placed = balance(read_in_order(spark, tmp_path / "in"), "user", WORKERS, "PARTIAL_KEY", checkpoint)
    for wrong in ({"worker_column": "none"}, {"key": "none"}):
        with pytest.raises(UsageError, match="there is no column 'none'; valid: user, batch, worker"):
            observed(placed, **({"key": "user", "workers": WORKERS} | wrong))
    assert observed(placed, ["USER", "batch"], WORKERS).columns == placed.columns
    measured = observed(placed, "user", WORKERS).withColumn("partition", F.spark_partition_id())
    query = drain_to_files(measured, tmp_path / "out", checkpoint)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert all(row["worker"] == row["partition"] for row in rows)
    found = watch(query).rows()
    assert [each.batch for each in found] == list(range(BATCHES))
    for each in found:
        mine = [(row["user"], row["worker"]) for row in rows if row["batch"] == each.batch]
        assert each.loads == tuple(Counter(worker for _, worker in mine)[w] for w in range(WORKERS))
        assert each.tuples == ROWS
        true = len({*mine}) / len({user for user, _ in mine})
        assert abs(each.replication - true) <= 0.1 * true
    assert any(max(each.loads) != min(each.loads) for each in found)


def count(batches):
    yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})


@pytest.mark.parametrize("grouping", ["KEY", "PARTIAL_KEY"])
@pytest.mark.parametrize("what", ["keyed_map", "balanced_map"])
def test_what_packets_carry_is_measured_at_the_workers(spark: SparkSession, tmp_path, what, grouping):
    """Each batch is one file, so that there is one source, and its router's choices are known."""
    batches = files(tmp_path / "in")
    rows, checkpoint = read_in_order(spark, tmp_path / "in"), str(tmp_path / "checkpoint")
    how = {"grouping": grouping, "checkpoint": checkpoint, "observe": "mine"}
    if what == "keyed_map":
        results = keyed_map(rows, "user", WORKERS, driver.Tally("batch"), ttl="1 hour", **how)
    else:
        results = balanced_map(rows, "user", WORKERS, count, "rows long", **how)
    query = drain_to_files(results, tmp_path / "out", checkpoint)
    found = watch(query, name="mine").rows()
    assert [each.batch for each in found] == list(range(BATCHES))
    router = create(grouping, WORKERS).at_source(0)
    for each, users in zip(found, batches, strict=True):
        workers = router.route(pa.array(users, pa.string())).tolist()
        assert each.loads == tuple(Counter(workers)[w] for w in range(WORKERS))
        true = len({*zip(users, workers, strict=True)}) / len({*users})
        assert abs(each.replication - true) <= (0.1 * true if grouping != "KEY" else 0)
        assert each.grouping == grouping
        assert sum(each.busy) > 0
        assert bool(each.states) == (what == "keyed_map")
    if what == "balanced_map":  # the reports' rows are gone
        written = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sum(row["rows"] for row in written) == BATCHES * ROWS
        assert all(row["rows"] is not None for row in written)
        assert written[0].asDict().keys() == {"rows"}


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from unskew import balance, observed, watch
builder = SparkSession.builder.config("spark.ui.enabled", "false").remote("local[1]")
spark = builder.getOrCreate()
events = spark.readStream.schema("user string, batch long").option("maxFilesPerTrigger", 1).parquet(sys.argv[1] + "/in")
placed = observed(balance(events, "user", 4, "SHUFFLE", sys.argv[1] + "/checkpoint"), "user", 4, name="mine")
writer = placed.writeStream.option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True)
query = writer.format("parquet").start(sys.argv[1] + "/out")
query.awaitTermination()
for row in watch(query, name="mine").rows():
    print("row", row.batch, *row.loads)
spark.stop()
"""


@pytest.mark.nightly(group="sparks")
@pytest.mark.spark
@pytest.mark.slow
@ONE_CONNECT
def test_through_spark_connect(tmp_path):
    files(tmp_path / "in")
    lines = printed_by(PROGRAM, tmp_path, tmp_path)
    printed = [line.split()[1:] for line in lines if line.startswith("row ")]
    assert printed == [[str(number), *["125"] * WORKERS] for number in range(BATCHES)]
