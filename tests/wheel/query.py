"""A user's queries with `unskew` on whichever Spark there is: Parquet files in, Parquet files out.

    python query.py MASTER FOLDER apart|together KIND:GROUPING ...

MASTER: local[2,4] (two cores, four attempts of a task); connect, for a Spark Connect server in this process; or sc://…,
which needs no more than a client. The files of FOLDER/in are a stream, a file a batch, or a static DataFrame. Query
KIND:GROUPING drains them into FOLDER/KIND-GROUPING/out. (Instead of a grouping, joins have a type, tables a format.)
The queries run one after the other, or all at the same time. Where one fails, the others go on, and
FOLDER/KIND-GROUPING/error says why. ``names:FUNCTION`` is a private name of pyspark, used by the function of
``unskew.spark.compat``.
"""

import json
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import unskew.spark.compat as names
from unskew import (
    balance,
    balanced_join,
    balanced_lookup,
    balanced_map,
    balanced_write,
    check_session,
    keyed_map,
    observed,
    spark_settings,
    watch,
)
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import Distinct, Sessions

WORKERS = 4
ROWS = "key string, id long, at timestamp"
ARROW = pa.schema({"key": pa.string(), "id": pa.int64(), "at": pa.timestamp("us", "UTC")})
#: Functions of ``unskew.spark.compat`` by private names of pyspark → their use. The library needs these wherever it
#: runs.
NAMES = {
    "is_remote": lambda df: (not names.is_remote(df.sparkSession)) == hasattr(df, "_jdf"),
    "arrow_type": lambda df: names.convert_type_to_arrow(df.schema["key"].dataType) == pa.string(),
    "arrow_schema": lambda df: names.convert_schema_to_arrow(df.schema) == ARROW,
    "spark_schema": lambda df: names.convert_schema_to_arrow(names.convert_schema_to_spark(ARROW)) == ARROW,
    "plan_of": lambda df: "Scan" in names.get_plan(df),
}
#: These it needs in a session that isn't Spark Connect's.
CLASSIC = {
    "keeps_order": names.keeps_order,
    "java_session": lambda df: names.get_java_session(df.sparkSession).sessionState().newHadoopConf() is not None,
    "jvm": lambda df: names.get_jvm().java.lang.System.currentTimeMillis() > 0,
}


def session(master):
    builder = SparkSession.builder
    if master.startswith("sc:"):
        spark = builder.remote(master).getOrCreate()
        for each in check_session(spark, workers=WORKERS, cores=WORKERS):
            if each.settable:
                spark.conf.set(each.setting, each.wants)
    else:
        builder = builder.config(map={"spark.ui.enabled": "false", **spark_settings(workers=WORKERS)})
        spark = (builder.remote("local[2,4]") if master == "connect" else builder.master(master)).getOrCreate()
    lacks = {each.setting for each in check_session(spark, workers=WORKERS, cores=WORKERS)}
    # The variable is of the environment, and the server of a thin client has Spark's own daemon.
    assert lacks <= {"PYSPARK_PYTHON", *(["spark.python.daemon.module"] if master.startswith("sc:") else [])}, lacks
    return spark


def placed(df, grouping, checkpoint):
    # By default BOUNDED_LOAD leaves keys whole for more rows than these.
    own = {"window": 200} if grouping == "BOUNDED_LOAD" else {}
    rows = observed(balance(df, "key", WORKERS, grouping, checkpoint, **own), "key", WORKERS)
    return rows.select("key", "id", "worker", F.spark_partition_id().alias("partition"))


def mapped(df, grouping, checkpoint):
    def work(batches):
        for batch in batches:
            yield pa.record_batch({"key": batch.column("key").cast(pa.string()), "id": batch.column("id")})

    return balanced_map(df, "key", WORKERS, work, "key string, id long", grouping, checkpoint, observe="unskew")


def ids(df, grouping, checkpoint):
    every = None if grouping in SINGLE_OWNER else "1 batch"
    work = Distinct("id", "int64")
    found = keyed_map(df, "key", WORKERS, work, grouping, checkpoint, ttl=86_400.0, merge_every=every, observe="unskew")
    return found.select("key", "id")


