"""What splitters make of messages, through Spark."""

from pyspark.sql import functions as F


def make_rows(spark, messages):
    """Numbered messages of a partition, which Spark can't evaluate when it plans, as in a stream."""
    rows = spark.createDataFrame([*enumerate(messages)], "i int, value binary").repartition(1)
    return rows.withColumn("partition", F.lit(0))


def read_outcomes(spark, split, messages):
    """Of each message: its key, and the reason against it. Only those without a key are rejected."""
    value = F.col("value")
    rows = make_rows(spark, messages)
    rows = split.split(rows, F.col("i"), split.why(value).alias("why"), split.rejects(value).alias("rejected"))
    found = sorted(rows.collect(), key=lambda row: row["i"])
    assert all(row["rejected"] == (row["key"] is None) for row in found)
    return [(row["key"], row["why"]) for row in found]
