"""The windows that a batch closes: merged, published and observed, all in the one Spark job that runs the batch.

The rows of closed windows are sorted by (window, key) and pass through a Python task once. It merges what the workers
counted of a key, publishes the aggregator's record of it, and tells the driver of each window how its tuples lay on the
workers. Nothing of the batch is kept: an executor's death runs what it had again within the same job, so that all of it
knows its batch; records that are written twice by that are the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from unskew.apps.topology import aggregator
from unskew.apps.topology.observer import Distribution, Observer, together
from unskew.apps.topology.publisher import Delivery
from unskew.deploy.client.connection import Connection

_PART = "part"
_PARTS = StructType([StructField(_PART, BinaryType())])


@dataclass(frozen=True)
class Closing:
    """What the tasks do with the rows of closed windows.

    Parameters
    ----------
    connection, topic
        Where the aggregator's records go.
    workers : int
        W.

    """

    connection: Connection
    topic: str
    workers: int

    def run(self, rows: DataFrame) -> list[Distribution]:
        """Run the batch that closes these rows (``windows.windowed``), publish, and say how the windows' loads lay."""
        parts = (
            rows.select(
                F.unix_millis("window.start").alias("start"),
                F.unix_millis("window.end").alias("end"),
                *("key", "worker", "tuples", "count"),
            )
            .repartition("start", "key")
            .sortWithinPartitions("start", "key")
            .mapInArrow(self.__call__, _PARTS)
        )
        return together(Distribution.unpacked(row[_PART]) for row in parts.collect())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sorted rows in; a packed ``Distribution`` a window out, when what is in it is written."""
        merger, observer, delivery = aggregator.Merger(), Observer(self.workers), None
        parts: list[Distribution] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            delivery = delivery or Delivery(self.connection, self.topic)
            observer.rows(batch)
            merged = merger.add(batch)
            observer.keys(merged)
            delivery.put(aggregator.records(merged))
            # The key that is still open is of the newest window.
            parts += observer.finished(before=batch.column("start")[-1].as_py())
        if delivery is None:
            return
        last = merger.finish()
        observer.keys(last)
        delivery.put(aggregator.records(last))
        delivery.finish()
        parts += observer.finished()
        yield pa.record_batch([pa.array([part.packed() for part in parts], pa.binary())], [_PART])
