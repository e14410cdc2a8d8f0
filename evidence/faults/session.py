"""A query of a user's own, in a Spark session of its own: `balance` or `keyed_map` between Kafka and files.

    python -m evidence.faults.session balance|keyed_map GROUPING BOOTSTRAP TOPIC CHECKPOINT OUTPUT --master URL …

It has nothing of the topology. The rows that it writes (Parquet) have an ``id`` and a ``key``, as `tests.oracle.rows`
says them: of each message's place, or of what `Distinct` remembers of it. It runs until it is asked to end (SIGTERM).
Exit code 1: the query failed, and the last line says why.
"""

import argparse
import os
import signal
import sys
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.engines.queries import messages
from tests.oracle.rows import KEY_BYTES, SHARED, place
from unskew import balance, keyed_map
from unskew.apps.driver.termination import describe_cause
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.installation.machine import find_java
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import Distinct

#: Seconds that a key's state lives after the key's last tuple: longer than any campaign.
TTL = 7 * 86_400.0


def spark_session(master: str, conf: dict[str, str]) -> SparkSession:
    """Spark with RocksDB, which ``keyed_map`` needs, and Kafka's connector."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    streaming = "org.apache.spark.sql.execution.streaming"
    settings: dict[str, Any] = {
        "spark.sql.streaming.stateStore.providerClass": f"{streaming}.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.python.daemon.module": "unskew.apps.driver.python_daemon",  # imports once what every task needs
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        **conf,
    }
    return SparkSession.builder.master(master).appName("session").config(map=settings).getOrCreate()


def balanced(stream: DataFrame, grouping: str, workers: int, checkpoint: str) -> DataFrame:
    """A row for each message: its place, its key, and its worker."""
    rows = balance(stream, "key", workers, grouping, checkpoint, source="partition")
    return rows.select(_place(F.col("offset")).alias("id"), "key", "worker")


def remembered(stream: DataFrame, grouping: str, workers: int, checkpoint: str) -> DataFrame:
    """A row for each key and id, when the id first appears."""
    shared = F.when(F.col("offset") % 2 == 1, F.col("offset")).otherwise(F.col("offset") - F.col("offset") % SHARED)
    tuples = stream.withColumn("id", _place(shared))
    every = None if grouping in SINGLE_OWNER else "2 batches"  # they split no keys
    how: dict[str, Any] = {"ttl": TTL, "merge_every": every, "idle_batches": True, "source": "partition"}
    how |= {"theta_max": 0, "window": 1} if grouping == "MIXED" else {}  # plans in nearly every batch
    found = keyed_map(tuples, "key", workers, Distinct("id", "int64"), grouping, checkpoint, **how)
    return found.select("id", "key")


def _place(offset: Column) -> Column:
    """`tests.oracle.rows.place`, by Spark."""
    return F.col("partition").cast("long") * F.lit(place(1, 0)) + offset


QUERIES = {"balance": balanced, "keyed_map": remembered}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query", choices=list(QUERIES))
    parser.add_argument("grouping")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("checkpoint")
    parser.add_argument("output")
    parser.add_argument("--master", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--most", type=int, default=20_000, help="messages a batch")
    parser.add_argument("--shuffled", action="store_true", help="the messages come through a shuffle")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    try:
        spark = spark_session(given.master, dict(pair.split("=", 1) for pair in given.conf))
        read = messages(spark, given.bootstrap, given.topic, given.most, **{"kafka.isolation.level": "read_committed"})
        stream = read.select(F.substring("value", 1, KEY_BYTES).alias("key"), "partition", "offset")
        if given.shuffled:  # so that each task has some of every partition
            stream = stream.repartition(given.workers)
        rows = QUERIES[given.query](stream, given.grouping, given.workers, given.checkpoint)
        writer = rows.writeStream.format("parquet").option("path", given.output)
        query = writer.option("checkpointLocation", given.checkpoint).trigger(processingTime="0 seconds").start()
        while not ending.is_set() and not query.awaitTermination(1):
            pass
        query.stop()
        spark.stop()
    except StreamingQueryException as error:
        sys.exit(f"session: {describe_cause(error)}")
    except (PySparkException, Py4JError, OSError) as error:
        sys.exit(f"session: {type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")


if __name__ == "__main__":
    main()
