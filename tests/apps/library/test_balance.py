"""`balance` and `balanced_map` in somebody else's job: files in, Parquet out, nothing of our topology."""

import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew.apps.library.balance
from tests.harness.streams import drain_to_files, read_in_order, write_in_order
from tests.tiers import nightly, nightly_but
from unskew import balanced_join, balanced_lookup, kafka_sink, keyed_map, observed
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.termination import describe_cause
from unskew.apps.library.balance import balance, balanced_map
from unskew.apps.router import tuple_packets
from unskew.errors import UsageError
from unskew.grouping import create
from unskew.grouping.registry import CAPPED
from unskew.operators import Sessions
from unskew.spark.micro_batches import count_sources, get_partition

pytestmark = pytest.mark.spark

ROWS = 600
FILES = 5
KEY_TYPES = {"string": str, "int": int, "binary": lambda n: b"%d" % n}


@pytest.fixture
def events(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of five batches: hot user 0, a nested payload that the router must leave alone."""
    key_type = getattr(request, "param", "string")
    folder = tmp_path / "events"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(FILES):
        users = [
            KEY_TYPES[key_type](0 if hot else int(n))
            for hot, n in zip(rng.random(ROWS) < 0.6, rng.integers(1, 99, ROWS), strict=True)
        ]
        rows = {"user_id": users, "payload": [{"n": number * ROWS + i} for i in range(ROWS)]}
        write_in_order(folder, number, pa.table(rows))
    return read_in_order(spark, folder)


def collect(df: DataFrame, tmp_path: Path) -> list[dict]:
    """Run the stream to its end; its rows."""
    out = str(tmp_path / "out")
    drain_to_files(df, out, tmp_path / "cp")
    return df.sparkSession.read.parquet(out).collect()


CASES = [
    ("PARTIAL_KEY", "binary"),
    *nightly("groupings", ("KEY", "string"), ("KEY", "int"), ("SHUFFLE", "string"), ("DYNAMIC_KEY", "int")),
]


@pytest.mark.parametrize(("grouping", "events"), CASES, indirect=["events"])
def test_rows_are_placed_where_the_grouping_says(events, tmp_path, grouping):
    placed = balance(events, key="user_id", workers=6, grouping=grouping, checkpoint=str(tmp_path / "cp"))
    rows = collect(placed.withColumn("partition", F.spark_partition_id()), tmp_path)
    assert sorted(row["payload"]["n"] for row in rows) == list(range(ROWS * FILES))
    assert all(row["partition"] == row["worker"] for row in rows)
    workers = defaultdict(set)
    for row in rows:
        workers[row["user_id"] if not isinstance(row["user_id"], bytearray) else bytes(row["user_id"])].add(
            row["worker"]
        )
    most = {"KEY": 1, "PARTIAL_KEY": 2, "SHUFFLE": 6, "DYNAMIC_KEY": 2}[grouping]
    assert max(len(w) for w in workers.values()) == most


@pytest.mark.ci
@pytest.mark.parametrize(("named", "events"), [(False, "int"), (True, "string")], indirect=["events"])
def test_with_what_spark_4_0_has(events, tmp_path, monkeypatch, named):
    """Without `arrow_udf` and `repartitionById`, which came with 4.1; DYNAMIC_KEY has times, and null is a key."""
    monkeypatch.delattr(F, "arrow_udf")
    for kind in type(events).__mro__:
        if "repartitionById" in vars(kind):
            monkeypatch.delattr(kind, "repartitionById")
    some_null = events.withColumn("user_id", F.when(F.col("user_id") != F.lit("7"), F.col("user_id")))
    source = F.lit(0) if named else None
    placed = balance(some_null, "user_id", 6, "DYNAMIC_KEY", str(tmp_path / "cp"), source=source)
    rows = collect(placed.withColumn("partition", F.spark_partition_id()), tmp_path)
    assert sorted(row["payload"]["n"] for row in rows) == list(range(ROWS * FILES))
    assert all(row["partition"] == row["worker"] for row in rows)
    assert len({row["worker"] for row in rows if row["user_id"] is None}) <= 2


@pytest.mark.parametrize("mapped", [False, *nightly("groupings", True)])
def test_a_row_far_ahead_of_the_clock_is_placed_and_puts_no_clock_on(events, tmp_path, mapped):
    """It counts as of the time of the row before. With its own time, others would go elsewhere."""
    n, start, ahead = F.col("payload.n"), 1_700_000_000_000, 700
    at = F.timestamp_millis(F.when(n == ahead, 253_402_300_799_000).otherwise(start + 100 * n))
    own = {"warm_up": 1, "check_interval": 1, "promotion_period": 5}
    how = {"grouping": "DYNAMIC_KEY", "checkpoint": str(tmp_path / "cp"), "source": F.lit(0), "time": "at", **own}
    rows = events.select("user_id", n.alias("n"), at.alias("at"))

    def place(batches):
        for batch in batches:
            part = pa.array([TaskContext.get().partitionId()] * batch.num_rows)
            yield pa.record_batch({"user_id": batch.column("user_id"), "n": batch.column("n"), "worker": part})

    schema = "user_id string, n long, worker long"
    placed = balanced_map(rows, "user_id", 6, place, schema, **how) if mapped else balance(rows, "user_id", 6, **how)
    found = sorted(collect(placed, tmp_path), key=lambda row: row["n"])
    users, times = [row["user_id"] for row in found], start + 100 * np.arange(ROWS * FILES)
    workers = []
    for moment in (times[ahead - 1], 253_402_300_799_000):
        times[ahead] = moment
        workers.append(create("DYNAMIC_KEY", 6, **own).route(users, times=times).tolist())
    assert [row["worker"] for row in found] == workers[0] != workers[1]


def test_work_over_packets(events, tmp_path):
    """The key is as plain as the other columns, though packets have it encoded."""
    names, key = events.columns, pa.string()

    def work(batches):
        seen = 0
        for batch in batches:
            assert (batch.schema.names, batch.schema.field("user_id").type) == (names, key)
            seen += batch.num_rows
        if seen:
            yield pa.record_batch([pa.array([seen])], ["n"])

    counted = balanced_map(events, "user_id", 4, work, "n long", "PARTIAL_KEY", str(tmp_path / "cp"))
    rows = collect(counted, tmp_path)
    assert sum(row["n"] for row in rows) == ROWS * FILES
    assert FILES <= len(rows) <= 4 * FILES  # once a worker and batch


@pytest.mark.parametrize(
    ("grouping", "own"),
    [("MIXED", {"theta_max": 0.0, "window": 1}), *nightly("groupings", ("POSG", {"window": 64, "tolerance": 0.5}))],
)
def test_workers_over_packets_give_feedback(events, tmp_path, grouping, own):
    """The plan of a batch is made of the times of the one before. Each row comes once, and nothing else does."""

    def work(batches):
        for batch in batches:
            yield pa.record_batch({"user": batch.column("user_id"), "n": batch.column("payload").field("n")})

    given = events, "user_id", 6, work, "user string, n long", grouping, str(tmp_path / "cp")
    rows = collect(balanced_map(*given, **own), tmp_path)
    assert sorted(row["n"] for row in rows) == list(range(ROWS * FILES))
    state = PlanStateLog(str(tmp_path / "cp")).newest()
    assert state is not None
    if grouping == "MIXED":
        assert state.active is not None, "some worker of each batch is slower than another"
    with pytest.raises(UsageError, match="name is 'other', but a query has the plans of one call alone"):
        balanced_map(*given, **own, name="other")


@pytest.mark.parametrize("key_type", ["string", "bigint", "binary"])
def test_null_is_a_key_of_its_own(spark, key_type):
    """All rows come to the work, those without a key to one worker: by KEY the worker that `balance` gives them."""
    key = F.when(F.col("id") % 3 != 0, F.col("id") % 20).cast("string").cast(key_type)
    rows = spark.range(600).select(key.alias("user"), "id")

    def number(batches):
        for batch in batches:
            part = pa.array([TaskContext.get().partitionId()] * batch.num_rows)
            yield pa.record_batch({"user": batch.column("user"), "id": batch.column("id"), "worker": part})

    found = balanced_map(rows, "user", 7, number, f"user {key_type}, id long, worker long", "KEY").collect()
    placed = balance(rows, "user", 7, "KEY").collect()
    assert {row.id: (row.user, row.worker) for row in found} == {row.id: (row.user, row.worker) for row in placed}
    assert len({row.worker for row in found if row.user is None}) == 1
    assert sum(row.user is None for row in found) == 200


def test_a_batch_job_needs_no_checkpoint(spark):
    df = spark.range(1000).withColumn("key", F.col("id") % 10)
    placed = balance(df, key="key", workers=3, grouping="KEY").withColumn("partition", F.spark_partition_id())
    assert placed.where("partition != worker").count() == 0
    assert placed.groupBy("key").agg(F.count_distinct("worker").alias("n")).where("n > 1").count() == 0


@pytest.fixture
def routed(spark, monkeypatch):
    """The number of rows that routers have routed, as an accumulator."""
    rows = spark.sparkContext.accumulator(0)

    def counting(*given):
        route = tuple_packets.make_column_router(*given)

        def workers(batches):
            def seen():
                for columns in batches:
                    rows.add(len(columns[0]))
                    yield columns

            return route(seen())

        return workers

    monkeypatch.setattr(unskew.apps.library.balance, "make_column_router", counting)
    return rows


W = 6
# What a plan may do with rows that are placed: → (rows with `n` and `worker`, whether they stay in their partitions).
# A rule of Spark's that moves or copies an expression applies to one or several of these.
PLANS = {
    "worker": lambda placed: (placed.where("worker = 3"), True),
    "column": lambda placed: (placed.where("n % 7 = 0"), True),
    "both": lambda placed: (placed.where("worker > 1 and n % 7 = 0 or user_id = 0"), True),
    "project": lambda placed: (placed.select("worker", "n"), True),
    "repeated": lambda placed: (
        placed.selectExpr("n", "worker", "worker + 1 as next", "worker * 2 as twice")
        .where("next = 2 or twice = 8")
        .where("worker = next - 1 and twice = 2 * worker"),
        True,
    ),
    "join": lambda placed: (placed.join(F.broadcast(numbers(placed).where("n % 2 = 0")), "n"), True),
    "join by worker": lambda placed: (placed.join(F.broadcast(workers(placed)), "worker"), True),
    "self-join": lambda placed: (
        placed.select("n", "worker").alias("a").join(placed.select("n", "worker").alias("b"), ["n", "worker"]),
        False,
    ),
    "union": lambda placed: (placed.where("worker < 4").unionByName(placed.where("worker > 2")), True),
    "distinct": lambda placed: (placed.select("n", "worker").distinct(), False),
    "limit": lambda placed: (placed.select("n", "worker").limit(50), False),
}
# What is expected of them, of rows (n, user, worker).
TRUTH = {
    "worker": lambda n, user, worker: worker == 3,
    "column": lambda n, user, worker: n % 7 == 0,
    "both": lambda n, user, worker: (worker > 1 and n % 7 == 0) or user == 0,
    "repeated": lambda n, user, worker: worker in (1, 4),
    "join": lambda n, user, worker: n % 2 == 0,
    "join by worker": lambda n, user, worker: worker % 2 == 0,
    "union": lambda n, user, worker: (worker < 4) + (worker > 2),
}


def numbers(placed: DataFrame) -> DataFrame:
    return placed.sparkSession.range(ROWS * FILES).withColumnRenamed("id", "n")


def workers(placed: DataFrame) -> DataFrame:
    return placed.sparkSession.range(0, W, 2).selectExpr("cast(id as int) as worker")


def check(plan: str, rows: list, everything: list) -> None:
    """That nothing is lost or doubled, and each row is at the worker at which it is without the plan, in its place."""
    wanted = Counter()
    for n, user, worker in everything:
        wanted[n, worker] += int(TRUTH.get(plan, lambda *_: True)(n, user, worker))
    found = Counter((row["n"], row["worker"]) for row in rows)
    if plan == "limit":
        assert sum(found.values()) == 50
        assert found <= wanted
    else:
        assert found == +wanted
    assert all(row["partition"] % W == row["worker"] for row in rows if row["partition"] is not None)


def planned(plan: str, placed: DataFrame) -> DataFrame:
    rows, stay = PLANS[plan](placed)
    return rows.select("n", "worker", (F.spark_partition_id() if stay else F.lit(None)).alias("partition"))


@pytest.mark.parametrize("plan", nightly_but(["worker"], [*PLANS, "cache"], "groupings"))
def test_no_plan_moves_or_doubles_the_router(spark, tmp_path, routed, plan):
    df = spark.range(3000).selectExpr("id as n", "case when id % 5 < 3 then 0 else id % 97 end as user_id")
    df.repartition(3).write.parquet(str(tmp_path / "in"))  # files are read the same way each time
    placed = balance(spark.read.parquet(str(tmp_path / "in")), "user_id", W, "PARTIAL_KEY")
    everything = [(row["n"], row["user_id"], row["worker"]) for row in placed.collect()]
    assert routed.value == 3000
    if plan == "cache":
        placed = placed.cache()
        check("worker", planned("worker", placed).collect(), everything)
        check("column", planned("column", placed).collect(), everything)
        placed.unpersist()
    else:
        check(plan, planned(plan, placed).collect(), everything)
    assert routed.value - 3000 in ({3000, 6000} if plan in ("self-join", "union") else {3000})


@pytest.mark.parametrize("events", ["int"], indirect=True)
@pytest.mark.parametrize("plan", nightly_but(["worker"], PLANS, "groupings"))
def test_no_plan_moves_or_doubles_the_router_of_a_stream(events, tmp_path, routed, plan):
    numbered = events.withColumn("n", F.col("payload.n"))
    (tmp_path / "alone").mkdir()
    alone = balance(numbered, "user_id", W, "PARTIAL_KEY", str(tmp_path / "alone" / "cp"))
    everything = [(row["n"], row["user_id"], row["worker"]) for row in collect(alone, tmp_path / "alone")]
    total = ROWS * FILES
    assert routed.value == total
    placed = balance(numbered, "user_id", W, "PARTIAL_KEY", str(tmp_path / "cp"))
    check(plan, collect(planned(plan, placed), tmp_path), everything)
    assert routed.value - total in ({total, 2 * total} if plan in ("self-join", "union") else {total})


@pytest.mark.nightly(group="groupings")
def test_packets_of_a_result_that_is_used_twice(events, tmp_path):
    def work(batches):
        for batch in batches:
            yield pa.record_batch([batch.column("payload").field("n")], ["n"])

    placed = balanced_map(events, "user_id", 4, work, "n long", "SHUFFLE", str(tmp_path / "cp"))
    rows = collect(placed.where("n % 2 = 0").union(placed), tmp_path)
    assert Counter(row["n"] for row in rows) == {n: 2 - n % 2 for n in range(ROWS * FILES)}


@pytest.mark.nightly(group="groupings")
def test_routers_of_one_query_are_told_apart_by_name(events, tmp_path):
    checkpoint = str(tmp_path / "cp")
    by_user = balance(events, "user_id", 7, "SHUFFLE", checkpoint, name="users").select("worker")
    hot = balance(events.where("user_id = '0'"), "user_id", 7, "SHUFFLE", checkpoint, name="hot").select("worker")
    rows = collect(by_user.withColumn("hot", F.lit(False)).union(hot.withColumn("hot", F.lit(True))), tmp_path)
    for of in (False, True):
        loads = np.bincount([row["worker"] for row in rows if row["hot"] == of], minlength=7)
        assert loads.max() - loads.min() <= 1  # each has remembered its own turn from batch to batch
    assert sorted(path.name for path in (tmp_path / "cp" / "unskew" / "routers").iterdir()) == ["hot", "users"]


@pytest.mark.parametrize("mapped", [False, *nightly("groupings", True)])
@pytest.mark.parametrize("other", ["none", *nightly("groupings", "another")])
def test_a_checkpoint_that_is_not_the_querys(events, tmp_path, mapped, other):
    """As an executor sees it that has another disk: nothing is there, or another query's checkpoint."""
    if other == "another":
        (tmp_path / "other" / "cp").mkdir(parents=True)
        (tmp_path / "other" / "cp" / "metadata").write_text('{"id": "another"}')
    of, how = (events, "user_id", 3), ("SHUFFLE", str(tmp_path / "other" / "cp"))
    with pytest.raises(StreamingQueryException) as error:
        collect(balanced_map(*of, iter, events.schema, *how) if mapped else balance(*of, *how), tmp_path)
    assert describe_cause(error.value).startswith(
        f"the checkpoint file:{tmp_path}/other/cp is not seen by executors on "
    )
    assert f"(the query there: {other}, this one: " in describe_cause(error.value)
    assert not (tmp_path / "other" / "cp" / "unskew").exists()


def test_bad_arguments_fail_on_the_driver(spark, subtests):
    rows = spark.range(1).withColumn("half", F.lit(0.5)).withColumn("map", F.create_map("id", "half"))
    for change, message in (
        ({"grouping": "PARTIAL"}, "unknown grouping 'PARTIAL'"),
        ({"grouping": 5}, "unknown grouping 5; valid: SHUFFLE"),
        ({"workers": 0}, "workers is 0"),
        ({"grouping": "PARTIAL_KEY", "choices": 1}, "choices is 1"),
        ({"d": 3}, "has no parameter 'd'"),
        ({"checkpoint": ""}, "checkpoint is ''; valid: the query's checkpointLocation"),
        ({"name": "a/b"}, "name is 'a/b'; valid: up to 60 letters, digits, _ and -"),
        ({"source": F.col("id").cast("string")}, "source is string; valid: an integer"),
        *(({"key": key}, "there is no column 'who'; valid: id, half") for key in ("who", ["id", "who"])),
        ({"key": "map"}, "the key 'map' is map<bigint,double>; valid: string, binary, integer, float, decimal"),
        ({"key": []}, "key is []; valid: a column's name, a Column, or a list of these"),
        ({"key": 3}, "key is 3; valid: a column's name, a Column, or a list of these"),
        ({"cost": "bytes"}, "there is no column 'bytes'; valid: id, half"),
        ({"cost": F.col("id").cast("string")}, "cost is string; valid: a number"),
        ({"max_ahead": "soon"}, "max_ahead is 'soon'; valid: a duration of at least 0 s"),
        ({"grouping": "DYNAMIC_KEY", "time": "id"}, "time is bigint; valid: a timestamp"),
        *(
            ({"worker_column": name}, "there is a column 'half' already; name another one with worker_column=")
            for name in ("half", "Half")
        ),
    ):
        with subtests.test(message), pytest.raises(UsageError, match=re.escape(message)):
            balance(rows, **({"key": "id", "workers": 2} | change))


@pytest.fixture
def costly(spark):
    """The hot key has a fifth of the rows, each of which costs as much as 20 others. One in seven counts as 0."""
    bad = F.get(F.array(*map(F.lit, (None, -5.0, float("nan"), float("inf"), 1e101))), (F.col("id") % 5).cast("int"))
    cost = F.when(F.col("id") % 7 == 0, bad).when(F.col("id") % 5 == 0, 20.0).otherwise(1.0)
    user = F.when(F.col("id") % 5 == 0, F.lit("hot")).otherwise(F.concat(F.lit("u"), F.col("id") % 997))
    counts = F.when(F.col("id") % 7 == 0, 0.0).otherwise(cost)
    return spark.range(60_000, numPartitions=1).select(
        "id", user.alias("user"), cost.alias("ms"), counts.alias("counts")
    )


def loads_of(placed):
    """Each worker's cost, in the mean."""
    found = placed.groupBy("worker").agg(F.sum("counts").alias("load")).collect()
    loads = np.bincount([row.worker for row in found], [row.load for row in found], W)
    return loads / loads.mean()


@pytest.mark.parametrize("grouping", ["BOUNDED_LOAD", "PLANNED"])
@pytest.mark.parametrize("cost", ["ms", pytest.param("column", marks=pytest.mark.ci)])
def test_costs_are_balanced(costly, grouping, cost):
    """By name or as an expression, and over any type of number."""
    cost = cost if cost == "ms" else F.when(F.col("ms") < 1e9, F.col("ms")).cast("decimal(10, 2)")
    placed = balance(costly, "user", W, grouping, cost=cost)
    assert placed.columns == [*costly.columns, "worker"]
    assert placed.count() == 60_000
    assert loads_of(placed).max() <= 1.15
    assert loads_of(balance(costly, "user", W, grouping)).max() > 1.3


@pytest.mark.parametrize("grouping", ["BOUNDED_LOAD", "PLANNED"])
def test_unlike_workers(costly, grouping):
    placed = balance(costly, "user", W, grouping, weights=[1, 1, 1, 1, 1, 3])
    loads = placed.groupBy("worker").count().collect()
    shares = {row.worker: row["count"] / 60_000 * 8 for row in loads}
    assert 2 <= shares[5] <= 3.5
    assert max(shares[worker] for worker in range(5)) <= 1.3


@pytest.mark.parametrize("grouping", CAPPED)
def test_a_key_has_at_most_so_many_workers(costly, grouping):
    """Of all tasks together, whose routers know nothing of each other."""
    assert W > 2
    placed = balance(costly.repartition(4), "user", W, grouping, cost="ms", most_workers=2)
    workers = placed.groupBy("user").agg(F.countDistinct("worker").alias("n")).agg(F.max("n")).first()
    assert workers[0] == 2
    assert placed.count() == 60_000


@pytest.mark.nightly(group="groupings")
def test_costs_of_a_streams_rows_in_packets(events, tmp_path):
    """Each batch has 600 rows, of which the first 60 cost ten times as much: PLANNED plans a batch by its costs."""
    ms = F.when(F.col("payload.n") % ROWS < 60, 10).otherwise(1)

    def work(batches):
        total = 0
        for batch in batches:
            assert batch.schema.names == ["user_id", "payload", "ms"]
            total += sum(batch.column("ms").to_pylist())
        yield pa.record_batch({"total": [total], "worker": [get_partition()]})

    rows = events.withColumn("ms", ms.cast("int"))
    schema = "total long, worker long"
    placed = balanced_map(rows, "user_id", 4, work, schema, "PLANNED", str(tmp_path / "cp"), cost="ms")
    found = collect(placed, tmp_path)
    assert sum(row["total"] for row in found) == FILES * (ROWS + 9 * 60)
    loads = np.bincount([row["worker"] for row in found], [row["total"] for row in found], 4)
    assert loads.max() <= 1.1 * loads.mean()


def test_sources_are_known_without_a_job(spark):
    """A new hot key at 16 sources is spread at once. Behind an exchange Spark would have to run a job to know."""
    rows = spark.range(320_000, numPartitions=16)
    spark.sparkContext.setJobGroup("sources", "none is run")
    try:
        assert count_sources(rows) == 16
        assert count_sources(rows.where("id > 7").withColumn("n", F.col("id") + 1)) == 16
        several = rows.repartition(3)
        for unknown in (
            several,
            rows.limit(5),
            rows.join(rows.where("id = 1"), "id"),
            rows.groupBy(F.col("id") % 7).count(),
        ):
            assert count_sources(unknown) is None
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("sources")) == 0
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    user = F.when((F.col("id") % 20_000 > 10_000) & (F.col("id") % 5 < 3), 0).otherwise(1 + F.xxhash64("id") % 2_000)
    found = balance(rows.select(user.alias("user")), "user", 10).groupBy("worker").count().collect()
    assert max(row["count"] for row in found) <= 1.25 * 32_000


