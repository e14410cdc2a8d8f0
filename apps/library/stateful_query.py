"""What the library's stateful queries share: they check the session's state store, and claim the checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import RECORD, Checkpoint
from unskew.apps.checkpoint.location import Location
from unskew.apps.checkpoint.visibility import require_shared
from unskew.apps.metrics.balance_observation import Observation, observe_rejected
from unskew.apps.metrics.task_reports import TaskReports
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.errors import EnvironmentFault, UsageError
from unskew.spark.micro_batches import make_batch_time
from unskew.spark.setting_names import PROVIDER, ROCKSDB


def require_rocksdb(df: DataFrame, function: str) -> None:
    """Raise ``UsageError`` unless the states of a function's query come into a store that can have them."""
    provider = df.sparkSession.conf.get(PROVIDER, "")
    if "RocksDB" not in (provider or ""):  # vendors have their own, as com.databricks.….RocksDBStateStoreProvider
        raise UsageError(f"{PROVIDER} is {provider!r}; valid for {function}: spark.conf.set({PROVIDER!r}, {ROCKSDB!r})")


def select_timely(df: DataFrame, moment: Column, ahead_ms: int, observe: Observation | None, number: int) -> DataFrame:
    """The rows whose time (``moment``) isn't null, and in a stream is at most ``ahead_ms`` after the batch's.

    Spark counts those that are left out in an observation, if there is one. ``number`` is the DataFrame's among those
    of the query.
    """
    timely = moment.isNotNull()
    if df.isStreaming:
        timely &= F.coalesce(moment <= make_batch_time(ahead_ms), F.lit(False))
    if observe is not None:
        df = observe_rejected(df, timely, observe.name, number)
    return df.where(timely)


def claim_checkpoint(
    spark: SparkSession,
    location: Location,
    record: Mapping[str, Any],
    changing: Sequence[str],
    partitions: int,
    tokens: list[int],
) -> None:
    """Record a query in its checkpoint: only the same tokens, in as many partitions, find its states again.

    ``record`` is what the checkpoint records of the query. ``changing`` are the fields of it that may differ from those
    that are recorded.
    """
    checkpoint = Checkpoint(location)
    place = {"statePartitions": partitions, "tokens": tokens}
    # Until a batch is done there are no states, so their place may still change.
    moving = place if checkpoint.next_batch() == 0 else ()
    checkpoint.claim({**record, **place}, (*changing, *moving))
    require_shared(spark, location, *RECORD)


def forget_transfers(workers: int, *transfers: StateTransfers) -> Callable[[TaskReports], None]:
    """Removes the files of states that all workers have taken in, by their reports. Mere tidying: it may fail."""

    def forget(reports: TaskReports) -> None:
        found = reports.workers
        taken = [found[w].migration.taken if w in found else 0 for w in range(workers)]
        with suppress(EnvironmentFault):
            for each in transfers:
                each.forget(taken)

    return forget
