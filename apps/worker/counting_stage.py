"""The stage of a run without states: workers count tuples by key, and Spark sums the counts over windows."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.operators.interface import KeyedOperator
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import send_packets
from unskew.apps.splitter.splitter import POSITION, Splitter
from unskew.apps.worker.failures import FailureLog
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stage import QueryContext, WorkerStage
from unskew.apps.worker.worker import Worker
from unskew.errors import UsageError
from unskew.grouping import get_grouping
from unskew.spark.micro_batches import make_batch_time, make_next_batch_time, read_heartbeats
from unskew.spark.setting_names import ALLOW_MULTIPLE

#: Slots of rows that are of no worker: a heartbeat, and a key's total.
HEARTBEAT, TOTAL = -1, -2
#: How many workers a mask has a bit for: Spark's integers have a sign.
MASK_BITS = 63
# So that the workers may become more later: a state's columns can't.
_LEAST_MASKS = 2


@dataclass(frozen=True)
class CountingStage(WorkerStage):
    """Counts of tuples, or of the results of a function of the user's.

    Raises ``UsageError`` if a setting is for keyed operators alone.
    """

    def __post_init__(self) -> None:
        """Refuse the settings of states."""
        for name in ("ttl", "merge_every"):
            value = getattr(self.settings, name)
            if value is not None:
                raise UsageError(f"{name} is {value!r}, but no work has states: give it with --work")
        allowed = self.settings.conf.get(ALLOW_MULTIPLE, "false")
        if self._publishes_changes and allowed != "false":
            raise UsageError(f"{ALLOW_MULTIPLE} is {allowed!r}; valid where changes are published: false")

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
        tasks = self._tasks(messages.sparkSession)
        packets = send_packets(
            messages if get_grouping(settings.grouping).batched else self._share_tasks(messages),
            routing,
            "key",
            carry,
            source="source",
            time="time" if by_event else make_batch_time(query.ahead_ms),
            tasks=tasks,
            fields=splitter.fields,
            messages=True,
        )
        worker = Worker(
            settings.work,
            settings.cost,
            settings.slide_ms if by_event else None,
            query.reports,
            settings.work_errors,
            FailureLog(settings.location) if settings.rejects_failures else None,
            WorkerMonitors(routing),
            gives_loads=self._publishes_changes,
        )
        partials = packets.mapInArrow(worker.__call__, worker.ddl)
        if not self._publishes_changes:
            return self._sum_windows(partials, query)
        assert query.publish_changes is not None
        return query.publish_changes(self._sum_changes(partials, query))

    @property
    def _publishes_changes(self) -> bool:
        return self.settings.emit == "changes"

    @property
    def conf(self) -> dict[str, str]:
        """As ``WorkerStage``."""
        # By default Spark takes rows as late by the watermark of the batch before. A batch would then still add to
        # windows that the batch before has called closed.
        return {ALLOW_MULTIPLE: "false"} if self._publishes_changes else {}

    @property
    def identity(self) -> dict[str, Any]:
        """As ``WorkerStage``."""
        return {"workerMasks": count_masks(self.settings.workers)} if self._publishes_changes else {}

    def changed_fields(self, claimed: Mapping[str, Any]) -> dict[str, Any]:
        """As ``WorkerStage``."""
        masks = claimed.get("workerMasks")
        if masks is None or not self._publishes_changes:
            return {}
        if self.settings.workers > masks * MASK_BITS:
            raise UsageError(
                f"numWorkers is {self.settings.workers}; valid on the checkpoint {self.settings.checkpoint}: at most "
                f"{masks * MASK_BITS}, as it publishes changes and began with fewer; or another --checkpoint"
            )
        return {"workerMasks": masks}

    def _tasks(self, spark: SparkSession) -> int:
        """The number of tasks in which the workers work.

        Each worker has a task of its own where workers wait side by side, or run on machines that we don't know. Else
        there are as many tasks as can run at once, because each costs some ten milliseconds, however little it does.
        """
        if not self._shares_tasks:
            return self.settings.workers
        return self._few_tasks if self._publishes_changes else spark.sparkContext.defaultParallelism

    @property
    def _shares_tasks(self) -> bool:
        """Whether workers share tasks: where tuples cost nothing, on this machine."""
        return not self.settings.cost.mean and self.settings.mode == "LOCAL"

    @property
    def _few_tasks(self) -> int:
        """The number of tasks of a small batch."""
        return os.cpu_count() or 1

    def _share_tasks(self, messages: DataFrame) -> DataFrame:
        """The messages, with as many tasks as cores where changes are published: a task routes its sources in turn.

        Such batches are small, and a task costs more than what it does. In a large batch, one task runs while another
        waits for Python, so more tasks are faster by 4 to 9 % (12 M messages of four sources on two cores). Where a
        planner plans batches, a source waits for the quotas, which wait for all sources.
        """
        few = self._publishes_changes and self._shares_tasks
        return messages.coalesce(self._few_tasks) if few else messages

    def _sum_windows(self, partials: DataFrame, query: QueryContext) -> DataFrame:
        """Sum the partials per (window, key, worker); rows come when their window closes."""
        return (
            self._add_heartbeats(partials, query)
            .groupBy(self._window, "key", "worker")
            .agg(F.sum("tuples").alias("tuples"), F.sum("count").alias("count"))
        )

    def _sum_changes(self, partials: DataFrame, query: QueryContext) -> DataFrame:
        """Sum the partials per (window, key, slot); the rows that a batch has changed come after it.

        There are three kinds of rows, told apart by ``slot`` and ``key``:

        - a key's total over all workers (slot ``TOTAL``), with the ``workers`` that have its tuples, as masks of bits;
        - a worker's load (slot w, no key), with the latest of its tuples' times;
        - a key at a worker (slot w), which says by its first ``batch`` whether the pair is new.

        Only the first kind grows with the keys' rate. The third is there because an update doesn't tell which bits of
        a mask are new, and DIST_COST and the workers' numbers of keys need that.
        """
        masks = [f"mask{number}" for number in range(count_masks(self._most_workers))]
        bits = [
            F.expr(f"if(key is not null and worker div {MASK_BITS} = {i}, shiftleft(1L, worker % {MASK_BITS}), 0L)")
            for i in range(len(masks))
        ]
        slots = F.expr(f"if(key is null, array(worker), array({TOTAL}, worker))")
        rows = self._add_heartbeats(partials, query)
        columns = [column.alias(name) for name, column in zip(masks, bits, strict=True)]
        return (
            rows.select("time", "key", F.explode(slots).alias("slot"), "tuples", "count", "batch", *columns)
            .groupBy(self._window, "key", "slot")
            .agg(
                F.sum("tuples").alias("tuples"),
                F.sum("count").alias("count"),
                F.min("batch").alias("batch"),
                F.max("time").alias("latest"),
                *(F.bit_or(name).alias(name) for name in masks),
            )
            .where(f"slot <> {HEARTBEAT}")
            .withColumn("batch_ms", F.unix_millis(make_batch_time(query.ahead_ms, F.col("slot"))))
        )

    @property
    def _most_workers(self) -> int:
        """The number of workers for which the state has masks, which the checkpoint fixes."""
        masks = Checkpoint(self.settings.location).read_record().get("workerMasks")
        return self.settings.workers if masks is None else masks * MASK_BITS

    @property
    def _window(self) -> Column:
        settings = self.settings
        return F.window("time", f"{settings.window_ms} milliseconds", f"{settings.slide_ms} milliseconds")

    def _add_heartbeats(self, partials: DataFrame, query: QueryContext) -> DataFrame:
        """The partials with their times, the heartbeats, and a watermark.

        By event time a partial has its own ``time``, and a window closes when a tuple has come that is later than its
        end by the lateness. By batch time a partial has the batch's time, and none is ever late.
        """
        if self.settings.time == "event":
            moment = F.lit(query.flush_at).cast("timestamp")
            lateness = self.settings.lateness
        else:
            moment = make_next_batch_time(query.ahead_ms, F.col("value"), self.settings.heartbeat_lead_ms)
            partials = partials.withColumn("time", make_batch_time(query.ahead_ms, F.col("worker")))
            lateness = 0
        empty = read_heartbeats(partials.sparkSession).select(
            F.lit(HEARTBEAT).alias("worker"),
            F.lit(None).cast("string").alias("key"),
            *(F.lit(0).cast("long").alias(name) for name in partials.columns if name in ("tuples", "count", "batch")),
            moment.alias("time"),
        )
        # Without a task of its own for the heartbeat.
        together = partials.unionByName(empty).coalesce(self._tasks(partials.sparkSession))
        return together.withWatermark("time", f"{lateness or 0} seconds")

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
        if self._publishes_changes:
            yield rows
            return
        counts = rows.where("worker >= 0")
        # Where no window can close, only the job that updates the state runs. If it returns rows after all, the batch
        # runs again, as after a failure, and nothing is lost.
        yield counts if may_close or counts.collect() else None


def count_masks(workers: int) -> int:
    """The number of masks in which W workers have a bit each."""
    return max(_LEAST_MASKS, -(-workers // MASK_BITS))