KEYS = {
    "struct": lambda: F.struct((F.col("id") % 7).alias("a"), F.when(F.col("id") % 3 != 0, F.col("id") % 3).alias("b")),
    "list": lambda: ["seven", F.col("id") % 3],
    "date": lambda: F.date_add(F.lit("2026-01-01").cast("date"), (F.col("id") % 21).cast("int")),
    "decimal": lambda: (F.col("id") % 21).cast("decimal(20, 3)"),
    "boolean": lambda: F.col("id") % 2 == 0,
    "array": lambda: F.array(F.col("id") % 21, F.lit(None)),
    "expression": lambda: F.concat(F.lit("user "), F.col("id") % 21),
    "double": lambda: F.when(F.col("id") % 4 < 2, F.lit(float("nan"))).when(F.col("id") % 4 == 2, 0.0).otherwise(-0.0),
}


@pytest.mark.parametrize(
    "kind", [kind if kind in ("struct", "double") else pytest.param(kind, marks=pytest.mark.ci) for kind in KEYS]
)
def test_any_key_with_equality(spark, kind):
    """Equal keys meet at a worker, as values, in packets and in Spark SQL; NaN equals NaN, and −0 equals 0."""
    rows = spark.range(2_100).withColumn("seven", F.col("id") % 7)
    key = KEYS[kind]()
    shown = F.struct(*key) if isinstance(key, list) else key

    def unpack(batches):
        for batch in batches:
            part = pa.array([get_partition()] * batch.num_rows, pa.int64())
            assert batch.schema.names == ["id", "seven"]
            yield pa.record_batch({"id": batch.column("id"), "worker": part})

    placed = balance(rows, key, W, "KEY")
    assert placed.columns == ["id", "seven", "worker"]
    workers = {row.id: row.worker for row in placed.collect()}
    by_key = placed.groupBy(shown.alias("key")).agg(F.count_distinct("worker").alias("n")).collect()
    assert {row.n for row in by_key} == {1}
    assert len(by_key) == {"boolean": 2, "double": 2}.get(kind, 21)
    assert len(by_key) == 2 or len(set(workers.values())) > 2
    mapped = balanced_map(rows, key, W, unpack, "id long, worker long", "KEY").collect()
    assert {row.id: row.worker for row in mapped} == workers
    assert balance(rows, key, W, "PLANNED").count() == 2_100


