"""TPC-H's query 5 over streams of orders and items, as a chain of operators: a join, and two lookups.

customer and supplier don't stream: their nations are looked up, the supplier's of each item, then the customer's of
what is left of the region. Each operator is a query of Spark's, because a checkpoint has one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from evidence.papers.mixed.q5.operators import PacedJoin, PacedLookup
from evidence.papers.mixed.q5.oracle import Revenue
from evidence.papers.mixed.q5.workload import REGION, WINDOW_MS
from evidence.papers.stage import Course, drain, read_batches, write_batches
from unskew import balanced_join, balanced_lookup, keyed_map
from unskew.lookups import TableLookup

WORKERS = 10
#: The key of each operator, in the order of the chain. Its workers' observation has the key's name.
KEYS = ("orderkey", "suppkey", "custkey")
WINDOW = f"{WINDOW_MS} milliseconds"
_TTL_MS = 3_600_000  # of what is looked up: the tables don't change

#: Orders, items, the query's checkpoint → an order's columns beside those of each of its items, by the item's ``at``.
Join: TypeAlias = Callable[[DataFrame, DataFrame, str], DataFrame]
#: Rows, the key to look up, the tables' folder, the query's checkpoint → the rows with the key's nation.
LookUp: TypeAlias = Callable[[DataFrame, str, Path, str], DataFrame]
#: A batch's rows and number.
Write: TypeAlias = Callable[[DataFrame, int], None]


def join_at_one_worker(
    orders: DataFrame, lineitem: DataFrame, checkpoint: str, grouping: str = "MIXED", **options: Any
) -> DataFrame:
    """Join orders with their items by ``keyed_map``: an order and its items are at one worker."""
    names = [[name for name in side.columns if name not in ("orderkey", "id", "at")] for side in (orders, lineitem)]
    left, right = (", ".join(f"{name} int64" for name in side) for side in names)
    joined = keyed_map(
        [
            orders.withColumns({"id": F.col("orderkey"), "item": F.lit(False)}),
            lineitem.withColumn("item", F.lit(True)),
        ],
        "orderkey",
        WORKERS,
        PacedJoin("0 s", after=WINDOW, left=left, right=right, side="item"),
        grouping,
        checkpoint,
        time=F.timestamp_millis(F.col("at")),
        lateness="1 second",
        observe="orderkey",
        **options,
    )
    carried = (
        F.col(f"{side}_{name}").alias(name) for side, own in zip(("left", "right"), names, strict=True) for name in own
    )
    return joined.select("orderkey", F.col("right_time").alias("at"), *carried)


def join_at_several_workers(orders: DataFrame, lineitem: DataFrame, checkpoint: str) -> DataFrame:
    """Join orders with their items by ``balanced_join``: a hot order's items are at several workers."""
    left, right = (side.withColumn("time", F.timestamp_millis(F.col("at"))) for side in (orders, lineitem))
    joined = balanced_join(
        left, right, "orderkey", WORKERS, checkpoint=checkpoint, within="0 s", after=WINDOW,
        left_time="time", right_time="time", lateness="1 second", observe="orderkey",
    )  # fmt: skip
    return joined.drop("at", "time", "time_right").withColumnRenamed("at_right", "at")


def look_up_at_several_workers(rows: DataFrame, key: str, tables: Path, checkpoint: str) -> DataFrame:
    """Look up a nation by ``balanced_lookup``: a hot key's rows are at several workers."""
    of, found = _open_table(tables, key), f"{key}_nation bigint"
    return balanced_lookup(rows, key, WORKERS, of, found, checkpoint=checkpoint, observe=key)


def look_up_at_one_worker(
    rows: DataFrame, key: str, tables: Path, checkpoint: str, grouping: str = "MIXED", **options: Any
) -> DataFrame:
    """Look up a nation by ``keyed_map``: all rows of a key at one worker."""
    carried = pa.schema([(name, pa.int64()) for name in rows.columns if name != key])
    found = pa.schema([(f"{key}_nation", pa.int64())])
    work = PacedLookup(_open_table(tables, key), carried, found, _TTL_MS, _TTL_MS)
    looked_up = keyed_map(rows, key, WORKERS, work, grouping, checkpoint, observe=key, **options)
    return looked_up.withColumnRenamed("v0", f"{key}_nation")


