"""Python's daemon, from which Spark's Python workers fork: it starts while the first query is being planned.

Else the first batch waits for it, on one core: some seconds of the time up to the first result.
"""

import threading
from contextlib import suppress

from pyspark.sql import SparkSession

_BEGUN = "unskew.python"


def start_python(spark: SparkSession) -> None:
    """Begin to start it, if this is the session's first call; nothing waits for it, or for an error of it."""
    if spark.conf.get(_BEGUN, None) is None:
        spark.conf.set(_BEGUN, "true")
        threading.Thread(target=_one_task, args=[spark], daemon=True, name="early Python").start()


def _one_task(spark: SparkSession) -> None:
    with suppress(Exception):  # the run has the same trouble with its own tasks, and tells of it; or it is over
        spark.range(1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