def test_a_key_is_named_as_spark_names_columns(spark):
    """A struct's field, and in any case of letters."""
    rows = spark.range(9).select(F.struct(F.col("id").alias("Who")).alias("user"))
    placed = balance(rows, "USER.who", 2, "KEY").select("user.Who", "worker").collect()
    assert [row.worker for row in sorted(placed)] == create("KEY", 2).route(list(range(9))).tolist()


def odd_columns(spark: SparkSession) -> DataFrame:
    """Rows with columns whose names a file may bring: a dot, a backtick, two that differ in the case of letters."""
    rows = [("ann", 1, 2.0, "a"), ("bob", 2, 3.0, "b"), ("ann", 3, 4.0, "c")]
    return spark.createDataFrame(rows, ["user.id", "n`th", "cost", "Cost"]).withColumn("id", F.lit(1))


def test_columns_of_any_name(spark, subtests):
    rows = odd_columns(spark)

    def count(batches):
        for batch in batches:
            assert batch.schema.names == ["user.id", "n`th", "cost", "Cost", "id"]
            yield pa.record_batch({"rows": [batch.num_rows]})

    for key in ("`user.id`", "`n``th`", "id"):
        for grouping in ("KEY", "PLANNED"):
            with subtests.test(key=key, grouping=grouping):
                assert balance(rows, key, 3, grouping).count() == 3
                found = balanced_map(rows, key, 3, count, "rows long", grouping)
                assert sum(row["rows"] for row in found.collect()) == 3
    with pytest.raises(
        UsageError,
        match=re.escape("there is no column 'user.id'; did you mean `user.id`? valid: `user.id`, `n``th`, cost"),
    ):
        balance(rows, "user.id", 3)
    with pytest.raises(UsageError, match="Spark takes 'COST' for each of the columns cost, Cost"):
        balance(rows, "COST", 3)


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM", "UNICODE_CI"])
def test_strings_that_a_collation_holds_for_equal_are_one_key(spark, collation):
    words = ["a", "A", "a ", " a", "ΟΔΟΣ", "οδος", "οδοσ", "İ", "i\u0307", "K", "k", "\u212a", "ß", "ẞ", "ab", "aB"]
    rows = spark.createDataFrame([(word,) for word in words], "word string")
    rows = rows.select(F.collate("word", collation).alias("word"))
    if collation.startswith("UNICODE"):
        for key in ("word", F.array("word"), F.struct("word")):
            with pytest.raises(UsageError, match=f"collate {collation}.*valid: string"):
                balance(rows, key, 97, "KEY")
        return
    keys = rows.groupBy("word").agg(F.collect_list(F.collate("word", "UTF8_BINARY")).alias("same")).collect()
    for key in ("word", F.struct("word")):
        worker = {row["word"]: row["worker"] for row in balance(rows, key, 97, "KEY").collect()}
        assert all(len({worker[word] for word in row["same"]}) == 1 for row in keys)
    assert len(set(worker.values())) > len(keys) // 2


def test_what_is_no_dataframe_of_spark_is_named():
    for wrong in (pd.DataFrame({"user": ["a"]}), {"user": "a"}, None):
        for call in (
            lambda df: balance(df, "user", 2),
            lambda df: balanced_map(df, "user", 2, list, "n int"),
            lambda df: keyed_map(df, "user", 2, Sessions(gap=1.0)),
            lambda df: observed(df, "user", 2),
            lambda df: kafka_sink(df, "numbers"),
            lambda df: balanced_lookup(df, "user", 2, list, "name string"),
            lambda df: balanced_join(df, df, "user"),
        ):
            with pytest.raises(
                UsageError, match=f"(df|left) is a .*{type(wrong).__name__}; valid: a DataFrame of Spark"
            ):
                call(wrong)
