"""A stream that writes a table by `balanced_write`, as a program of its own.

`python write_query.py FORMAT FOLDER SETTINGS LAST`: SETTINGS are those of the session, as JSON. It is killed with all
that it has started when it has written batch LAST, before Spark notes that the batch is done. With LAST `read` no
stream is started, and the table's ids and days are written to FOLDER/found, as a reader sees them.
"""

import json
import os
import signal
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unskew import balanced_write, spark_settings

WORKERS = 4
TABLE = "lake.shop.sales"


def get_target(kind: str, folder: str) -> dict[str, Any]:
    return {"table": TABLE} if kind == "iceberg" else {"path": f"{folder}/table"}


def main(kind: str, folder: str, settings: str, last: str) -> None:
    conf = spark_settings(installed=False) | json.loads(settings)
    conf |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    spark = SparkSession.builder.master("local[2,8]").config(map=conf).getOrCreate()
    if kind == "iceberg":
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
        spark.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} (id long, day string) USING iceberg PARTITIONED BY (day)")
    if last == "read":
        table = spark.read.table(TABLE) if kind == "iceberg" else spark.read.format(kind).load(f"{folder}/table")
        table.select("id", "day").write.parquet(f"{folder}/found")
        return

    def write(batch: DataFrame, number: int) -> None:
        balanced_write(batch, by="day", workers=WORKERS, format=kind, **get_target(kind, folder))
        if number == int(last):
            os.killpg(0, signal.SIGKILL)

    rows = spark.readStream.schema("id long, day string").option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    query = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint").foreachBatch(write)
    query.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
