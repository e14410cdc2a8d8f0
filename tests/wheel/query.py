"""A user's query with `unskew` on whichever Spark there is: Parquet files in, Parquet files out.

    python query.py static|rows|map|ids|sessions GROUPING MASTER FOLDER

MASTER: local[2]; connect, for a Spark Connect server in this process; or sc://…, which needs no more than a client. The
stream of FOLDER/in, a file a batch, is drained into FOLDER/out, beside FOLDER/checkpoint.
"""

import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from unskew import balance, balanced_map, keyed_map
from unskew.works import Distinct, Sessions

WORKERS = 4
STATE = "org.apache.spark.sql.execution.streaming"
ROWS = "key string, id long, at timestamp"


def session(master):
    provider = "state.RocksDBStateStoreProvider"
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(WORKERS),
        "spark.sql.streaming.stateStore.providerClass": f"{STATE}.{provider}",
    }
    builder = SparkSession.builder
    if master.startswith("sc:"):
        spark = builder.remote(master).getOrCreate()
        for name, value in settings.items():
            if name.startswith("spark.sql."):
                spark.conf.set(name, value)
        return spark
    builder = builder.config(map=settings)
    return (builder.remote("local[2]") if master == "connect" else builder.master(master)).getOrCreate()


def placed(df, grouping, checkpoint):
    rows = balance(df, "key", WORKERS, grouping, checkpoint)
    return rows.select("key", "id", "worker", F.spark_partition_id().alias("partition"))


def mapped(df, grouping, checkpoint):
    def work(batches):
        for batch in batches:
            yield pa.record_batch({"key": batch.column("key").cast(pa.string()), "id": batch.column("id")})

    return balanced_map(df, "key", WORKERS, work, "key string, id long", grouping, checkpoint)


def ids(df, grouping, checkpoint):
    every = None if grouping == "KEY" else "1 batch"
    work = Distinct("id", "int64")
    return keyed_map(df, "key", WORKERS, work, grouping, checkpoint, ttl=86_400.0, merge_every=every).select(
        "key", "id"
    )


def sessions(df, grouping, checkpoint):
    found = keyed_map(df, "key", WORKERS, Sessions(gap=2.0), grouping, checkpoint, time="at", lateness=20.0)
    return found.select("key", "start", "last", "count")


def main(kind, grouping, master, folder):
    spark = session(master)
    source, out = str(folder / "in"), str(folder / "out")
    if kind == "static":
        placed(spark.read.schema(ROWS).parquet(source), grouping, None).write.parquet(out)
    else:
        stream = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(source)
        checkpoint = str(folder / "checkpoint")
        made = {"rows": placed, "map": mapped, "ids": ids, "sessions": sessions}[kind](stream, grouping, checkpoint)
        writer = made.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
