"""The stage of a run without states: workers count tuples by key, and Spark sums the counts over windows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.operators.interface import KeyedOperator
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import send_packets
from unskew.apps.splitter.splitter import POSITION, Splitter
from unskew.apps.worker.failures import FailureLog
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stage import QueryContext, WorkerStage
from unskew.apps.worker.worker import Worker
from unskew.errors import UsageError
from unskew.spark.micro_batches import make_batch_time, read_heartbeats


@dataclass(frozen=True)
class CountingStage(WorkerStage):
    """Counts of tuples, or of the results of a function of the user's.

    Raises
    ------
    UsageError
        A setting is for keyed operators alone.

    """

    def __post_init__(self) -> None:
        """Refuse the settings of states."""
        for name in ("ttl", "merge_every"):
            value = getattr(self.settings, name)
            if value is not None:
                raise UsageError(f"{name} is {value!r}, but no work has states: give it with --work")

    def rows(self, messages: DataFrame, splitter: Splitter, routing: Routing, query: QueryContext) -> DataFrame:
        """As ``WorkerStage``."""
        settings = self.settings
        assert not isinstance(settings.work, KeyedOperator)
        by_event = settings.time == "event"
        carry = [
            *settings.carried_columns,
            *(["time"] if by_event else []),
            *(POSITION if settings.rejects_failures else []),
            *(["count"] if splitter.has_counts else []),
            "key",
        ]
        packets = send_packets(
            messages,
            routing,
            "key",
            carry,
            source="source",
            time="time" if by_event else make_batch_time(query.ahead_ms),
            tasks=self._tasks(messages.sparkSession),
            fields=splitter.fields,
            messages=True,
        )
        worker = Worker(
            settings.work,
            settings.cost,
            settings.window_ms if by_event else None,
            query.reports,
            settings.work_errors,
            FailureLog(settings.location) if settings.rejects_failures else None,
            WorkerMonitors(routing),
        )
        return self._sum_windows(packets.mapInArrow(worker.__call__, worker.ddl), query)

    def _tasks(self, spark: SparkSession) -> int:
        """The number of tasks in which the workers work.

        Each worker has a task of its own where workers wait side by side, or run on machines that we don't know. Else
        there are as many tasks as can run at once, because each costs some ten milliseconds, however little it does.
        """
        if self.settings.cost.mean or self.settings.mode != "LOCAL":
            return self.settings.workers
        return spark.sparkContext.defaultParallelism

    def _sum_windows(self, partials: DataFrame, query: QueryContext) -> DataFrame:
        """Sum the partials per (window, key, worker) over tumbling windows; rows come when their window closes.

        By event time a partial has its own ``time``, and a window closes when a tuple has come that is later than its
        end by the lateness. By batch time a partial has the batch's time, and none is ever late.
        """
        if self.settings.time == "event":
            moment = F.lit(query.flush_at).cast("timestamp")
            lateness = self.settings.lateness
        else:
            moment = make_batch_time(query.ahead_ms, F.col("value"))
            partials = partials.withColumn("time", make_batch_time(query.ahead_ms, F.col("worker")))
            lateness = 0
        empty = read_heartbeats(partials.sparkSession).select(
            F.lit(-1).alias("worker"),
            F.lit(None).cast("string").alias("key"),
            F.lit(0).cast("long").alias("tuples"),
            F.lit(0).cast("long").alias("count"),
            moment.alias("time"),
        )
        return (
            partials.unionByName(empty)
            .withWatermark("time", f"{lateness or 0} seconds")
            .groupBy(F.window("time", f"{self.settings.window} seconds"), "key", "worker")
            .agg(F.sum("tuples").alias("tuples"), F.sum("count").alias("count"))
        )

    @contextmanager
    def execute_batch(
        self,
        rows: DataFrame,
        batch: Batch,
        record: Mapping[str, Any],
        publish: Callable[[DataFrame, str], None],
        *,
        may_close: bool,
    ) -> Iterator[DataFrame | None]:
        """As ``WorkerStage``."""
        counts = rows.where("worker >= 0")
        # Where no window can close, only the job that updates the state runs. If it returns rows after all, the batch
        # runs again, as after a failure, and nothing is lost.
        yield counts if may_close or counts.collect() else None
