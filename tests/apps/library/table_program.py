"""Tables of Delta or Iceberg that `balanced_write` writes, as a program of its own, which prints what they have.

`python table_program.py FORMAT FOLDER SETTINGS`: SETTINGS are those of the session, as JSON; so is what it prints.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew import UsageError, balanced_write

ROWS, PARTITIONS = 6_000, 20
NAMESPACE = "lake.shop"


@dataclass(frozen=True)
class Table:
    """A table of the format, with a name and, for Delta, a folder."""

    spark: SparkSession
    kind: str
    folder: str
    name: str

    def write(self, rows: DataFrame, by: Any = "day", **more: Any) -> dict[str, Any]:
        to = {"path": self.path} if self.kind == "delta" else {"table": f"{NAMESPACE}.{self.name}"}
        return asdict(balanced_write(rows, by=by, format=self.kind, **to, **more))

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def identifier(self) -> str:
        """In SQL."""
        return f"delta.`{self.path}`" if self.kind == "delta" else f"{NAMESPACE}.{self.name}"

    def create(self, by: str = "day", properties: str = "") -> None:
        columns = "id long, text string, day string"
        self.spark.sql(
            f"CREATE TABLE {self.identifier} ({columns}) USING {self.kind} PARTITIONED BY ({by}) {properties}"
        )

    def read(self) -> DataFrame:
        return (
            self.spark.read.format("delta").load(self.path)
            if self.kind == "delta"
            else self.spark.table(self.identifier)
        )

    def count_versions(self) -> int:
        if self.kind == "delta":
            return self.spark.sql(f"DESCRIBE HISTORY {self.identifier}").count()
        return self.spark.table(f"{self.identifier}.snapshots").count()

    def measure(self) -> dict[str, Any]:
        """The files, and the rows of each writer. Both formats name a file by its task."""
        if self.kind == "delta":
            files = self.read().groupBy(F.input_file_name().alias("file")).count().collect()
        else:
            files = self.spark.table(f"{self.identifier}.files").select("file_path", "record_count").collect()
        loads: Counter[str] = Counter()
        for path, rows in files:
            [task] = re.findall(r"(?:part-)?(\d{5})-[^/]*$", path)
            loads[task] += rows
        return {"files": len(files), "loads": sorted(loads.values())}


def make_rows(spark: SparkSession, skew: float) -> DataFrame:
    """Rows of at most ``PARTITIONS`` days. The larger the skew, the more rows has the first day."""
    drawn = F.pow(F.pmod(F.xxhash64("id"), F.lit(1_000_003)) / 1_000_003, F.lit(skew))
    rows = spark.range(ROWS, numPartitions=3).withColumn("number", F.floor(drawn * PARTITIONS).cast("int"))
    return rows.selectExpr("id", "repeat('x', number) AS text", "format_string('d%02d', number) AS day")


def is_equal(found: DataFrame, rows: DataFrame) -> bool:
    return Counter(found.select(*rows.columns).collect()) == Counter(rows.collect())


def check_bounds(make: Callable[[str], Table], spark: SparkSession, kind: str) -> list[dict[str, Any]]:
    found = []
    # A table that asks for a shuffle of its own; Iceberg's does without asking.
    asks = "TBLPROPERTIES ('delta.autoOptimize.optimizeWrite'='true')" if kind == "delta" else ""
    for skew in (1.0, 3.0, 10.0):
        rows = make_rows(spark, skew).cache()
        for workers in (3, 8):
            table = make(f"bounds_{skew:.0f}_{workers}")
            table.create(properties=asks)
            report = table.write(rows, workers=workers, cost=1, mode="append")
            own = {"workers": workers, "partitions": rows.select("day").distinct().count()}
            found.append({"report": report, "equal": is_equal(table.read(), rows)} | table.measure() | own)
    return found


def check_batches(make: Callable[[str], Table], spark: SparkSession, kind: str) -> list[list[int]]:
    """(rows, versions) after a batch, the same one again, one of a lower number, one of a name, and that again."""
    table, rows, found = make("batches"), make_rows(spark, 3.0), []
    if kind == "iceberg":
        table.create()
    for batch in (7, 7, 3, "a.b-c", "a.b-c"):
        table.write(rows, workers=3, batch_id=batch)
        found.append([table.read().count(), table.count_versions()])
    return found


def check_stream(make: Callable[[str], Table], spark: SparkSession, kind: str) -> dict[str, Any]:
    """A stream whose second batch fails when it is written, and then runs again."""
    table, attempts = make("stream"), Counter[int]()
    folder = Path(table.folder, "stream-in")
    if kind == "iceberg":
        table.create()
    for number in range(3):
        rows = make_rows(spark, 3.0).withColumn("id", F.col("id") + ROWS * number)
        rows.coalesce(1).write.mode("append").parquet(str(folder))

    def write(batch: DataFrame, number: int) -> None:
        attempts[number] += 1
        table.write(batch, workers=3)
        if number == 1 and attempts[1] == 1:
            raise RuntimeError("a batch that fails")

    versions = table.count_versions() if kind == "iceberg" else 0
    for _ in range(2):
        stream = spark.readStream.schema("id long, text string, day string").option("maxFilesPerTrigger", 1)
        writer = stream.parquet(str(folder)).writeStream.option("checkpointLocation", f"{table.folder}/checkpoint")
        query = writer.trigger(availableNow=True).foreachBatch(write).start()
        try:
            query.awaitTermination()
        except Exception as error:
            if "a batch that fails" not in str(error):
                raise
    ids = [row.id for row in table.read().select("id").collect()]
    return {
        "attempts": [attempts[number] for number in range(3)],
        "once": sorted(ids) == list(range(3 * ROWS)),
        "versions": table.count_versions() - versions,
    }


def check_own(make: Callable[[str], Table], spark: SparkSession, kind: str) -> dict[str, Any]:
    """What the formats don't have in common."""
    if kind == "delta":
        return _check_delta(make, spark)
    table, rows = make("transforms"), make_rows(spark, 3.0)
    table.create("bucket(4, id), truncate(2, day)")
    by = [F.expr("lake.system.bucket(4, id)").alias("bucket"), F.expr("lake.system.truncate(2, day)").alias("short")]
    report = table.write(rows, by, workers=3, cost=1)
    partitions = spark.table(f"{table.identifier}.partitions").count()
    table.write(rows.where("id < 100"), by, workers=3, mode="overwrite")
    few = table.read().count()
    refused = ""
    try:
        table.write(rows, sort_by="id")
    except UsageError as error:
        refused = str(error)
    return {"report": report, "partitions": partitions, "columns": table.read().columns, "few": few, "refused": refused}


