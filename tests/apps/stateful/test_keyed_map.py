"""`keyed_map` in a job of the user's: files in, Parquet out; Spark keeps the states."""

import os
import sys
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData

from tests.apps.stateful import driver
from tests.apps.stateful.driver import Hoard, Tally
from tests.apps.stateful.in_time import in_time
from tests.harness.streams import drain_to_files, draw_users, read_in_order, write_in_order
from tests.tiers import nightly, nightly_but
from unskew import durations, keyed_map, watch
from unskew.apps.driver.termination import describe_cause
from unskew.errors import UsageError
from unskew.grouping.registry import CAPPED
from unskew.operators import PerKey, Sessions
from unskew.spark.compat import choose_tokens

ROWS, FILES, START = 400, 5, 1_700_000_000_000
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, list[tuple[str, int, int]]]:
    """A stream of five batches, and its rows (user, value, ms): 3 s each, hot user 0; the last one is far ahead."""
    folder = tmp_path / "events"
    folder.mkdir()
    rng = np.random.default_rng(0)
    everything = []
    for number in range(FILES):
        n = ROWS if number < FILES - 1 else 1
        users = draw_users(rng, n, 0.6, 40)
        values = rng.integers(-9, 9, n).tolist()
        ms = np.sort(START + 3000 * number + rng.integers(0, 3000, n)).tolist()
        ms = ms if number < FILES - 1 else [START + 3_600_000]
        everything += zip(users, values, ms, strict=True)
        times = pa.array(ms, pa.timestamp("ms", "UTC"))
        write_in_order(folder, number, pa.table({"user": users, "value": values, "at": times}))
    return read_in_order(spark, folder), everything


def truth_of(rows):
    """User → number and sum of the values of rows (user, value, …)."""
    values = defaultdict(list)
    for user, value, *_ in rows:
        values[user].append(value)
    return {user: (len(of), sum(of)) for user, of in values.items()}


def newest(rows):
    """User → the last number and sum of a ``Tally``."""
    most: dict[str | None, tuple[int, int]] = {}
    for row in rows:
        most[row["user"]] = max(most.get(row["user"], (0, 0)), (row["n"], row["total"]))
    return most


def finished(rows):
    return {row["user"]: (row["n"], row["total"]) for row in rows if row["kind"] == "finished"}


def collect(df: DataFrame, tmp_path: Path) -> list[dict]:
    """Run the stream to its end; its rows."""
    in_time(lambda _: drain_to_files(df, tmp_path / "out", tmp_path / "cp"))
    return df.sparkSession.read.parquet(str(tmp_path / "out")).collect()


