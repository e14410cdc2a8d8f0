"""Each user's sessions, from JSON in Kafka to Parquet files: killed and started again, it writes each of them once.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 examples/sessions.py SERVERS TOPIC FOLDER

The connector's version is that of your Spark. Messages are as ``{"user": "ann", "at": "2026-01-31T12:00:00Z"}``; what
lacks a user or a time is left out. FOLDER gets ``sessions`` and ``checkpoint``; all executors must see it. A session is
over after half an hour without a message of its user. It is written when the newest messages are half an hour and ten
minutes later than its last one, ten for messages that are late.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from unskew import keyed_map, spark_settings
from unskew.operators import Sessions

WORKERS = 4
MESSAGE = "user string, at timestamp"


def main(servers: str, topic: str, folder: str) -> None:
    checkpoint = f"{folder}/checkpoint"
    spark = SparkSession.builder.config(map=spark_settings(workers=WORKERS, checkpoint=checkpoint)).getOrCreate()
    # The largest batch bounds what is done again after a crash.
    kafka = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 5_000}
    messages = spark.readStream.format("kafka").options(**kafka, subscribe=topic).load()
    parsed = F.from_json(F.col("value").cast("string"), MESSAGE).alias("message")
    events = messages.select(parsed, "partition").select("message.*", "partition").dropna()
    # The hot users' states are at several workers; D_CHOICES says whose, and each batch merges them.
    sessions = keyed_map(
        events,
        "user",
        WORKERS,
        Sessions(gap="30 minutes"),
        "D_CHOICES",
        checkpoint,
        time="at",
        lateness="10 minutes",
        source="partition",
    )
    times = [F.timestamp_millis(name).alias(name) for name in ("start", "last")]
    rows = sessions.select("user", *times, "count")
    query = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint).start(f"{folder}/sessions")
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
