"""A warm-up before the first run: else it alone would pay for the JVM's compilation, and the order would decide.

Measured with free tuples: the first of two runs had half the second's tuples/s, whichever grouping came first.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unskew.apps.run.ending import Halted, stop_between_batches
from unskew.apps.run.follow import kafka_source
from unskew.apps.topology.dataflow import dataflow
from unskew.apps.topology.settings import Settings

SECONDS = 15.0  # after the first batch

_LOOK_EVERY = 0.05  # s
_FREE = "x1000000000"  # as good as; where a grouping asks what keys cost, they must cost something


def warm_up(spark: SparkSession, settings: Settings, stopped: Callable[[], bool]) -> None:
    """Send the stream, or as much as there is time for, through the topology; nothing is published.

    The user's work is left out, as is simulated cost: work may have effects, and neither needs to get warm.
    """
    free = replace(
        settings, speed=_FREE if settings.key_costs else "x0", max_tuples=settings.batch_limit, work=None,
        work_columns=(), checkpoint=f"{settings.checkpoint}-warm-up",
    )  # fmt: skip
    state = dataflow(spark, free)
    halt = threading.Event()

    def batch(df: DataFrame, _: int) -> None:
        if halt.is_set():
            raise Halted
        df.count()

    query = (
        state.writeStream.option("checkpointLocation", free.checkpoint)
        .trigger(processingTime="0 seconds")
        .foreachBatch(batch)
        .start()
    )
    deadline: float | None = None
    while query.isActive and not stopped():
        progress: Any = query.lastProgress
        if progress is not None:
            deadline = deadline or time.monotonic() + SECONDS
            if time.monotonic() > deadline or not kafka_source(progress)["numInputRows"]:
                break
        time.sleep(_LOOK_EVERY)
    halt.set()
    # If the query failed, so will the first run, and say why.
    stop_between_batches(query)