@pytest.mark.parametrize(
    ("grouping", "seconds", "none", "more"),
    [
        ("D_CHOICES", "2 seconds", timedelta(), {"source": "shard"}),
        *nightly("keyed", ("KEY", 2.0, 0.0, {}), ("SHUFFLE", timedelta(seconds=2), "0s", {"merge_every": "2 batches"})),
    ],
)
def test_windows_by_event_time(events, tmp_path, grouping, seconds, none, more):
    stream, rows = events
    sharded = stream.withColumn("shard", F.lit(0))  # of one source, which the work doesn't read
    timeless = rows[-1][1] + 1  # rows with this value have no time
    time = F.when(F.col("value") != timeless, F.col("at"))
    of = sharded, "user", 3, Tally(), grouping, str(tmp_path / "cp")
    results = keyed_map(*of, window_length=seconds, time=time, lateness=none, **more)
    assert results.columns == ["user", "window", "kind", "n", "total"]
    truth = defaultdict(list)
    for user, value, ms in rows[:-1]:
        if value != timeless:
            truth[ms // 2000 * 2000, user].append(value)
    found = {
        (round(row["window"].timestamp() * 1000), row["user"]): (row["n"], row["total"])
        for row in collect(results, tmp_path)
        if row["kind"] == "finished"
    }
    assert found == {state: (len(values), sum(values)) for state, values in truth.items()}


@pytest.mark.parametrize(
    ("grouping", "how"),
    [
        ("KEY", {"work": Tally(), "window_length": 2.0}),
        pytest.param("PLANNED", {"work": Tally(), "window_length": 2.0}, marks=pytest.mark.ci),
        *nightly(
            "keyed",
            ("D_CHOICES", {"work": Sessions(gap=0.05)}),
            ("BOUNDED_LOAD", {"work": Sessions(gap=0.05), "merge_every": "30s"}),
        ),
    ],
)
def test_a_static_frame_gives_what_the_stream_has_given_when_all_is_closed(spark, events, tmp_path, grouping, how):
    """What the stream has closed: all but its last row, which moves the clock."""
    stream, rows = events
    given = {"key": "user", "workers": 3, "grouping": grouping, "time": "at", "checkpoint": str(tmp_path / "cp"), **how}
    published = collect(keyed_map(stream, **given), tmp_path)
    last = F.timestamp_millis(F.lit(rows[-1][2]))
    static = spark.read.parquet(str(tmp_path / "events")).where(F.col("at") < last)
    found = keyed_map(static.repartition(2), **given).collect()
    finished = [row for row in published if row.asDict().get("kind") != "settled"]
    assert finished
    assert Counter(row for row in found if row.asDict().get("kind") != "settled") == Counter(finished)


@pytest.mark.parametrize(
    ("grouping", "more"), [("D_CHOICES", {}), *nightly("keyed", ("KEY", {}), ("SHUFFLE", {"merge_every": "2 batches"}))]
)
def test_sliding_windows_are_those_of_spark(spark, events, tmp_path, grouping, more):
    stream, rows = events
    given = {"key": "user", "workers": 3, "work": Tally(), "grouping": grouping, "checkpoint": str(tmp_path / "cp")}
    given |= {"window_length": "2 seconds", "window_slide": "500 milliseconds", "time": "at", "lateness": 0, **more}
    published = collect(keyed_map(stream, **given), tmp_path)
    static = spark.read.parquet(str(tmp_path / "events")).where(F.col("at") < F.timestamp_millis(F.lit(rows[-1][2])))
    by_spark = static.groupBy(F.window("at", "2 seconds", "500 milliseconds"), "user")
    truth = by_spark.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    expected = {(row["window"]["start"], row["user"]): (row["n"], row["total"]) for row in truth.collect()}
    for found in (published, keyed_map(static, **given).collect()):
        closed = [row for row in found if row["kind"] == "finished"]
        assert len(closed) == len(expected)
        assert {(row["window"], row["user"]): (row["n"], row["total"]) for row in closed} == expected
    with pytest.raises(UsageError, match="belongs to a run with states 'window 2000 ms every 500 ms', this one has"):
        keyed_map(stream, **given | {"window_slide": None})


@pytest.mark.nightly(group="keyed")
@pytest.mark.parametrize(
    ("grouping", "own"), [("KEY", True), ("PARTIAL_KEY", True), pytest.param("PARTIAL_KEY", False, id="as-spark-4.0")]
)
def test_states_outlive_batches_and_restarts(events, tmp_path, monkeypatch, grouping, own):
    """Also with what Spark 4.0 has: operators over frames of pandas, and no `repartitionById`."""
    if not own:
        for kind in (*type(events[0]).__mro__, *GroupedData.__mro__):
            for name in {"repartitionById", "transformWithState"} & vars(kind).keys():
                monkeypatch.delattr(kind, name)
    stream, rows = events
    later = [(tmp_path / "events" / f"{number:03}.parquet", tmp_path / f"{number}.later") for number in (3, 4)]
    for file, aside in later:
        file.rename(aside)
    for _ in range(2):
        split = {"merge_every": "1 batches"} if grouping != "KEY" else {}
        results = keyed_map(stream, "user", 3, Tally(), grouping, str(tmp_path / "cp"), ttl=3600.0, **split)
        found = collect(results, tmp_path)
        for file, aside in later:
            if aside.exists():
                aside.rename(file)
    assert newest(found) == truth_of(rows)


@pytest.mark.ci
def test_states_stay_where_their_partitions_were_counted(events, tmp_path, spark):
    stream, rows = events
    checkpoint, setting = tmp_path / "cp", "spark.sql.shuffle.partitions"
    before = spark.conf.get(setting)

    def defined():
        return keyed_map(stream, "user", 3, Tally(), "KEY", str(checkpoint), ttl=3600.0)

    def record():
        return orjson.loads((checkpoint / "unskew" / "run.json").read_bytes())

    try:
        spark.conf.set(setting, 2)
        query = defined()
        spark.conf.set(setting, 5)
        with pytest.raises(StreamingQueryException) as error:
            collect(query, tmp_path)
        assert describe_cause(error.value).startswith(
            f"{setting} was 2 when the operator's states got their places, and is 5 in the"
        )
        # No state is written: it begins with the query's number, and keeps that over a restart.
        query = defined()
        spark.conf.set(setting, 2)
        assert {row["user"]: row["n"] for row in sorted(collect(query, tmp_path), key=lambda row: row["n"])} == Counter(
            user for user, *_ in rows
        )
        assert (record()["statePartitions"], record()["tokens"]) == (5, choose_tokens(3, 5))
        defined()
        changed = record() | {"tokens": choose_tokens(3, 4)}
        (checkpoint / "unskew" / "run.json").write_bytes(orjson.dumps(changed))
        with pytest.raises(UsageError, match=r"belongs to a run with tokens \[.*\], this one has \["):
            defined()
    finally:
        spark.conf.set(setting, before)


def test_a_relative_checkpoint_is_where_spark_has_it(events, tmp_path, spark, monkeypatch):
    relative = os.path.relpath(tmp_path / "cp", spark._jvm.java.lang.System.getProperty("user.dir"))
    monkeypatch.chdir(tmp_path / "events")
    keyed_map(events[0], "user", 3, Tally(), "KEY", relative, ttl=3600.0)
    assert (tmp_path / "cp" / "unskew" / "run.json").exists()


@pytest.mark.nightly(group="keyed")
def test_null_keys_large_states_and_those_too_large(spark, tmp_path):
    schema = "user long, value long"
    folder = tmp_path / "in"
    spark.createDataFrame([(1, 20), (None, 1), (2, 1)], schema).coalesce(1).write.parquet(str(folder))
    stream = spark.readStream.schema(schema).parquet(str(folder))

    def again(work):
        return keyed_map(stream, "user", 2, work, "KEY", str(tmp_path / "cp"), ttl=3600.0)

    rows = collect(again(Hoard(1 << 20)), tmp_path)
    assert {(row["user"], row["total"]) for row in rows} == {(1, 20), (2, 1), (None, 1)}
    with pytest.raises(UsageError, match=r"belongs to a run with state .*'all'.*: give the same, or another"):
        again(Tally())
    with pytest.raises(UsageError, match="belongs to a run with groupingType 'KEY', this one has 'D_CHOICES'"):
        keyed_map(stream, "user", 2, Hoard(1 << 20), "D_CHOICES", str(tmp_path / "cp"), ttl=3600.0)
    with pytest.raises(UsageError, match=r"belongs to a run with keyColumns \['user'\], this one has \['value'\]"):
        keyed_map(stream, "value", 2, Hoard(1 << 20), "KEY", str(tmp_path / "cp"), ttl=3600.0)
    spark.createDataFrame([(1, 30)], schema).coalesce(1).write.mode("append").parquet(str(folder))
    with pytest.raises(StreamingQueryException) as error:
        collect(again(Hoard(1 << 20)), tmp_path)
    assert describe_cause(error.value).startswith("the state of key 1 has 52,428,8")


@pytest.mark.parametrize("grouping", ["BOUNDED_LOAD", *nightly("keyed", "PLANNED")])
def test_costs_and_weights(spark, tmp_path, grouping):
    """Neither changes a result, in a stream and in a static frame; nor does a most number of workers of a key."""
    schema = "user string, value long, ms double"
    rows = [(f"u{n % 5}", n, float(n % 11)) for n in range(300)]
    spark.createDataFrame(rows, schema).repartition(2).write.parquet(str(tmp_path / "in"))
    stream = read_in_order(spark, tmp_path / "in")
    given = {"ttl": 3600.0, "merge_every": "1 batches", "cost": F.col("ms") * 2, "weights": [1, 2, 1]}
    if grouping in CAPPED:
        given["most_workers"] = 2
    expected = truth_of(rows)
    streamed = keyed_map(stream, "user", 3, Tally(), grouping, str(tmp_path / "cp"), **given)
    assert newest(collect(streamed, tmp_path)) == expected
    static = spark.read.schema(schema).parquet(str(tmp_path / "in"))
    found = keyed_map(static, "user", 3, Tally(), grouping, **given).collect()
    assert finished(found) == expected


READER = PerKey(
    lambda key, tuples, state: ([], {"n": 1}),
    state=pa.schema([("n", pa.int64())]),
    results=pa.schema([("n", pa.int64())]),
)
KEYS = {
    "date": lambda: F.date_add(F.lit("1969-12-30").cast("date"), (F.col("value") % 5).cast("int")).alias("day"),
    "timestamp": lambda: F.timestamp_micros(F.col("value") % 5 - 2).alias("at"),
    "boolean": lambda: (F.col("value") % 2 == 0).alias("even"),
    "decimal": lambda: (F.col("value") % 5).cast("decimal(20, 3)").alias("price"),
    "double": lambda: (
        F.when(F.col("value") % 4 == 0, float("nan")).when(F.col("value") % 4 == 1, -0.0).otherwise(0.1).alias("x")
    ),
    "expression": lambda: F.upper("user").alias("USER"),
    "struct": lambda: F.when(
        F.col("value") % 3 != 0,
        F.struct(
            F.when(F.col("value") % 2 == 0, F.col("user")).alias("who"), F.col("user").cast("binary").alias("raw")
        ),
    ).alias("both"),
    "list": lambda: ["user", (F.col("value") % 2 == 0).alias("even")],
}


@pytest.mark.parametrize("kind", nightly_but(["list"], KEYS, "keyed"))
def test_results_have_the_key_in_its_own_type_and_name(spark, tmp_path, kind):
    """A stream's, and those of a static frame: as Spark groups the rows."""
    schema = "user string, value long"
    rows = [(None if n % 7 == 0 else f'u"{n % 3}', n) for n in range(60)]
    spark.createDataFrame(rows, schema).repartition(2).write.parquet(str(tmp_path / "in"))
    static = spark.read.schema(schema).parquet(str(tmp_path / "in"))
    stream = read_in_order(spark, tmp_path / "in")
    key = KEYS[kind]()
    parts = key if isinstance(key, list) else [key]
    grouped = static.groupBy(*parts).agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    expected = Counter(map(str, grouped.collect()))
    given = {"workers": 3, "work": Tally(), "grouping": "KEY", "ttl": 3600.0}
    found = keyed_map(static, key, **given)
    assert found.drop("kind").dtypes == grouped.dtypes
    assert Counter(map(str, found.where("kind = 'finished'").drop("kind").collect())) == expected
    streamed = keyed_map(stream, key, **given, checkpoint=str(tmp_path / "cp"))
    names = [name for name, _ in grouped.dtypes[:-2]]
    published = [{**row.asDict(), "user": str([row[name] for name in names])} for row in collect(streamed, tmp_path)]
    true = {str([row[name] for name in names]): (row["n"], row["total"]) for row in grouped.collect()}
    assert newest(published) == true
    with pytest.raises(UsageError, match="belongs to a run with keyType '"):
        keyed_map(stream, F.col("value").cast("decimal(9, 1)"), **given, checkpoint=str(tmp_path / "cp"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grouping": None}, "unknown grouping None; valid: SHUFFLE"),
        ({"workers": "2"}, "workers is '2'; valid: an integer of at least 1"),
        ({"cost": "ms"}, "KEY can't use a cost; valid: FULL_KNOWLEDGE, BOUNDED_LOAD, PLANNED"),
        ({"cost": "ms", "grouping": "PLANNED"}, "there is no column 'ms'; valid: timestamp, value"),
        ({"checkpoint": ""}, "checkpoint is ''; valid: the query's checkpointLocation"),
        ({"checkpoint": None}, "checkpoint is None"),
        ({"key": "who"}, "there is no column 'who'; valid: timestamp, value"),
        ({"key": ["value", "who"]}, "there is no column 'who'; valid: timestamp, value"),
        ({"key": "timestamp", "work": READER}, "PerKey reads the key, which is timestamp; valid for it: one column, s"),
        ({"work": Sessions}, "work is the class Sessions; valid: Sessions"),
        ({"work": Tally.update}, "work is <function .*; valid: one of unskew.operators"),
        ({"work": Tally("speed")}, "Tally reads the column 'speed', which there isn't; valid: timestamp, value"),
        ({"merge_every": "5s"}, "merge_every is '5s', but KEY splits no keys"),
        (
            {"window_length": "2 months", "ttl": None},
            "window_length is '2 months'; valid: a duration of at least 0.001 s: a timedelta",
        ),
        ({"lateness": "late"}, "lateness is 'late'; valid: a duration of at least 0 s"),
    ],
)
def test_bad_arguments(spark, tmp_path, given, message):
    valid = {"key": "value", "workers": 2, "work": Tally(), "grouping": "KEY", "checkpoint": str(tmp_path), "ttl": 5.0}
    stream = spark.readStream.format("rate").load()
    assert keyed_map(stream, **valid).columns == ["value", "kind", "n", "total"]
    assert keyed_map(stream, **valid | {"grouping": "key"}).columns == ["value", "kind", "n", "total"]
    with pytest.raises(UsageError, match=message):
        keyed_map(stream, **valid | given)
    static = spark.range(1).select(F.col("id").alias("value"), F.current_timestamp().alias("at"))
    assert keyed_map(static, **valid).columns == ["value", "kind", "n", "total"]
    with pytest.raises(
        UsageError, match=r"ttl is 5\.0, but a DataFrame that isn't a stream has no clock; valid: window_length"
    ):
        keyed_map(static, **valid, time="at")


def test_durations_are_read_as_spark_reads_them(spark):
    for text in (
        *("1 week 2 days", "INTERVAL 10 Minutes", "1 hour 30 minutes"),
        *("500 milliseconds 250 microseconds", "1.5 second"),
    ):
        later = spark.range(1).select(F.expr(f"timestamp_micros(0) + CAST('{text}' AS INTERVAL)").alias("later"))
        assert later.select(F.unix_micros("later")).first()[0] == round(1e6 * durations.parse_seconds("text", text))


def test_columns_of_any_name(spark):
    rows = spark.createDataFrame(
        [("ann", 1, 2), ("bob", 2, 3), ("ann", 3, 4)], "`user.id` string, value int, Value int"
    )
    given = {"workers": 3, "work": Tally(), "window_length": 60.0}
    rows = rows.withColumn("at", F.timestamp_seconds(F.lit(1)))
    for key, first in (
        ("`user.id`", ("ann", 2, 4)),
        (["`user.id`"], ("ann", 2, 4)),
        (["`user.id`", "at"], ("ann", 2, 4)),
    ):
        found = keyed_map(rows, key, **given, time="at", grouping="KEY")
        done = found.where("kind = 'finished'").orderBy("`user.id`").first()
        assert (done["user.id"], done["n"], done["total"]) == first


def test_a_time_that_is_far_ahead_closes_no_window(events, tmp_path):
    """In the first batch are rows of the year 2099, and in the third some without a time."""
    stream, everything = events
    wrong = {"u1": "timestamp'2099-01-01'", "u2": "null"}
    at = F.col("at")
    for user, time in wrong.items():
        at = F.when(F.col("user") == user, F.expr(time)).otherwise(at)
    of = stream, "user", 3, Tally(), "KEY", str(tmp_path / "cp")
    work = keyed_map(*of, window_length=2.0, time=at, lateness=0.0, observe="unskew")
    writer = work.writeStream.format("memory").queryName("ahead").option("checkpointLocation", str(tmp_path / "cp"))
    query = in_time(lambda _: writer.trigger(availableNow=True).start())
    in_time(lambda _: query.awaitTermination())
    rows = stream.sparkSession.table("ahead").where("kind = 'finished'").collect()
    right = Counter((user, ms - ms % 2000) for user, _, ms in everything[:-1] if user not in wrong)
    assert Counter({(row["user"], round(row["window"].timestamp() * 1000)): row["n"] for row in rows}) == right
    rejected = sum(user in wrong for user, *_ in everything)
    assert sum(batch.rejected for batch in watch(query).rows()) == rejected > 0
    assert sum(batch.tuples for batch in watch(query).rows()) == len(everything) - rejected
