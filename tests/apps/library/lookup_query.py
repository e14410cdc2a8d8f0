"""A folder's files with names by `balanced_lookup`, as a program of its own.

`python lookup_query.py FOLDER BATCH`, where BATCH stands for nothing.
"""

import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from unskew import balanced_lookup, spark_settings


def name_users(users: pa.Array) -> pa.Table:
    """All users but those whose number ends with 7 have a name."""
    named = [user for user in users.to_pylist() if not user.endswith("7")]
    return pa.table({"key": named, "name": [f"name of {user}" for user in named]})


def main(folder: str, _: str) -> None:
    conf = spark_settings(installed=False) | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    # Eight attempts of a task: Python workers are killed, too.
    spark = SparkSession.builder.master("local[2,8]").config(map=conf).getOrCreate()
    schema = spark.read.parquet(f"{folder}/in").schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    named = balanced_lookup(rows, "user", 4, name_users, "name string", checkpoint=f"{folder}/checkpoint", ttl="20 s")
    query = named.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query.start(f"{folder}/out").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
