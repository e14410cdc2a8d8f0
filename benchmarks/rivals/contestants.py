"""What people use against a hot key, and ours: tuples (``key``, ``source``, ``offset``) are placed and worked on."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew import balanced_map
from unskew.apps.topology.router import partition

WORKERS = 10
GROUPINGS = ("KEY", "PARTIAL_KEY", "D_CHOICES", "BOUNDED_LOAD")
NATIVE = "groupBy(key).count()"
DDL = "task int, key string, tuples long"

#: A stream of tuples, the query's checkpoint → rows of ``DDL``.
Contestant: TypeAlias = Callable[[DataFrame, str], DataFrame]


@dataclass(frozen=True)
class Work:
    """Work in Python on each tuple, at the end of which they are counted by key.

    Parameters
    ----------
    seconds : float
        What a tuple costs.
    busy : bool
        Whether it costs CPU; else it is slept, as if one waited for somebody else, and any machine has W workers.

    """

    seconds: float
    busy: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = partition()
        for batch in batches:
            self._spend(batch.num_rows * self.seconds)
            counted = batch.column("key").value_counts()
            keys = counted.field("values").cast(pa.string())
            yield pa.record_batch([pa.repeat(pa.scalar(task, pa.int32()), len(keys)), keys, counted.field("counts")],
                                  ["task", "key", "tuples"])  # fmt: skip

    def _spend(self, seconds: float) -> None:
        if not self.busy:
            time.sleep(seconds)
            return
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pc.sum(pa.array(range(100)))


def ours(work: Work, grouping: str) -> Contestant:
    """``balanced_map``."""
    return lambda df, checkpoint: balanced_map(
        df.select("key", "source"), "key", WORKERS, work.__call__, DDL, grouping, checkpoint, source="source"
    )


def partitioned(work: Work, tasks: int, *columns: str, salts: int = 1) -> Contestant:
    """``repartition`` by these columns, round robin without any; ``salt`` is a column, too."""

    def placed(df: DataFrame, _: str) -> DataFrame:
        salted = df.withColumn("salt", F.pmod(F.hash("offset"), F.lit(salts))).select("key", *columns[1:])
        return salted.repartition(tasks, *columns).mapInArrow(work.__call__, DDL)

    return placed


def native(df: DataFrame, _: str) -> DataFrame:
    """Spark's own count: nothing is done with a tuple but this, so that it may combine them before its shuffle."""
    return df.select("key")


def contestants(work: Work) -> dict[str, Contestant]:
    """All, by name; what isn't work in Python only where tuples cost nothing."""
    found = {name: ours(work, name) for name in GROUPINGS} | {
        "repartition by key": partitioned(work, WORKERS, "key"),
        "… 10 × as many": partitioned(work, 10 * WORKERS, "key"),
        "… salted by 2": partitioned(work, WORKERS, "key", "salt", salts=2),
        "… salted by W": partitioned(work, WORKERS, "key", "salt", salts=WORKERS),
        "… round robin": partitioned(work, WORKERS),
    }
    return found | ({} if work.seconds else {NATIVE: native})
