"""After ShuffleBench in Spark itself: `mapInArrow` gives a record to its consumers, ``transformWithState`` counts.

    python shuffle.py BOOTSTRAP TOPIC OUTPUT WORKERS FOLDER JARS

After https://spark.apache.org/docs/latest/streaming/structured-streaming-transform-with-state.html, which recommends
the interface by rows, and not that by pandas, for many keys, and .../structured-streaming-kafka-integration.html.
FOLDER has the segments (`matcher`), and gets the checkpoint.
"""

import struct
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evidence.engines.matcher import EVERY, TUPLES, tuples
from evidence.engines.queries import messages, session, stateful, write

#: Records a batch, of which a fifth goes to Python's state.
BATCH = 400_000
_STATE = ">qQqq"  # count, sum of the first longs modulo 2⁶⁴, first and last time


class Consumer(StatefulProcessor):
    """Counts the records of a consumer, and gives its events."""

    def init(self, handle: Any) -> None:
        self._counts = handle.getValueState("counts", "value binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._counts.get()
        count, total, first, _ = struct.unpack(_STATE, before[0]) if before else (0, 0, 0, 0)
        state = b""
        for row in rows:
            count, total = count + 1, (total + int.from_bytes(row["value"][:8])) % (1 << 64)
            first = row["at"] if count == 1 else first
            state = struct.pack(_STATE, count, total, first, row["at"])
            if count % EVERY == 0:
                yield Row(key=key[0], value=state)
        self._counts.update((state,))

    def close(self) -> None:
        """Nothing is open."""


def main() -> None:
    bootstrap, topic, output, workers, folder, jars = sys.argv[1:]
    spark = session("transformWithState", workers, jars, stateful(workers) | {"spark.driver.memory": "2g"})
    read = messages(spark, bootstrap, topic, BATCH)
    write(
        read.select("value", F.unix_millis("timestamp").alias("at"), "partition")
        .mapInArrow(tuples(folder), TUPLES)
        .groupBy("consumer")
        .transformWithState(Consumer(), "key string, value binary", "Append", "None"),
        bootstrap,
        output,
        f"{folder}/checkpoint",
    )


if __name__ == "__main__":
    main()
