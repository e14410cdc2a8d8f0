"""A user's job beside the user's own packages `apps` and `deploy`: it balances a stream and runs a work at workers.

    python job.py MASTER CONF FOLDER

It prints its results as JSON. MASTER: local[2], spark://…, or connect for a Spark Connect server of its own.
"""

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import apps
import deploy
from unskew import balance, balanced_map

WORKERS = 4

master, conf, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
builder = SparkSession.builder.config(map={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", **conf})
spark = (builder.remote("local[2]") if master == "connect" else builder.master(master)).getOrCreate()
packed = shutil.make_archive(str(folder / "users"), "zip", Path(__file__).parent)
spark.addArtifacts(packed, pyfile=True)
spark.range(3000).select(
    F.when(F.col("id") % 5 == 0, F.concat(F.lit("key "), F.col("id") % 40)).otherwise(F.lit("hot")).alias("key")
).repartition(2).write.parquet(str(folder / "in"))


def events():
    return spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def drained(df, name):
    checkpoint, out = str(folder / f"{name}-checkpoint"), str(folder / name)
    writer = df.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.read.parquet(out)


def work(batches):
    for batch in batches:
        assert apps.MINE, "the user's own package, on the executor"
        yield pa.record_batch({"key": batch.column("key").cast(pa.string())})


placed = balance(events(), "key", WORKERS, "PARTIAL_KEY", str(folder / "placed-checkpoint"))
rows = drained(placed.withColumn("partition", F.spark_partition_id()), "placed")
mapped = drained(
    balanced_map(events(), "key", WORKERS, work, "key string", "D_CHOICES", str(folder / "mapped-checkpoint")), "mapped"
)
static = balance(spark.read.parquet(str(folder / "in")), "key", WORKERS, "PLANNED")
print(
    json.dumps(
        {
            "user": [apps.MINE, deploy.MINE],
            "rows": rows.count(),
            "misplaced": rows.where("worker != partition").count(),
            "workers of the hot key": rows.where("key = 'hot'").select("worker").distinct().count(),
            "static": static.groupBy((F.col("worker") == F.spark_partition_id()).alias("right")).count().collect(),
            "mapped": {row["key"]: row["count"] for row in mapped.groupBy("key").count().collect()},
        }
    )
)
spark.stop()