def _check_delta(make: Callable[[str], Table], spark: SparkSession) -> dict[str, Any]:
    """Null and "" have one partition. A table has a name, or doesn't get the same batch of the user's number again."""
    day = F.when(F.col("id") % 3 == 0, None).when(F.col("id") % 3 == 1, "").otherwise(F.col("day"))
    table, rows = make("nulls"), make_rows(spark, 3.0).withColumn("day", day)
    report = table.write(rows, workers=3, cost=1, sort_by="id")
    nulls = table.read().where("day IS NULL").count()
    for version in (1, 1, 2):
        balanced_write(
            rows, by="day", workers=3, table="sales", format="delta", mode="append", txnAppId="me", txnVersion=version
        )
    for _ in range(2):
        balanced_write(rows, by="day", workers=3, table="sales", format="delta", batch_id="again")
    named = spark.table("sales").count()
    return {"report": report, "nulls": nulls, "named": named} | table.measure()


def main(kind: str, folder: str, settings: str) -> None:
    conf = json.loads(settings) | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    conf |= {"spark.sql.warehouse.dir": f"{folder}/spark-warehouse"}
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    if kind == "iceberg":
        spark.sql(f"CREATE NAMESPACE {NAMESPACE}")

    def make(name: str) -> Table:
        return Table(spark, kind, folder, name)

    checks = {"bounds": check_bounds, "batches": check_batches, "stream": check_stream, "own": check_own}
    print(json.dumps({name: check(make, spark, kind) for name, check in checks.items()}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
