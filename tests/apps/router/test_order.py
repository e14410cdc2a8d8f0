"""Behind a shuffle rows come in any order: routing replays all the same, or is refused."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.apps.shuffles import lose_what_was_shuffled
from tests.tiers import nightly
from unskew import balance, balanced_map, keyed_map
from unskew.apps.router import order
from unskew.apps.router.order import stabilise_order
from unskew.errors import UsageError
from unskew.operators import Statistics
from unskew.spark.compat import get_plan, is_on

pytestmark = pytest.mark.spark

N = 1200
NOTICES = [f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")]


@pytest.fixture
def noticing(spark):
    """A function that says whether Spark notices that a shuffled output differs."""
    before = {name: spark.conf.get(name) for name in NOTICES}

    def notice(yes: bool) -> None:
        for name in NOTICES:
            spark.conf.set(name, str(yes).lower())

    yield notice
    for name, value in before.items():
        spark.conf.set(name, value)


def mixed(batches):
    """The rows in another order each time. It stands for fetched blocks, which in this process all come at once."""
    rows = pa.Table.from_batches(batches)
    yield from rows.take(np.random.default_rng(int.from_bytes(os.urandom(8))).permutation(len(rows))).to_batches()


def shuffled(df):
    return df.repartition(3).mapInArrow(mixed, df.schema)


def waiting(folder: Path):
    """Work that goes on when what was shuffled is lost; the tasks can't import the tests."""

    def work(batches):
        (folder / "waits").touch()
        while not (folder / "lost").exists():
            time.sleep(0.01)
        yield from batches

    return work


@pytest.fixture
def losing(spark, tmp_path):
    """All that was shuffled is lost when the first task is at ``waiting`` work."""
    over = threading.Event()

    def lose() -> None:
        while not over.wait(0.01):
            if (tmp_path / "waits").exists() and not (tmp_path / "lost").exists():
                lose_what_was_shuffled(spark)
                (tmp_path / "lost").touch()

    loses = threading.Thread(target=lose)
    loses.start()
    yield
    over.set()
    loses.join()
    assert (tmp_path / "lost").exists()


@pytest.mark.parametrize("call", ["balance", *nightly("groupings", "balanced_map")])
@pytest.mark.usefixtures("losing")
def test_a_static_frame_is_sorted(spark, noticing, tmp_path, call):
    noticing(False)
    df = shuffled(spark.range(N))
    work = waiting(tmp_path)
    if call == "balance":
        done = balance(df, "id", 6, "SHUFFLE").drop("worker").mapInArrow(work, df.schema)
    else:
        done = balanced_map(df, "id", 6, work, df.schema, "SHUFFLE")
    assert Counter(row.id for row in done.collect()) == dict.fromkeys(range(N), 1)


@pytest.mark.nightly(group="groupings")
@pytest.mark.usefixtures("losing")
def test_of_a_stream_spark_ends_the_query_and_it_goes_on(spark, noticing, tmp_path):
    noticing(True)
    spark.range(N).repartition(2).write.parquet(str(tmp_path / "in"))

    def run() -> None:
        df = shuffled(spark.readStream.schema("id long").parquet(str(tmp_path / "in")))
        placed = balance(df, "id", 6, "SHUFFLE", str(tmp_path / "cp")).drop("worker")
        query = placed.mapInArrow(waiting(tmp_path), df.schema).writeStream.format("parquet")
        query = query.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "cp"))
        query.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="shuffle map stage with indeterminate output"):
        run()
    run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert Counter(row.id for row in rows) == dict.fromkeys(range(N), 1)


def test_a_stream_behind_a_shuffle_is_refused(spark, noticing, tmp_path):
    noticing(False)
    stream = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().withColumnRenamed("value", "id")
    )
    path = str(tmp_path / "cp")
    for df in (stream.repartition(2), stream.dropDuplicates(["id"])):
        with pytest.raises(UsageError, match=r"the stream is behind a shuffle .*\.enabled and "):
            balance(df, "id", 2, "SHUFFLE", path)
        with pytest.raises(UsageError, match="the stream is behind a shuffle"):
            balanced_map(df, "id", 2, iter, "id long", checkpoint=path)
        with pytest.raises(UsageError, match="the stream is behind a shuffle"):
            keyed_map(df, "id", 2, Statistics("timestamp"), "D_CHOICES", path, ttl=60)
        assert stabilise_order(df, "KEY") is df, "it goes by the key alone"
    joined = stream.join(F.broadcast(spark.range(5)), "id").withColumnRenamed("id", "Exchange")
    assert stabilise_order(joined, "SHUFFLE") is joined, "nothing is shuffled"
    for name in NOTICES:
        spark.conf.unset(name)
    assert balance(stream.repartition(2), "id", 2, "SHUFFLE", path).columns[-1] == "worker", "it is Spark's default"
    assert not is_on(spark, "spark.sql.not.there")


def test_what_is_sorted(spark, noticing):
    noticing(False)
    df = spark.createDataFrame([(1, {"b": 2, "a": 1}, "{}")], "id long, map map<string, int>, `a.b` string")
    df = df.withColumn("variant", F.parse_json("`a.b`"))
    assert stabilise_order(df, "SHUFFLE") is df
    plan = get_plan(balance(df.repartition(2), "id", 2, "SHUFFLE"))
    assert "Sort [xxhash64(" in plan
    assert plan.index("Exchange") < plan.index("Sort [xxhash64("), "after it was routed it isn't sorted"
    assert [row.id for row in stabilise_order(df.repartition(2), "SHUFFLE").collect()] == [1]
    cached = df.repartition(2).cache()
    assert "Sort [" in get_plan(stabilise_order(cached, "SHUFFLE"))
    ticked = df.repartition(2).withColumnRenamed("id", "i`d")
    assert len(stabilise_order(ticked, "SHUFFLE").collect()) == 1
    many = spark.range(100)
    for gathered in (
        many.limit(9),
        many.orderBy("id").limit(9).selectExpr("-id"),
        many.groupBy(F.col("id") % 3).count(),
    ):
        assert "Sort [" in get_plan(stabilise_order(gathered, "SHUFFLE")), get_plan(gathered)
    twice = df.select("id").join(df.select("id"), F.lit(True)).repartition(2)
    with pytest.raises(UsageError, match="has several columns 'id': rename them"):
        stabilise_order(twice, "SHUFFLE")


def test_shuffles_by_other_names(monkeypatch):
    plan = "== Physical Plan ==\n*(2) Project [id#1]\n+- {}\n"
    for node in ("PhotonShuffleExchangeSource", "ColumnarExchange", "TakeOrderedAndProject", "GlobalLimit 5"):
        monkeypatch.setattr(order, "get_plan", lambda _, node=node: plan.format(node))
        assert order._reads_shuffle(None)
    none = "== Physical Plan ==\n*(1) BroadcastHashJoin [Exchange#1]\n+- PhotonBroadcastExchange\n"
    monkeypatch.setattr(order, "get_plan", lambda _: none)
    assert not order._reads_shuffle(None)


@pytest.mark.nightly(group="groupings")
def test_the_batch_of_foreach_batch_is_sorted_if_the_stream_was_shuffled(spark, tmp_path):
    spark.range(9).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    for df, expected in ((stream, False), (stream.repartition(2), True)):
        found = []

        def route(batch, _, found=found):
            found.append("Sort [" in get_plan(balance(batch, "id", 2, "SHUFFLE")))

        query = df.writeStream.foreachBatch(route).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / f"cp-{expected}")).start().awaitTermination()
        assert found == [expected]
