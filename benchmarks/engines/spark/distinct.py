"""Distinct keys in Spark itself: ``dropDuplicates``.

    python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD WORKERS CHECKPOINT JARS

After https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Streaming Deduplication",
"RocksDB state store implementation") and .../streaming/structured-streaming-kafka-integration.html. There is no
watermark: a key is remembered for ever. Batches and state store are those of ``program.py``.
"""

import sys
from functools import reduce

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F


def main() -> None:
    bootstrap, topic, output, field, workers, checkpoint, jars = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{workers}]").appName("dropDuplicates").config("spark.jars", jars)
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", workers)
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = builder.config("spark.sql.streaming.stateStore.providerClass", provider).getOrCreate()
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2_000_000)
        .load()
    )
    path = field.split(".")
    schema = reduce(lambda inner, parent: f"{parent} struct<{inner}>", reversed(path[:-1]), f"{path[-1]} string")
    key = reduce(Column.__getitem__, path, F.from_json(F.col("value").cast("string"), schema)).alias("key")
    query = (
        messages.select(key, "value")
        .dropDuplicates(["key"])
        .writeStream.format("kafka")
        .outputMode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", output)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
