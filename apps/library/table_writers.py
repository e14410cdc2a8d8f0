"""Writers for the formats of ``balanced_write``, which leave a batch that runs again in the table once.

For Parquet, JSON and CSV, each batch has its own folder, which is replaced. Delta Lake's log has the last number of
each application (``txnAppId``, ``txnVersion``), and Delta skips what isn't newer. For Iceberg, the batch's name is
written into its snapshot's summary, and looked up there.

Delta and Iceberg would shuffle what they write if the table's settings say so. Options of the write turn that off.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.errors import UsageError
from unskew.grouping.arguments import check_choice
from unskew.spark.micro_batches import get_driver_batch, get_driver_query_id

FILES = ("parquet", "json", "csv")
FORMATS = (*FILES, "delta", "iceberg")
MODES = ("append", "overwrite", "ignore", "error", "errorifexists")
#: Spark's other modes are of tables that don't exist, and those of Iceberg do.
ICEBERG_MODES = ("append", "overwrite")
#: The partition column of a table of files that is written in batches.
BATCH = "batch_id"
_BATCH_ID = re.compile(r"[A-Za-z0-9.-]+")
#: The entry of a snapshot's summary. Iceberg gets the names of options in lower case.
_SUMMARY = "unskew-batch"
#: What errors of Spark and Delta have in them if the session has no Delta: no archives, or not the settings.
_NO_DELTA = ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG")
_DELTA = (
    "spark.jars.packages io.delta:delta-spark_SPARK_2.13, spark.sql.extensions "
    "io.delta.sql.DeltaSparkSessionExtension, spark.sql.catalog.spark_catalog "
    "org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
_ICEBERG = (
    "spark.jars.packages org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13, and the catalog as spark.sql.catalog.NAME"
)


class BatchIdentity(NamedTuple):
    """What a table has once."""

    name: str  #: The batch's name, which no other batch of the table has.
    application: str  #: Delta's ``txnAppId``: whose batches have ascending numbers.
    version: int  #: Delta's ``txnVersion``: the batch's number among them.


@dataclass(frozen=True)
class TableTarget:
    """A table that is written to."""

    format: str  #: One of ``FORMATS``.
    path: str | None  #: Its folder. None: it has a name.
    table: str | None  #: Its name in a catalog. None: it has a folder.
    mode: str | None  #: Spark's mode. None: the format's usual one.
    batch: BatchIdentity | None  #: What is written. None: not a batch.

    @property
    def by_folder(self) -> bool:
        """Whether each batch has a folder."""
        return self.format in FILES and self.batch is not None

    @property
    def has_own_partitions(self) -> bool:
        """Whether the table says by what it is partitioned, such that expressions are no columns of it."""
        return self.format == "iceberg"

    def write(
        self, df: DataFrame, names: Sequence[str], added: Sequence[str], rows: int | None, options: Mapping[str, Any]
    ) -> None:
        """Write rows that are where they are to be written, and sorted by their partitions.

        ``names`` are the partition columns, and ``added`` those of them that are expressions. ``rows`` is the most of a
        file, for files and Delta alone. The user's ``options`` have precedence over ours. Raises ``UsageError`` if the
        session has no Delta.
        """
        if self.format == "iceberg":
            self._write_iceberg(df, added, options)
            return
        most = {} if rows is None else {"maxRecordsPerFile": str(rows)}
        if self.format == "delta":
            self._write_delta(df, names, most | dict(options))
            return
        writer = df.write.format(self.format).partitionBy(*names).options(**(most | dict(options)))
        if self.batch is None:
            writer.mode(self.mode or "error").save(self.path)
        else:  # also partitions that only an earlier attempt has written are replaced
            folder = f"{str(self.path).rstrip('/')}/{BATCH}={self.batch.name}"
            writer.option("partitionOverwriteMode", "static").mode("overwrite").save(folder)

    def _write_delta(self, df: DataFrame, names: Sequence[str], options: Mapping[str, Any]) -> None:
        own, mode = {"optimizeWrite": "false"}, "append" if self.batch else self.mode or "error"
        if self.batch is not None and not {"txnappid", "txnversion"} & {name.lower() for name in options}:
            own |= {"txnAppId": self.batch.application, "txnVersion": str(self.batch.version)}
        writer = df.write.format("delta").partitionBy(*names).mode(mode).options(**(own | dict(options)))
        try:
            writer.save(self.path) if self.table is None else writer.saveAsTable(self.table)
        except Exception as error:
            if any(condition in str(error) for condition in _NO_DELTA):
                raise UsageError(f"format is 'delta', and this session has no Delta Lake; set {_DELTA}") from error
            raise

    def _write_iceberg(self, df: DataFrame, added: Sequence[str], options: Mapping[str, Any]) -> None:
        if self.batch is not None and self._has_iceberg_batch(df.sparkSession):
            return
        # Without writers that keep all files open, Iceberg lets Spark sort each task's rows by the table's partitions.
        own = {"distribution-mode": "none", "fanout-enabled": "false"}
        if self.batch is not None:
            own[f"snapshot-property.{_SUMMARY}"] = self.batch.name
        writer = df.drop(*added).writeTo(str(self.table)).options(**(own | dict(options)))
        if self.mode == "overwrite":
            writer.overwrite(F.lit(True))
        else:
            writer.append()

    def _has_iceberg_batch(self, spark: SparkSession) -> bool:
        spark.sql(f"REFRESH TABLE {self.table}")  # the session's catalog may have what it was before
        snapshots = spark.table(f"{self.table}.snapshots")
        assert self.batch is not None
        return not snapshots.where(F.col("summary")[_SUMMARY] == self.batch.name).isEmpty()


def find_target(
    spark: SparkSession, kind: str, path: str | None, table: str | None, mode: str | None, batch_id: int | str | None
) -> TableTarget:
    """The table that ``balanced_write`` is given. Raises ``UsageError``, as that does."""
    check_choice("format", kind, FORMATS)
    if (path is None) == (table is None):
        raise UsageError(f"path is {path!r} and table is {table!r}; valid: one of both")
    if kind == "iceberg" and table is None:
        raise UsageError(f"path is {path!r} and format is 'iceberg'; valid: table, a name in a catalog")
    if kind in FILES and path is None:
        raise UsageError(f"table is {table!r} and format is {kind!r}; valid: path, or a table of delta, iceberg")
    if mode is not None:
        check_choice("mode", mode, ICEBERG_MODES if kind == "iceberg" else MODES)
        if batch_id is not None:
            raise UsageError(f"mode is {mode!r} and batch_id is {batch_id!r}; valid: one of both")
    batch = None if mode is not None else _identify_batch(spark, batch_id)
    if kind == "iceberg":
        _require_iceberg(spark, str(table))
    return TableTarget(kind, path, table, mode, batch)


def _identify_batch(spark: SparkSession, batch_id: int | str | None) -> BatchIdentity | None:
    """The batch of this name, or of the ``foreachBatch`` that this is called in. None: in neither."""
    if batch_id is not None:
        if not isinstance(batch_id, int | str) or not _BATCH_ID.fullmatch(str(batch_id)):
            raise UsageError(f"batch_id is {batch_id!r}; valid: a number, or letters, digits, dots and hyphens")
        # Delta would skip a lower number of one application: such batches needn't come in their order.
        return BatchIdentity(str(batch_id), f"unskew-{batch_id}", 0)
    number = get_driver_batch(spark)
    if number is None:
        return None
    query = get_driver_query_id(spark)
    return BatchIdentity(f"{number:08d}-{query[:8]}", query, number)


def _require_iceberg(spark: SparkSession, table: str) -> None:
    """Raise ``UsageError`` unless the session finds an Iceberg table of this name."""
    try:
        found = "summary" in spark.table(f"{table}.snapshots").columns
        reason = "it has no snapshots"
    except Exception as error:  # noqa: BLE001  without the archives it is none of Spark's own
        lines = (line for line in str(error).splitlines() if not line.startswith("An error occurred while"))
        found, reason = False, next(lines, "")
    if not found:
        raise UsageError(f"table is {table!r}; valid: an Iceberg table that exists ({reason}). Set {_ICEBERG}")
