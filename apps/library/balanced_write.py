"""``balanced_write``: write a partitioned table with few files, by tasks that have equally much to do.

The table's partitions are counted, and PLANNED divides them between W writers. A partition has one writer, unless it
has more than a writer's share.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from unskew.apps.driver.plans.planned_frame import WORKER, KeyDivision, KeyLoads, count_loads, divide_frame
from unskew.apps.library.table_writers import BATCH, TableTarget, find_target
from unskew.apps.metrics.write_reports import WriteReport, record_write
from unskew.apps.router.order import stabilise_order
from unskew.apps.router.row_keys import make_key_column
from unskew.apps.router.tuple_packets import make_cost_column
from unskew.errors import UsageError
from unskew.grouping.arguments import check_integer, check_number
from unskew.spark.compat import (
    explain_missing_column,
    find_same_column,
    get_field,
    place_rows,
    quote_name,
    require_frame,
)
from unskew.spark.micro_batches import get_driver_batch, get_driver_query_id
from unskew.spark.setting_names import PARTITIONS

#: The folder of the rows whose partition column is null or empty, as Spark and Hive name it.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: The bytes of a value. Those of other types have 8, or a length of their own.
_WIDTHS = {BooleanType: 1, ByteType: 1, ShortType: 2, IntegerType: 4, FloatType: 4, DateType: 4}


def balanced_write(
    df: DataFrame,
    path: str | None = None,
    by: str | Column | Sequence[str | Column] = (),
    workers: int | None = None,
    format: str = "parquet",  # noqa: A002  as in Spark
    *,
    table: str | None = None,
    mode: str | None = None,
    batch_id: int | str | None = None,
    cost: str | Column | int | None = None,
    sort_by: str | Column | Sequence[str | Column] = (),
    target_file_size: int | None = None,
    min_file_size: int | None = None,
    slack: float = 0.05,
    **options: Any,
) -> WriteReport:
    """Write a partitioned table with few files, by tasks that have equally much to do.

    With W workers, K partitions make at most K + W − 1 files, or more with ``target_file_size``. No task gets more than
    1 + ``slack`` times the mean cost, up to chance. Without a ``mode``, a batch that ``foreachBatch`` runs again is in
    the table once; write each table only once in a batch.

    Parameters
    ----------
    df : DataFrame
        A static DataFrame, or a batch in ``foreachBatch``. It is read twice: cache it if it is expensive to make.
    path, table : str, optional
        The table's folder, or the name of a Delta or Iceberg table in a catalog: one of both. Iceberg's must exist.
    by : str, Column, or a list of these
        The columns that partition the table. An expression needs an alias. For Iceberg name the table's own partitions.
    workers : int
        W ≥ 1: the most tasks that write. Default: ``spark.sql.shuffle.partitions``.
    format : str
        ``parquet``, ``json``, ``csv``, ``delta`` or ``iceberg``. The session needs the archives of the latter two.
    mode : str, optional
        ``append``, ``overwrite``, ``ignore`` or ``error`` (default); for Iceberg ``append`` (default) or ``overwrite``.
    batch_id : int or str, optional
        What the table must not have twice (letters, digits, dots, hyphens). Default: in ``foreachBatch`` without
        ``mode`` the batch's number and the query's id. With Spark Connect pass the batch's number.
    cost : str or Column, number, or 1
        What a row costs its writer; 1 counts rows. Default: an estimate of the row's bytes before encoding.
    sort_by : str, Column, or a list of these
        The order of the rows in each file. An Iceberg table has its own.
    target_file_size, min_file_size : int ≥ 1, optional
        In the unit of ``cost`` (Iceberg's target: bytes): larger files are divided, small batches get fewer writers.
    slack : float
        From 0 to 10: how much more than the mean a writer may get. A smaller one divides more partitions.
    options
        Options of the format, such as ``compression``, as for ``DataFrameWriter.options``.

    Returns
    -------
    WriteReport
        How many files and partitions there are, and how even the writers are. ``watch`` has those of a stream.

    Raises
    ------
    UsageError
        ``df`` is a stream, an argument or partition column is invalid, ``mode`` and ``batch_id`` are both given, all
        columns are partition columns, or the session lacks Delta or the Iceberg table.

    Examples
    --------
    >>> import tempfile
    >>> rows = spark.range(100_000).selectExpr("if(id % 2 = 0, 0, id % 50) AS day", "id")
    >>> folder = tempfile.mkdtemp()
    >>> report = balanced_write(rows, f"{folder}/table", "day", workers=8)
    >>> report.partitions, report.divided <= 7, report.files <= 26 + 7, report.fullest < 1.051
    (26, True, True, True)

    """
    require_frame(df)
    if df.isStreaming:
        raise UsageError("df is a stream; valid: a static DataFrame, or a stream's batch in foreachBatch")
    spark, began = df.sparkSession, time.monotonic()
    workers = int(spark.conf.get(PARTITIONS) or 1) if workers is None else workers
    workers = check_integer("workers", workers, 1, held=2**31 - 1)
    slack = check_number("slack", slack, 0, 10)
    for name, size in (("target_file_size", target_file_size), ("min_file_size", min_file_size)):
        if size is not None:
            check_integer(name, size, 1)
    target = find_target(spark, format, path, table, mode, batch_id)
    present = {*df.columns}
    df, names = _add_partition_columns(df, by, target)
    order = _list_sort_columns(df, sort_by, target)
    costs = _make_cost(df, cost, names)
    key = make_key_column(df, [quote_name(name) for name in names])
    counted = count_loads(df, key, costs)
    total = float(counted.loads.sum())
    writers = _choose_writers(workers, total, min_file_size)
    routed, division = divide_frame(stabilise_order(df, "PLANNED"), key, counted, writers, slack)
    rows, files = _limit_files(division, counted, target_file_size)
    placed = place_rows(routed, writers, F.col(WORKER)).drop(WORKER)
    if not target.has_own_partitions:  # Sorted by partition, a task has one file open at a time.
        placed = placed.sortWithinPartitions(*(F.col(quote_name(name)) for name in names), *order)
    elif target_file_size is not None:
        options = {"target-file-size-bytes": target_file_size} | options
    target.write(placed, names, [name for name in names if name not in present], rows, options)
    report = WriteReport(
        files,
        len(counted.keys),
        division.count_divided(),
        writers,
        division.find_fullest(),
        int(counted.tuples.sum()),
        total,
    )
    if (batch := get_driver_batch(spark)) is not None:
        record_write(get_driver_query_id(spark), batch, time.monotonic() - began, workers, report)
    return report


def _list_columns(name: str, value: Any, least: int) -> list[str | Column]:
    found = [value] if isinstance(value, str | Column) else [*value] if isinstance(value, Sequence) else None
    if found is None or len(found) < least or not all(isinstance(each, str | Column) for each in found):
        raise UsageError(f"{name} is {value!r}; valid: a column's name, a Column, or a list of these")
    return found


def _list_sort_columns(df: DataFrame, sort_by: Any, target: TableTarget) -> list[str | Column]:
    """The columns that rows are sorted by within a file. Raises ``UsageError``, as ``balanced_write``."""
    order = _list_columns("sort_by", sort_by, least=0)
    if order and target.has_own_partitions:
        raise UsageError("sort_by is given and format is 'iceberg'; valid: ALTER TABLE … WRITE LOCALLY ORDERED BY")
    for each in order:
        if isinstance(each, str):
            get_field(df, each)
    return order


def _add_partition_columns(df: DataFrame, by: Any, target: TableTarget) -> tuple[DataFrame, list[str]]:
    """The DataFrame with the partition columns, and their names. Raises ``UsageError`` as ``balanced_write``."""
    names: list[str] = []
    for each in _list_columns("by", by, least=1):
        name = get_field(df, each).name if isinstance(each, Column) else find_same_column(df, each)
        if name is None:
            raise explain_missing_column(df, cast("str", each))
        if name in names:
            raise UsageError(f"by has {name!r} twice; valid: each column once")
        if isinstance(each, Column):
            if find_same_column(df, name) is not None:
                raise UsageError(f"by has an expression {name!r}, as a column of df; valid: its name, or an alias")
            df = df.withColumn(name, each)
        names.append(name)
    if len(names) == len(df.columns) and not target.has_own_partitions:
        raise UsageError(f"by has all columns of df ({', '.join(names)}); valid: some, so that files have the others")
    if target.by_folder and (same := find_same_column(df, BATCH)) is not None:
        raise UsageError(f"df has a column {same!r}, by which batches are kept apart; rename it, or give a mode")
    return _join_nulls(df, names, target.format), names


def _join_nulls(df: DataFrame, names: Sequence[str], kind: str) -> DataFrame:
    """The DataFrame whose partition columns have one value for each partition. Raises ``UsageError`` for their types.

    Null and "" have one partition, but for Iceberg. Where a column of files may be null, Spark would sort the rows anew
    when it writes them: there null is its folder's name.
    """
    for name in names:
        column, type_ = F.col(quote_name(name)), get_field(df, quote_name(name)).dataType
        if isinstance(type_, ArrayType | MapType | StructType | VariantType | BinaryType):
            raise UsageError(f"by has {name!r}, which is {type_.simpleString()}; valid: a number, string, date or time")
        if isinstance(type_, StringType) and kind != "iceberg":
            value = F.nullif(column, F.lit(""))
            df = df.withColumn(name, value if kind == "delta" else F.coalesce(value, F.lit(_NULL)))
    return df


def _make_cost(df: DataFrame, cost: str | Column | int | None, names: Sequence[str]) -> Column:
    """The cost of a row, double."""
    if cost is None:
        return estimate_bytes({field.name: field.dataType for field in df.schema if field.name not in names})
    if isinstance(cost, str | Column):
        return make_cost_column(df, cost)
    if cost != 1:
        raise UsageError(f"cost is {cost!r}; valid: a column's name, a Column, or 1")
    return F.lit(1.0)


def estimate_bytes(kinds: Mapping[str, DataType]) -> Column:
    """The bytes of a row's columns, double, as Arrow would hold them: an expression of SQL."""
    fixed, lengths = 0, []
    for name, kind in kinds.items():
        column = F.col(quote_name(name))
        width, more = _estimate_width(column, kind)
        fixed, lengths = fixed + width, [*lengths, *more]
    total = F.lit(float(max(fixed, 1)))
    for length in lengths:
        total = total + F.coalesce(length, F.lit(0))
    return total


def _estimate_width(column: Column, kind: DataType) -> tuple[int, list[Column]]:
    """The fixed bytes of a value, and the lengths that differ from row to row."""
    if isinstance(kind, StringType | BinaryType):
        return 4, [F.octet_length(column)]
    if isinstance(kind, StructType):
        parts = [_estimate_width(column.getField(field.name), field.dataType) for field in kind]
        return sum(width for width, _ in parts), [length for _, lengths in parts for length in lengths]
    if isinstance(kind, ArrayType):
        width, lengths = _estimate_width(column, kind.elementType)
        if not lengths and not isinstance(kind.elementType, ArrayType | MapType | StructType):
            return 4, [F.when(column.isNotNull(), F.size(column) * width)]
    if isinstance(kind, ArrayType | MapType | VariantType):
        return 4, [F.octet_length(column.cast("string"))]
    if isinstance(kind, DecimalType):
        return 8 if kind.precision <= 18 else 16, []
    return _WIDTHS.get(cast("Any", type(kind)), 8), []


def _choose_writers(workers: int, total: float, least: int | None) -> int:
    """How many writers there are, so that each has ``least`` cost."""
    return workers if least is None else max(1, min(workers, math.floor(total / least)))


def _limit_files(division: KeyDivision, counted: KeyLoads, target: int | None) -> tuple[int | None, int]:
    """The most rows of a file, and how many files there are.

    Spark limits files by rows alone. So the limit is that of the largest rows, of the partitions of which a writer has
    more than the target.
    """
    large = division.amounts > (np.inf if target is None else target)
    if target is None or not large.any():
        return None, len(division.key)
    each = (counted.loads / counted.tuples)[division.key]
    most = max(1, math.floor(target / each[large].max()))
    # (A row that costs nothing doesn't tell how many there are.)
    rows = np.where(each > 0, division.amounts / np.where(each > 0, each, 1), counted.tuples[division.key])
    return most, int(np.ceil(rows / most - 1e-9).sum())
