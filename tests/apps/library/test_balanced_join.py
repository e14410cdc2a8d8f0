"""Joins of static DataFrames: as Spark's own, but for the tasks that have the rows."""

import re
from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew import UsageError, balanced_join
from unskew.apps.cli.simulation.join_loads import BALANCED, JoinSimulation, pair_sides
from unskew.spark.compat import get_plan
from unskew.spark.setting_names import CO_PARTITION

WORKERS = 5
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session in which Spark broadcasts nothing by itself, and shuffles nothing anew."""
    own = spark.newSession()
    for name, value in {_BROADCAST: -1, CO_PARTITION: False, "spark.sql.shuffle.partitions": 3}.items():
        own.conf.set(name, value)
    return own


def make_sides(spark: SparkSession, kind: str = "bigint", other: str | None = None) -> tuple[DataFrame, DataFrame]:
    """20,000 rows, of which two fifths have key 7 and some none; and some keys twice, some not at all, and null."""
    key = "CASE WHEN id % 5 < 2 THEN 7 WHEN id % 101 = 0 THEN null ELSE id % 700 END"
    left = spark.range(20_000, numPartitions=3).selectExpr(f"cast({key} AS {kind}) AS k", "id AS l")
    right = spark.range(900, numPartitions=2).selectExpr(
        f"cast(CASE WHEN id = 5 THEN null ELSE id % 600 END AS {other or kind}) AS k", "id AS r"
    )
    return left, right


@pytest.mark.parametrize("how", ["inner", "left", "leftsemi", "leftanti"])
def test_it_is_sparks_join_with_even_tasks(session, how):
    left, right = make_sides(session)
    joined = balanced_join(left, right, "k", WORKERS, how)
    wanted = left.join(right, "k", how)
    assert joined.columns == wanted.columns
    assert Counter(joined.collect()) == Counter(wanted.collect())
    assert joined.rdd.getNumPartitions() == WORKERS
    if how == "left":  # the rows of the left side that each task has
        own = joined.select(F.spark_partition_id().alias("task"), "l").distinct().groupBy("task").count()
        assert max(row["count"] for row in own.collect()) <= 1.1 * 20_000 / WORKERS


def test_each_side_is_shuffled_once(session):
    """With the default of ``CO_PARTITION`` there are two exchanges as well, of which none is ours."""
    plan = get_plan(balanced_join(*make_sides(session), "k", WORKERS))
    shuffles = re.findall(r"\bExchange (\w+)\(", plan)
    assert len(shuffles) == 2
    ours = "shufflepartitionidpassthrough" if hasattr(DataFrame, "repartitionById") else "hashpartitioning"
    assert {each.lower() for each in shuffles} == {ours}
    assert not re.search(r"hashpartitioning\([^)]*\bk#", plan)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "other"), [("int", "bigint"), ("int", "double"), ("decimal(9,2)", "smallint"), ("string", "string")]
)
def test_equal_keys_meet_whatever_their_types(session, kind, other):
    left, right = make_sides(session, kind, other)
    assert Counter(balanced_join(left, right, "k", WORKERS).collect()) == Counter(left.join(right, "k").collect())


def test_several_columns_are_a_key_and_a_cost_counts(session):
    left, right = make_sides(session)
    left, right = (side.withColumn("also", F.col("k") % 3) for side in (left, right))
    joined = balanced_join(left, right, ["k", "also"], WORKERS, cost=F.col("l"), weights=[1, 1, 1, 1, 2], seed=3)
    assert Counter(joined.collect()) == Counter(left.join(right, ["k", "also"]).collect())
    costs = (
        joined.select("l", F.spark_partition_id().alias("task")).distinct().groupBy("task").agg(F.sum("l").alias("of"))
    )
    by_task = [row.of for row in costs.orderBy("task").collect()]
    assert by_task[4] > 1.6 * max(by_task[:4])


def test_a_batch_is_joined_in_foreachbatch(session, tmp_path):
    _, right = make_sides(session)
    found = []

    def join(batch: DataFrame, _: int) -> None:
        joined = balanced_join(batch, batch.sparkSession.table("sides"), "k", WORKERS, checkpoint=checkpoint)
        found.extend(joined.collect())

    checkpoint = str(tmp_path / "checkpoint")
    right.createOrReplaceTempView("sides")
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 2).load()
    keys = rows.selectExpr("if(value % 2 = 0, 7, value % 90) AS k", "value AS l")
    query = keys.writeStream.foreachBatch(join).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    left = session.range(1000).selectExpr("if(id % 2 = 0, 7, id % 90) AS k", "id AS l")
    assert Counter(found) == Counter(left.join(right, "k").collect())


def test_what_spark_broadcasts_is_not_counted(session):
    left, right = make_sides(session)
    session.conf.set(_BROADCAST, "10m")
    assert "BroadcastHashJoin" in get_plan(balanced_join(left, right, "k", WORKERS))


def test_unskew_simulate_predicts_it(session):
    """As even tasks and as many copies, but for the hashes, and for chance: each of 8,000 hot rows draws its task."""
    left, right = (side.where("k IS NOT null") for side in make_sides(session))
    right = right.join(left.select("k"), "k", "leftsemi")  # rows without a partner aren't seen below
    keys = [side.select("k").toArrow()["k"] for side in (left, right)]
    simulated = JoinSimulation(pair_sides(*keys), WORKERS, None, 0).compute_figures()[BALANCED]
    joined = balanced_join(left, right, "k", WORKERS, "left").groupBy(F.spark_partition_id().alias("task"))
    tasks = joined.agg(F.count_distinct("l").alias("left"), F.count_distinct("r").alias("right")).collect()
    rows = [len(each) for each in keys]
    assert sum(task["left"] for task in tasks) == rows[0]
    # (Key 7 has two right rows, and may be at a task more or less.)
    assert sum(task["right"] for task in tasks) == pytest.approx(simulated.right_sent * rows[1], abs=2)
    fullest = max(task["left"] + task["right"] for task in tasks)
    assert fullest / (sum(rows) / WORKERS) == pytest.approx(simulated.fullest, abs=0.06)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"on": "none"}, "no column 'none'"),
        ({"on": []}, r"on is \[\]; valid: a column's name"),
        ({"how": "full"}, "how is 'full'; valid: inner, left, leftsemi, leftanti"),
        ({"workers": 0}, "workers is 0"),
        ({"on": "m"}, "column 'm' is string on the left and bigint on the right; valid: one type"),
    ],
)
def test_what_does_not_fit_is_refused(session, given, says):
    left, right = make_sides(session)
    left, right = left.withColumn("m", F.lit("a")), right.withColumn("m", F.col("r"))
    with pytest.raises(UsageError, match=says):
        balanced_join(left, right, **({"on": "k"} | given))


def test_a_session_that_would_shuffle_anew_is_refused(session):
    session.conf.set(CO_PARTITION, "true")
    with pytest.raises(UsageError, match=rf"{CO_PARTITION} is true.*spark.conf.set"):
        balanced_join(*make_sides(session), "k")


def test_a_stream_is_refused(session):
    left, right = make_sides(session)
    stream = session.readStream.format("rate").load()
    for sides in ((stream, right), (left, stream)):
        with pytest.raises(UsageError, match="one side of balanced_join is a stream"):
            balanced_join(*sides, "k")
