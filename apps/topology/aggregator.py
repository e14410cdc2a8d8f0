"""The aggregator: the workers' partial counts of a closed window merged by key."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.topology.messages import columns


def aggregate(rows: DataFrame) -> DataFrame:
    """Merge rows of (window, key, worker) to one a (window, key): tuples, count and the number of workers."""
    return rows.groupBy("window", "key").agg(
        F.sum("tuples").alias("tuples"), F.sum("count").alias("count"), F.count("worker").alias("workers")
    )


def to_messages(aggregated: DataFrame) -> DataFrame:
    """The records of the aggregator topic: columns ``key`` and ``value``."""
    start = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")  # our sessions are in UTC
    return aggregated.select(
        *columns(
            F.concat(start, F.lit("/"), F.col("key")),
            F.col("key"),
            F.unix_millis("window.end"),
            [F.col("key").alias("key"), start.alias("window")],
            [F.col("count"), F.col("tuples"), F.col("workers")],
        )
    )
