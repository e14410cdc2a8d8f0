"""The topology's stage with a keyed operator, whose workers also count tuples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from unskew.apps.checkpoint.checkpoint import GENERATION, Batch, WorkerHistory
from unskew.apps.metrics.task_reports import Reports, StateSummary, TaskReports
from unskew.apps.operators.interface import KeyedOperator
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import reads_time
from unskew.apps.splitter.json_fields import LONGEST_KEY
from unskew.apps.splitter.kafka_source import choose_splitter
from unskew.apps.splitter.splitter import Splitter
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.result_messages import ID_DIGITS, LONGEST_RECORD, NO_WINDOW, name_batch
from unskew.apps.worker.stage import QueryContext, WorkerStage
from unskew.apps.worker.stateful.config import (
    KeyedOperatorConfig,
    MergePeriod,
    choose_merge_period,
    find_changed_fields,
    parse_lifetime,
    parse_window_slide,
    splits_keys,
)
from unskew.apps.worker.stateful.flow import (
    apply_operators,
    count_partitions,
    route_to_workers,
    send_heartbeats,
    unpack_results,
)
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import COUNTS, WINDOW
from unskew.apps.worker.stateful.store import KEY
from unskew.errors import UsageError
from unskew.grouping.registry import SINGLE_OWNER
from unskew.spark.compat import choose_tokens, convert_schema_to_spark, convert_type_to_arrow
from unskew.spark.micro_batches import make_batch_time, read_heartbeats

_START = "__start"


@dataclass(frozen=True)
class KeyedStage(WorkerStage):
    """Runs a keyed operator, and counts tuples with a second operator at the same workers.

    Counts leave when their window closes, like partials of stateless stages.

    Raises ``UsageError`` if a setting is invalid with a keyed operator.
    """

    keyed: ClassVar[bool] = True
    work: KeyedOperator = field(init=False)  #: The operator.
    #: How long states live: until their window closes, or this long after their key's last tuple.
    window_ms: int | None = field(init=False)
    ttl_ms: int | None = field(init=False)
    slide_ms: int | None = field(init=False)  #: How often a window begins, if windows overlap.
    split: bool = field(init=False)  #: Whether the grouping splits keys, so that fragments must be merged.
    #: How often fragments are merged, besides when their window closes.
    merge_period: MergePeriod | None = field(init=False)

    def __post_init__(self) -> None:
        """Check the settings of the states."""
        settings, work = self.settings, self.settings.work
        assert isinstance(work, KeyedOperator)
        if settings.emit != "final":
            raise UsageError(
                f"emit is {settings.emit!r}; valid for a work with states: final (its own results are published "
                "whenever they change)"
            )
        if settings.work_errors != "fail":
            raise UsageError("work_errors is 'reject'; valid for a work with states: fail (its tuples are not alone)")
        split = splits_keys(work, settings.grouping, settings.workers, SINGLE_OWNER)
        window_ms, ttl_ms = parse_lifetime(work, settings.window if work.ttl_ms is None else None, settings.ttl)
        event = settings.time == "event"
        period = choose_merge_period(
            settings.merge_every, settings.grouping, split=split, event=event, window_ms=window_ms
        )
        slide_ms = parse_window_slide(work, settings.slide, window_ms)
        made = {"work": work, "window_ms": window_ms, "ttl_ms": ttl_ms, "slide_ms": slide_ms}
        made |= {"split": split, "merge_period": period}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @property
    def conf(self) -> dict[str, str]:
        """As ``WorkerStage``."""
        # Nothing needs the number of rows, and counting them makes writes 2.5 times as expensive.
        return {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"}

    @property
    def topics(self) -> dict[str, str]:
        """As ``WorkerStage``."""
        return {"results": f"{self.settings.name}-results"}

    @property
    def identity(self) -> dict[str, Any]:
        """As ``WorkerStage``."""
        return self.config().identity

    def changed_fields(self, claimed: Mapping[str, Any]) -> dict[str, Any]:
        """As ``WorkerStage``."""
        return find_changed_fields(self.work, claimed)

    @property
    def by_worker(self) -> bool:
        """As ``WorkerStage``."""
        return bool(self.settings.cost.mean)  # a worker is a group of a state partition

    @property
    def whole(self) -> bool:
        """As ``WorkerStage``."""
        return not self.split

    @property
    def waits(self) -> tuple[int, ...]:
        """As ``WorkerStage``."""
        return tuple(ms for ms in (self.ttl_ms, self.merge_period.ms if self.merge_period else None) if ms)

    @property
    def tail_ms(self) -> int:
        """As ``WorkerStage``."""
        return self.ttl_ms if self.ttl_ms is not None and (self.work.emits_on_close or self.work.settles_later) else 0

    def is_merged(self, states: StateSummary | None, end_ms: int) -> bool:
        """As ``WorkerStage``."""
        if self.merge_period is None or states is None:
            return True
        return not states.at_workers and (self.ttl_ms is None or states.merged_ms >= end_ms)

    def config(self, mergers: int = 1, reports: Reports | None = None) -> KeyedOperatorConfig:
        """The config of the run's workers and mergers."""
        settings = self.settings
        return KeyedOperatorConfig(
            self.work,
            pa.string(),
            settings.workers,
            self.split,
            mergers,
            settings.time == "event",
            self.window_ms,
            self.ttl_ms,
            self.merge_period,
            settings.window_ms,
            choose_splitter(settings).has_counts,
            settings.cost,
            reports,
            slide_ms=self.slide_ms,
        )

    def rows(self, messages: DataFrame, splitter: Splitter, routing: Routing, query: QueryContext) -> DataFrame:
        """As ``WorkerStage``."""
        settings, spark = self.settings, messages.sparkSession
        partitions = count_partitions(spark, settings.location)
        history = WorkerHistory.at(settings.location, settings.workers)
        config = replace(
            self.config(min(history.first, partitions), query.reports),
            monitors=WorkerMonitors(routing),
            routing=routing if routing.plans is not None else None,
            checkpoint=settings.location,
            partitions=partitions,
        )
        arriving = messages
        if not reads_time(splitter.fields):
            moment = F.col("time") if settings.time == "event" else make_batch_time(query.ahead_ms)
            arriving = messages.withColumn("__time", moment)
        if not splitter.has_counts and "count" in self.work.columns:
            arriving = arriving.withColumn("count", F.lit(1).cast("long"))
        chosen = choose_tokens(history.most, partitions)
        source = F.col("source")
        packets = route_to_workers(
            arriving, routing, config, chosen, source=source, fields=splitter.fields, messages=True
        )
        # In event time a heartbeat advances the watermark to the time of the flush, and no further.
        heartbeats_to_all = send_heartbeats(read_heartbeats(spark), chosen, F.lit(query.flush_at).cast("timestamp"))
        time = make_batch_time(query.ahead_ms, F.col("worker"))
        parcels = apply_operators(
            [packets.unionByName(heartbeats_to_all)], config, chosen, time, round(1000 * settings.lateness)
        )
        return self._unpack_rows(parcels, config)

    def _unpack_rows(self, parcels: DataFrame, config: KeyedOperatorConfig) -> DataFrame:
        """Unpack workers' and mergers' parcels: rows of counts and results."""
        result = convert_schema_to_spark(self.work.results)
        schema = StructType(
            [
                StructField("worker", IntegerType()),
                StructField("key", StringType()),
                StructField("tuples", LongType()),
                StructField("count", LongType()),
                StructField(_START, LongType()),
                StructField("result", result),
            ]
        )
        fields = convert_type_to_arrow(result)
        lasting = self.window_ms is None

        def columns(kind: int, sender: int, rows: pa.RecordBatch) -> list[pa.Array]:
            n = rows.num_rows
            if kind == COUNTS:
                worker, counted = np.full(n, sender, np.int32), [rows.column("tuples"), rows.column("count")]
                return [pa.array(worker), rows.column(KEY), *counted, rows.column(WINDOW), pa.nulls(n, fields)]
            of = [column.cast(field.type) for column, field in zip(rows.columns[2:], fields, strict=True)]
            values = pa.StructArray.from_arrays(of, fields=list(fields))
            start = pa.nulls(n, pa.int64()) if lasting else rows.column(WINDOW)
            none = pa.nulls(n, pa.int64())
            return [pa.array(np.full(n, -1, np.int32)), rows.column(KEY), none, none, start, values]

        start = F.timestamp_millis(F.col(_START))
        length = F.when(F.col("result").isNull(), self.settings.window_ms).otherwise(self.window_ms or 0)
        window = F.struct(start.alias("start"), F.timestamp_millis(F.col(_START) + length).alias("end"))
        return (
            unpack_results(parcels, schema, columns, self.settings.location).withColumn("window", window).drop(_START)
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
        # Results and counts come from one pass over the states, which Spark must not run twice.
        rows = rows.persist()
        try:
            number = rows.count()
            results = rows.where("result is not null")
            published = results.count() if number else 0
            if published:
                generation = record.get(GENERATION, {}).get("number", 0)
                publish(make_result_records(results, self.work.identity, batch, generation), "results")
            yield rows.where("result is null").drop("result") if number > published else None
        finally:
            rows.unpersist()

    def summary(self, reports: TaskReports) -> StateSummary | None:
        """As ``WorkerStage``."""
        return StateSummary.of(reports, self.settings.workers)

    def forget(self, reports: TaskReports, record: Mapping[str, Any]) -> None:
        """As ``WorkerStage``."""
        most = WorkerHistory.of(record, self.settings.workers).most
        workers = reports.workers
        taken = [workers[w].migration.taken if w in workers else 0 for w in range(most)]
        StateTransfers(self.settings.location).forget(taken)


def make_result_records(rows: DataFrame, identity: Sequence[str], batch: Batch, generation: int) -> DataFrame:
    """Convert a keyed operator's results to records: columns ``key`` and ``value``.

    The rows have the columns window (null if states outlive windows), key, result (a struct). The fields that
    distinguish results of a key and window (``identity``) are part of the Kafka key, so a result published again
    overwrites itself. The batch's time is the timestamp of results without a window.

    A record has its checkpoint's generation, which is greater than those of earlier checkpoints that wrote to the
    topic, and its batch. Of a Kafka key's records, that of the latest batch of the latest generation is valid, even if
    a producer's retry, or a paused driver, appends an older one after it. Of a result too large for a record, an
    ``error`` is published instead, because the earlier result is no longer valid.
    """
    named = name_batch(generation, batch.number, batch.time_ms)
    start = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")  # our sessions are in UTC
    own = [F.to_json(F.struct(*(F.col("result").getField(name) for name in identity)))] if identity else []
    subject = F.concat_ws("/", F.coalesce(start, F.lit(NO_WINDOW)), F.col("key"))
    kafka_key = F.concat_ws("/", subject, *own)
    message_id = F.substring(F.sha2(kafka_key, 256), 1, ID_DIGITS)
    if own:
        kafka_key = F.when(F.octet_length(kafka_key) <= 2 * LONGEST_KEY, kafka_key).otherwise(
            F.concat_ws("/", subject, message_id)
        )
    head = (
        "key",
        message_id.alias("messageId"),
        F.coalesce(F.unix_millis("window.end"), F.lit(batch.time_ms).cast("long")).alias("timestamp"),
        F.struct(*(F.lit(value).alias(name) for name, value in named.items())).alias("batch"),
        F.struct("key", start.alias("window")).alias("tags"),
    )
    whole = F.to_json(F.struct(*head, F.struct("result.*").alias("fields")))
    size = F.octet_length(kafka_key) + F.octet_length(whole)
    error = F.concat(F.lit("the result's record has "), size, F.lit(f" bytes, not {LONGEST_RECORD} at most"))
    without = F.to_json(F.struct(*head, F.create_map().alias("fields"), error.alias("error")))
    return rows.select(kafka_key.alias("key"), F.when(size <= LONGEST_RECORD, whole).otherwise(without).alias("value"))