def sessions(df, grouping, checkpoint):
    found = keyed_map(df, "key", WORKERS, Sessions(gap=2.0), grouping, checkpoint, time="at", lateness=20.0)
    return found.select("key", "start", "last", "count")


def priced(df, grouping):
    """By two columns, some of them null; rows have costs, and workers differ."""
    user = F.when(F.col("key") != "u3", F.col("key")).alias("user")
    key = [user, (F.col("id") % 5).cast("decimal(9, 2)").alias("price")]
    work, weights = Distinct("id", "int64"), [1, 1, 1, 2]
    found = keyed_map(df, key, WORKERS, work, grouping, ttl=86_400.0, cost="id", weights=weights)
    return found.select("user", "price", "id")


def name_keys(keys):
    """All keys but u9 have a name."""
    known = [key for key in keys.to_pylist() if key != "u9"]
    return pa.table({"key": known, "name": [f"name of {key}" for key in known]})


def named(df, grouping, checkpoint):
    rows = balanced_lookup(df, "key", WORKERS, name_keys, "name string", grouping, checkpoint)
    return rows.select("key", "id", "name")


def paired(df, how, checkpoint):
    """With the rows whose number is divisible by seven, within a second."""
    others = df.where("id % 7 = 0")
    times = {"left_time": "at", "right_time": "at", "within": "1 s", "lateness": "20 s"}
    pairs = balanced_join(df, others, "key", WORKERS, how, checkpoint, **times)
    return pairs.where("key != 'end'").select("key", "id", "id_right")  # whose row may still get a partner


def joined(df, how):
    """With a name for each key."""
    df.sparkSession.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    names_of = df.where("key != 'u9'").select("key", F.concat(F.lit("name of "), "key").alias("name")).distinct()
    return balanced_join(df, names_of, "key", WORKERS, how).select("key", "id", "name")


#: What is done with a static DataFrame, by kind.
STATIC = {
    "static": lambda df, grouping, out: placed(df, grouping, None).write.parquet(out),
    "priced": lambda df, grouping, out: priced(df, grouping).write.parquet(out),
    "joined": lambda df, how, out: joined(df, how).write.parquet(out),
    "table": lambda df, kind, out: balanced_write(df, out, "key", WORKERS, kind),
}
#: The queries of streams, by kind.
STREAMS = {"rows": placed, "map": mapped, "ids": ids, "sessions": sessions, "named": named, "paired": paired}


def started(spark, kind, grouping, folder, own):
    """The stream's query. (The static DataFrame's ends here.)"""
    source, out = str(folder / "in"), str(own / "out")
    if kind == "names":
        used = (NAMES | CLASSIC)[grouping]
        assert used(spark.read.schema(ROWS).parquet(source))
        return None
    if kind in STATIC:
        STATIC[kind](spark.read.schema(ROWS).parquet(source), grouping, out)
        return None
    stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(source)
    checkpoint = str(own / "checkpoint")
    made = STREAMS[kind](stream, grouping, checkpoint)
    writer = made.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


@contextmanager
def noted(own):
    """Note why a query fails."""
    try:
        yield
    except Exception:  # noqa: BLE001  whatever this Spark raises
        (own / "error").write_text(traceback.format_exc())


def main(master, folder, order, *wanted):
    spark = session(master)
    running = []
    for name in wanted:
        own = folder / name.replace(":", "-")
        own.mkdir(exist_ok=True)
        with noted(own):
            query = started(spark, *name.split(":"), folder, own)
            if query and order == "apart":
                query.awaitTermination()
                if name.startswith(("rows:", "map:", "ids:")):
                    loads = zip(*(row.loads for row in watch(query).rows()), strict=True)
                    (own / "loads.json").write_text(json.dumps([sum(each) for each in loads]))
                    with watch(query).serve() as page, urlopen(page.url) as answer:
                        (own / "metrics").write_bytes(answer.read())
            elif query:
                running.append((query, own))
    for query, own in running:
        with noted(own):
            query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
