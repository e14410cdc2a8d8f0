"""All jobs in Spark itself: ``groupBy(window, key).count()``, or ``session_window``.

    python program.py BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS COST_MS COST WORKERS CHECKPOINT LATE_MS JARS

After https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Window Operations on Event
Time", "Output Modes") and .../streaming/structured-streaming-kafka-integration.html. A window's count is written again
as it grows, a session's once. With a cost the tuples go to a worker each by ``repartition``, and through a function of
Python's.
"""

import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import functions as F

from evidence.engines.queries import messages, read_key, session, stateful, write


def main() -> None:
    bootstrap, topic, output, field, gap_ms, cost_ms, cost, workers, checkpoint, late_ms, jars = sys.argv[1:]
    seconds = float(cost_ms) / 1000

    def spend(seconds: float) -> None:
        if cost == "sleep":
            time.sleep(seconds)
            return
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                spend(seconds)
            yield batch

    spark = session("groupBy", workers, jars, stateful(workers))
    read = messages(spark, bootstrap, topic, int(4 / seconds) if seconds else 2_000_000)
    tuples = read.select("timestamp", read_key(field))
    if seconds:
        tuples = tuples.repartition(int(workers), "key").mapInArrow(work, tuples.schema)
    sessions = int(gap_ms) > 0
    window = F.session_window("timestamp", f"{gap_ms} milliseconds") if sessions else F.window("timestamp", "5 seconds")
    counts = tuples.withWatermark("timestamp", f"{late_ms} milliseconds").groupBy(window.alias("window"), "key").count()
    record = F.to_json(F.struct(F.unix_millis("window.start").alias("start"), "key", "count")).alias("value")
    write(counts.select(record), bootstrap, output, checkpoint, mode="append" if sessions else "update")


if __name__ == "__main__":
    main()
