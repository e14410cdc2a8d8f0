"""The join in Spark itself: a join of two streams, with salts or without.

    python join.py BOOTSTRAP LEFT RIGHT OUTPUT WORKERS CHECKPOINT LATE_MS SALTS JARS

After https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Stream-stream Joins", "Inner
Joins with optional Watermarking", "RocksDB state store implementation") and
.../streaming/structured-streaming-kafka-integration.html. With more than 0 salts a left row gets a random one, and
a right row is there once with each, so that a key's left rows are at several tasks. The batches are those of ours: both
streams are read in step, and the watermark moves from batch to batch, so that rows are removed.
"""

import sys

from pyspark.sql import functions as F

from evidence.engines.joins import WITHIN_MS
from evidence.engines.queries import read_sides, session, stateful, write


def main() -> None:
    bootstrap, *topics, output, workers, checkpoint, late_ms, salts, jars = sys.argv[1:]
    spark = session("join", workers, jars, stateful(workers) | {"spark.driver.memory": "2g"})
    sides = read_sides(spark, bootstrap, topics)
    left, right = (side.withWatermark("at", f"{late_ms} milliseconds") for side in sides)
    keys = "l.key = r.key"
    if int(salts):
        left = left.withColumn("salt", F.floor(F.rand() * int(salts)).cast("int"))
        right = right.withColumn("salt", F.explode(F.sequence(F.lit(0), F.lit(int(salts) - 1))))
        keys += " AND l.salt = r.salt"
    bound = f"INTERVAL {WITHIN_MS} MILLISECONDS"
    close = F.expr(f"{keys} AND r.at BETWEEN l.at - {bound} AND l.at + {bound}")
    pairs = left.alias("l").join(right.alias("r"), close)
    record = F.struct("l.key", F.col("l.id").alias("left"), F.col("r.id").alias("right"))
    write(pairs.select(F.to_json(record).alias("value")), bootstrap, output, checkpoint)


if __name__ == "__main__":
    main()
