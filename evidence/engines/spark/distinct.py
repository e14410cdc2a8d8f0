"""Distinct keys in Spark itself: ``dropDuplicates``.

    python distinct.py BOOTSTRAP TOPIC OUTPUT FIELD WORKERS CHECKPOINT JARS

After https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Streaming Deduplication",
"RocksDB state store implementation") and .../streaming/structured-streaming-kafka-integration.html. There is no
watermark: a key is remembered for ever. Batches and state store are those of ``program.py``.
"""

import sys

from evidence.engines.queries import messages, read_key, session, stateful, write


def main() -> None:
    bootstrap, topic, output, field, workers, checkpoint, jars = sys.argv[1:]
    spark = session("dropDuplicates", workers, jars, stateful(workers))
    read = messages(spark, bootstrap, topic, 2_000_000)
    write(read.select(read_key(field), "value").dropDuplicates(["key"]), bootstrap, output, checkpoint)


if __name__ == "__main__":
    main()
