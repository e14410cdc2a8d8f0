"""The order of a task's rows, on which routing depends: each attempt of the task must get them in the same order.

Sources that Spark reads with one task a partition or file give such an order. A shuffle doesn't: blocks are fetched in
the order in which they come. If an executor is lost, its tasks run again, and would route the rows otherwise than
before. Workers that had their rows already keep them, so some rows would be lost and others doubled.

So behind a shuffle the rows of a static DataFrame are sorted. (Which rows a ``limit`` without an order chooses isn't
repeatable at all, with any operation of Spark's.) Spark doesn't sort streams. There it must itself notice that a task's
output differs. Then it ends the query, which goes on from its checkpoint when it is started again.
"""

from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, StructType, VariantType

from unskew.apps.router.tuple_packets import as_column
from unskew.errors import UsageError
from unskew.grouping import get_grouping
from unskew.spark.compat import get_plan, is_on, keeps_order, list_nodes, quote_name

# Spark's settings by which it notices. Spark 4.1 has them, 4.2 sets them by default.
_NOTICES = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
# Vendors have shuffles of their own, all with this word in their names.
_EXCHANGE, _NONE = "Exchange", "Broadcast"
# These bring the rows of all tasks to one. At the top of a plan the exchange for that isn't shown.
_GATHER = ("CollectLimit", "CollectTail", "GlobalLimit", "TakeOrderedAndProject")
_READ = "Scan ExistingRDD"


def stabilise_order(df: DataFrame, grouping: str, time: str | Column | None = None) -> DataFrame:
    """The DataFrame with the rows of each task in an order that all attempts of the task give.

    Parameters
    ----------
    df : DataFrame
        A stream, or a static DataFrame.
    grouping : str
        The grouping that routes the rows. The order doesn't matter to one that goes by the key alone.
    time : str or Column, optional
        The tuples' times. If rows are sorted and the grouping goes by time, they are sorted by it first.

    Raises
    ------
    UsageError
        A stream is behind a shuffle, and Spark doesn't notice that a shuffled output differs. Or rows are to be sorted,
        and columns have the same name.

    """
    if grouping == "KEY" or not _reads_shuffle(df):
        return df
    if not df.isStreaming:
        first = [as_column(time)] if time is not None and get_grouping(grouping).uses_time else []
        return df.sortWithinPartitions(*first, *_list_columns(df))
    lacking = [name for name in _NOTICES if not is_on(df.sparkSession, name)]
    if lacking:
        raise UsageError(
            "the stream is behind a shuffle (a join, an aggregation, repartition, …): after a failure its rows may "
            "come in another order, and be lost or doubled; route it before the shuffle or in foreachBatch, or set "
            f"{' and '.join(lacking)} to true (Spark 4.1 and later)"
        )
    return df


def _reads_shuffle(df: DataFrame) -> bool:
    """Whether the tasks that read the DataFrame's rows may fetch them from a shuffle."""
    plan = get_plan(df)
    if any(node in _GATHER or (_EXCHANGE in node and _NONE not in node) for node in list_nodes(plan)):
        return True
    return _READ in plan and not keeps_order(df)


def _list_columns(df: DataFrame) -> list[Column]:
    """All columns, to sort by. Rows that are equal in all of them may change places.

    The first is a hash of the others, because groupings do badly where a key's rows come all together. Spark neither
    sorts nor hashes all types, so the values of some are written as JSON.
    """
    twice = [name for name, number in Counter(df.columns).items() if number > 1]
    if twice:
        raise UsageError(f"the DataFrame, which is behind a shuffle, has several columns {twice[0]!r}: rename them")
    plain = []
    for field in df.schema:
        values = F.col(quote_name(field.name))
        plain.append(values if _is_sortable(field.dataType) else F.to_json(F.struct(values)))
    return [F.xxhash64(*plain), *plain]


def _is_sortable(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_sortable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_sortable(field.dataType) for field in kind)
    return not isinstance(kind, MapType | VariantType | CalendarIntervalType)