def _open_table(tables: Path, key: str) -> TableLookup:
    of = {"suppkey": "supplier", "custkey": "customer"}[key]
    return TableLookup(str(tables / of), key, {f"{key}_nation": "nationkey"})


def keep_region(items: DataFrame, tables: Path) -> DataFrame:
    """The items whose supplier is in the region."""
    region, nation = (pq.read_table(tables / name).to_pylist() for name in ("region", "nation"))
    number = next(row["regionkey"] for row in region if row["name"] == REGION)
    own = [row["nationkey"] for row in nation if row["regionkey"] == number]
    return items.where(F.col("suppkey_nation").isin(own))


def keep_local(items: DataFrame) -> DataFrame:
    """The items whose customer and supplier are of one nation."""
    revenue = F.col("extendedprice") * (100 - F.col("discount"))
    local = items.where("custkey_nation = suppkey_nation")
    return local.select("at", F.col("suppkey_nation").alias("nation"), revenue.alias("revenue"))


def write_rows(folder: Path) -> Write:
    """Write a batch's rows as a file, for the chain's next operator."""

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        if rows.num_rows:  # Spark runs a batch without rows when the watermark has moved
            write_batches(folder, [rows], number)

    return write


def write_revenue(folder: Path) -> Write:
    """Write what a batch adds to the revenue of windows and nations."""

    def write(batch: DataFrame, number: int) -> None:
        window = F.window(F.timestamp_millis(F.col("at")), WINDOW)
        sums = batch.groupBy(window, "nation").agg(F.sum("revenue").alias("revenue"))
        start = F.unix_millis(F.col("window.start")).alias("window")
        write_batches(folder, [sums.select(start, "nation", "revenue").toArrow()], number)

    return write


def read_revenue(folder: Path, tables: Path) -> Revenue:
    """The revenue that all batches have written."""
    names = {row["nationkey"]: row["name"] for row in pq.read_table(tables / "nation").to_pylist()}
    found: Revenue = {}
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            key = row["window"], names[row["nation"]]
            found[key] = found.get(key, 0) + row["revenue"]
    return found


@dataclass(frozen=True)
class Measured:
    """What a run has measured and computed.

    ``operators``: Key → the course of the operator that is keyed by it. ``revenue``: The result.
    """

    operators: dict[str, Course]
    revenue: Revenue


def run_chain(spark: SparkSession, tables: Path, folder: Path, join: Join, look_up: LookUp) -> Measured:
    """Run a query for each operator, one after the other, linked by folders of files.

    ``folder`` is for the checkpoints and the results.
    """
    orders, lineitem = (read_batches(spark, tables / name) for name in ("orders", "lineitem"))

    def look_up_suppliers(checkpoint: str) -> DataFrame:
        items = read_batches(spark, folder / "orderkey")
        return keep_region(look_up(items, "suppkey", tables, checkpoint), tables)

    def look_up_customers(checkpoint: str) -> DataFrame:
        return keep_local(look_up(read_batches(spark, folder / "suppkey"), "custkey", tables, checkpoint))

    writes = write_rows(folder / "orderkey"), write_rows(folder / "suppkey"), write_revenue(folder / "revenue")
    builds = partial(join, orders, lineitem), look_up_suppliers, look_up_customers

    def start(key: str, build: Callable[[str], DataFrame], write: Write) -> StreamingQuery:
        checkpoint = str(folder / f"checkpoint-{key}")
        writer = build(checkpoint).writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    operators = {each[0]: drain(partial(start, *each), each[0]) for each in zip(KEYS, builds, writes, strict=True)}
    return Measured(operators, read_revenue(folder / "revenue", tables))
