"""A full outer join of two folders' files by `balanced_join`, as a program of its own.

`python join_query.py FOLDER BATCH`, where BATCH stands for nothing.
"""

import sys

from pyspark.sql import SparkSession

from unskew import balanced_join, spark_settings

WORKERS = 4


def main(folder: str, _: str) -> None:
    conf = spark_settings(installed=False) | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    # Eight attempts of a task: Python workers are killed, too.
    spark = SparkSession.builder.master("local[2,8]").config(map=conf).getOrCreate()
    sides = []
    for name in ("left", "right"):
        schema = spark.read.parquet(f"{folder}/{name}").schema
        sides.append(spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/{name}"))
    joined = balanced_join(
        *sides, "user", WORKERS, "full", f"{folder}/checkpoint", within="2 s", after="1 s", left_time="at",
        right_time="at", lateness="2 s",
    )  # fmt: skip
    query = joined.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query.start(f"{folder}/out").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
