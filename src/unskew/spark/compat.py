"""Spark as it is installed: substitutes for what some versions lack, and pyspark's private names.

All that depends on Spark's version is here. So are the names that pyspark doesn't promise to keep, except those of its
Python workers (``unskew.apps.driver.python_daemon``, ``unskew.apps.driver.python_processes``,
``unskew.apps.driver.session``). Each function with a private name says what the name is for, and what happens if it is
missing.

The code tests what the installed pyspark has, and not its version number. A vendor's Spark may have more than the
release after which it is named.
"""

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import mmh3
import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, StructField, StructType, TimestampType

from unskew.errors import UsageError, suggest_names

if TYPE_CHECKING:  # `balance` needs pandas only where Spark is 4.0
    import pandas as pd

Arrays = Iterator[tuple[pa.Array, ...]]

_OWN = "unskew"  # the name of our functions in plans
_SEED = 42  # of Spark's Murmur3Hash; a row's partition is pmod(hash, P)


def choose_tokens(workers: int, partitions: int) -> list[int]:
    """The token of each worker: different ints, such that the hash of worker w's token is partition w mod P.

    >>> [mmh3.hash(token.to_bytes(4, "little"), 42) % 4 for token in choose_tokens(6, 4)]
    [0, 1, 2, 3, 0, 1]
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    needed = -(-workers // partitions)
    token = 0
    while any(len(found[partition]) < needed for partition in range(min(workers, partitions))):
        found[mmh3.hash(token.to_bytes(4, "little"), _SEED) % partitions].append(token)
        token += 1
    return [found[w % partitions][w // partitions] for w in range(workers)]


def place_rows(df: DataFrame, partitions: int, number: Column) -> DataFrame:
    """Put each row in the partition of its number: by ``repartitionById``, or below Spark 4.1 by a token's hash."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(partitions, number)
    by_number = F.array(*map(F.lit, choose_tokens(partitions, partitions)))
    return df.repartition(partitions, F.get(by_number, number))


def reduce_with_remedy(value: Any, remedy: str) -> tuple[Callable[[bytes, str], Any], tuple[bytes, str]]:
    """What a ``__reduce__`` returns for a value of ours, so that a Python without our package names the remedy.

    Otherwise Spark would only say that there is no module of ours. ``pyspark.cloudpickle`` is no part of pyspark's
    documented API. Spark itself pickles functions with it. If it is missing, the import of this module fails.
    """

    # A function within a function is pickled by its code, not by its module's name.
    def load(pickled: bytes, remedy: str) -> Any:
        import pickle

        try:
            import unskew  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ModuleNotFoundError:
            raise ModuleNotFoundError(remedy, name="unskew") from None
        return pickle.loads(pickled)  # noqa: S301  Spark itself has pickled it

    return load, (cloudpickle.dumps(value), remedy)


class _Function:
    """A function that is pickled with its remedy."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, given: Any) -> Any:
        return self.function(given)

    def __reduce__(self) -> tuple[Any, ...]:
        remedy = "the executors' Python lacks the package unskew: unskew.ship(spark) sends it, or install it there"
        return reduce_with_remedy(self.function, remedy)


def explain_import(function: Callable[[Any], Any], name: str = _OWN) -> Any:
    """The same function for executors. If their Python lacks our package, the first batch fails with the remedy.

    ``name`` is its name in plans.
    """
    there = _Function(function)

    def run(batches: Any) -> Any:
        return there(batches)

    run.__annotations__ = getattr(function, "__annotations__", {})  # Spark reads the kind of a function from them
    run.__name__ = name
    return run


def apply_to_arrays(
    df: DataFrame,
    function: Callable[[Arrays], Iterator[pa.Array]],
    columns: Sequence[Column],
    returned: DataType,
    name: str = _OWN,
) -> Column:
    """A function over Arrow arrays as a column of ``df``, which is non-deterministic for the optimizer.

    So Spark neither pushes filters below it, nor evaluates it twice for a row.

    Parameters
    ----------
    df : DataFrame
        The DataFrame that the columns belong to.
    function : iterator of tuples of Array → iterator of Array
        It gets the columns of each Arrow batch, and yields as many values. It may read ahead.
    columns : sequence of Column
        The columns that it gets.
    returned : DataType
        The type of the values that it yields.
    name : str
        Its name in plans. The default says to ``find_nondeterministic`` that a batch that runs again has the same
        values.

    """
    if hasattr(F, "arrow_udf"):
        arrow: Any = F.arrow_udf(explain_import(_wrap_arrow_udf(function), name), returned)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return arrow.asNondeterministic()(*columns)
    # Below Spark 4.1 by way of pandas, in which an integer column with nulls is one of floats, and times lose their
    # zone: both travel as integers without nulls.
    kinds = [field.dataType for field in df.select(*columns).schema]
    given: list[Column] = []
    for column, kind in zip(columns, kinds, strict=True):
        if isinstance(kind, IntegralType):
            given += [F.coalesce(column, F.lit(0).cast(kind)), column.isNull()]
        elif isinstance(kind, TimestampType):
            given += [F.coalesce(F.unix_micros(column), F.lit(0)), column.isNull()]
        else:
            given.append(column)
    series: Any = F.pandas_udf(explain_import(_wrap_pandas_udf(function, kinds), name), returned)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return series.asNondeterministic()(*given)


def _wrap_arrow_udf(function: Callable[[Arrays], Iterator[pa.Array]]) -> Any:
    """The function as ``arrow_udf`` takes it, which passes a single column as it is, not as a tuple of one."""

    def arrays(batches: Any) -> Any:
        return function((each,) if isinstance(each, pa.Array) else tuple(each) for each in batches)

    # Spark reads the kind of the function from its hints.
    arrays.__annotations__ = {"batches": Arrays, "return": Iterator[pa.Array]}
    return arrays


def _wrap_pandas_udf(function: Callable[[Arrays], Iterator[pa.Array]], kinds: list[DataType]) -> Any:
    """The function as ``pandas_udf`` takes it, over columns as ``apply_to_arrays`` gives them."""
    import pandas as pd

    arrow = [convert_type_to_arrow(kind) for kind in kinds]

    def arrays(batches: "Iterator[tuple[pd.Series, ...]]") -> Arrays:
        for batch in batches:
            rest = iter((batch,) if isinstance(batch, pd.Series) else batch)
            yield tuple(_read_series(next(rest), kind, rest) for kind in arrow)

    def series(batches: Any) -> Any:
        yield from (pd.Series(array.to_numpy(zero_copy_only=False)) for array in function(arrays(batches)))

    series.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.Series]}
    return series


def _read_series(values: "pd.Series", kind: pa.DataType, rest: "Iterator[pd.Series]") -> pa.Array:
    """One column of those that ``apply_to_arrays`` gives to pandas."""
    if pa.types.is_integer(kind):
        return pa.array(values.to_numpy(), kind, mask=next(rest).to_numpy(np.bool_))
    if pa.types.is_timestamp(kind):
        return pa.array(values.to_numpy(), pa.int64(), mask=next(rest).to_numpy(np.bool_)).cast(kind)
    return pa.Array.from_pandas(values, type=kind)


def map_in_arrow(
    df: DataFrame,
    names: Sequence[str],
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """``df.select(*names).mapInArrow(function, schema)`` for columns of any name.

    Spark's own looks the columns up by their names. So it fails where a name has a dot or a backtick, or where two
    differ only in the case of letters. Here Spark sees columns of other names, and the function gets the right ones.

    Parameters
    ----------
    df : DataFrame
        It has the columns.
    names : sequence of str
        The columns that the function gets, as ``df.columns`` has them.
    function : iterator of RecordBatch → iterator of RecordBatch
        As ``mapInArrow`` takes it.
    schema : StructType or str
        What the function yields.

    """
    given = df.columns
    plain = df.toDF(*(f"c{n}" for n in range(len(given)))).select(*(f"c{given.index(name)}" for name in names))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(list(names)) for batch in batches)

    run.__name__ = getattr(function, "__name__", run.__name__)  # plans show it
    return plain.mapInArrow(run, schema)


def choose_disk_manager(version: str) -> str:
    """The class that writes a checkpoint's files to a disk without a process (``readlink``) for each of them.

    It has moved with Spark 4.1. Before Spark starts, nothing but the version says where it is.

    Parameters
    ----------
    version : str
        Spark's version.

    Examples
    --------
    >>> choose_disk_manager("4.0.1").removeprefix("org.apache.spark.sql.execution.")
    'streaming.FileSystemBasedCheckpointFileManager'

    """
    major, minor = map(int, version.split(".")[:2])
    moved = "checkpointing." if (major, minor) >= (4, 1) else ""
    return f"org.apache.spark.sql.execution.streaming.{moved}FileSystemBasedCheckpointFileManager"


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is Spark Connect's, which has no JVM of its own here.

    Only the module's name is private. pyspark's ``is_remote()`` says how the process began, and a process may have
    sessions of both kinds.
    """
    return type(spark).__module__.startswith("pyspark.sql.connect")


def explain_missing_column(df: DataFrame, name: str) -> UsageError:
    """The error that a DataFrame has no such column, or several that Spark can't tell apart."""
    like = [each for each in df.columns if each.lower() == name.strip("`").lower()]
    if len(like) > 1:
        return UsageError(f"Spark takes {name!r} for each of the columns {', '.join(like)}: rename them")
    valid = (each if is_simple(each) else quote_name(each) for each in df.columns)
    return UsageError(f"there is no column {name!r}{suggest_names(name, valid)}")


def quote_name(name: str) -> str:
    """A column's name as Spark's functions take it. Without quotes, a dot in it would lead to a struct's field.

    >>> quote_name("user.id")
    '`user.id`'
    """
    return f"`{name.replace('`', '``')}`"


def is_simple(name: str) -> bool:
    """Whether Spark takes a column's name as it is, without quotes."""
    return not {".", "`"} & set(name)


def require_frame(df: Any, name: str = "df") -> None:
    """Raise ``UsageError`` for an argument that isn't a DataFrame of Spark, such as one of pandas."""
    if not (hasattr(df, "isStreaming") and hasattr(df, "sparkSession")):
        kind = f"{type(df).__module__}.{type(df).__qualname__}".removeprefix("builtins.")
        raise UsageError(f"{name} is a {kind}; valid: a DataFrame of Spark, as spark.createDataFrame(…) makes one")


def find_same_column(df: DataFrame, name: str) -> str | None:
    """The column of a DataFrame that Spark takes for one of this name, in any case of letters by default."""
    like = [each for each in df.columns if each.lower() == name.lower()]
    exact = like and is_on(df.sparkSession, "spark.sql.caseSensitive")
    return next((each for each in like if each == name or not exact), None)


def get_type(df: DataFrame, column: str | Column) -> DataType:
    """The type of a column. Raises as ``get_field``."""
    return get_field(df, column).dataType


def get_field(df: DataFrame, column: str | Column) -> StructField:
    """The name and the type of a column. Spark finds it: a name may be that of a struct's field.

    Raises
    ------
    UsageError
        There is no column of that name.

    """
    try:
        return df.select(column).schema[0]
    except AnalysisException as error:
        if isinstance(column, str):
            raise explain_missing_column(df, column) from error
        raise


def convert_type_to_arrow(kind: DataType) -> pa.DataType:
    """Spark's type as Arrow's. Times are UTC.

    It is private in ``pyspark.sql.pandas.types``. Without running a job, pyspark has this table of types nowhere else.
    If it is missing, the import fails when a query is defined. Its arguments differ: up to 4.1, UTC is the default.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
    return to_arrow_type(kind, **zone)


def convert_schema_to_arrow(schema: StructType) -> pa.Schema:
    """Spark's schema as Arrow's. Times are UTC. The private names are those of ``convert_type_to_arrow``."""
    kinds = convert_type_to_arrow(schema)
    return pa.schema(list(kinds))


def convert_schema_to_spark(schema: pa.Schema) -> StructType:
    """Arrow's schema as Spark's. Private as in ``convert_type_to_arrow``. Versions differ in times without a zone."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def is_on(spark: SparkSession, name: str) -> bool:
    """Whether a setting is true, by the user's choice or by default. A Spark that doesn't know it hasn't it."""
    try:
        return spark.conf.get(name) == "true"  # with a default here, Spark's own default wouldn't count
    except Exception:  # noqa: BLE001  classic and Connect raise different ones
        return False


def has_function(spark: SparkSession, name: str) -> bool:
    """Whether SQL has a function. pyspark doesn't have all of them: ``approx_top_k``, of Spark 4.1, it lacks in 4.2."""
    return spark.catalog.functionExists(name)


def get_plan(df: DataFrame) -> str:
    """The physical plan of a DataFrame as text, as ``explain`` prints it.

    ``_explain_string`` of Spark Connect is private, and so is ``_jdf``. ``explain`` itself prints to the terminal. If
    they are missing, ``balance`` and its kin fail when a query is defined.
    """
    frame = cast("Any", df)
    if is_remote(df.sparkSession):
        return frame._explain_string()  # noqa: SLF001
    utilities = get_jvm().org.apache.spark.sql.api.python.PythonSQLUtils
    return utilities.explainString(frame._jdf.queryExecution(), "simple")  # noqa: SLF001


# A node of a plan is the first word of its line.
_NODE = re.compile(r"^[\s:|+\-*()\d]*(\w+)", re.MULTILINE)
# Before Spark can say how many tasks a plan with these has, it runs jobs.
_RUN_BEFORE = ("Exchange", "Subquery", "AdaptiveSparkPlan", "Limit")


def list_nodes(plan: str) -> list[str]:
    """The names of a plan's operators, of a text of ``get_plan``."""
    return _NODE.findall(plan)


def count_tasks(df: DataFrame) -> int | None:
    """The number of tasks that read a static DataFrame. None: Spark would have to run a job to know, or is remote."""
    if df.isStreaming or is_remote(df.sparkSession):
        return None
    if any(each in node for node in list_nodes(get_plan(df)) for each in _RUN_BEFORE):
        return None
    return df.rdd.getNumPartitions()


def keeps_order(df: DataFrame) -> bool:
    """Whether the RDDs that a DataFrame reads give their rows in the same order each time.

    Such an RDD is the batch that ``foreachBatch`` gives. ``_jdf`` is private, and so is the RDD's level, to Scala. A
    session of Spark Connect doesn't have them: the order is taken for one that changes.
    """
    if is_remote(df.sparkSession):
        return False
    leaves = cast("Any", df)._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001
    read = [leaves.apply(n) for n in range(leaves.size())]
    rdds = [leaf.rdd() for leaf in read if leaf.getClass().getSimpleName() == "LogicalRDD"]
    return all(rdd.outputDeterministicLevel().toString() == "DETERMINATE" for rdd in rdds)


#: Classes of aggregates that depend on the order of the rows. Spark says of them that they are deterministic.
_BY_ORDER = frozenset(
    (
        *("AnyValue", "ApproximatePercentile", "CollectList", "CollectSet", "First", "HistogramNumeric", "Last"),
        *("ListAgg", "MaxBy", "MinBy", "Mode"),
    )
)
#: Classes of aggregates whose rounding errors depend on the order of floating numbers.
_ROUNDED = frozenset(
    (
        *("Average", "Corr", "CovPopulation", "CovSample", "Kurtosis", "Skewness", "StddevPop", "StddevSamp", "Sum"),
        *("VariancePop", "VarianceSamp"),
    )
)


def find_nondeterministic(df: DataFrame) -> list[str]:
    """What a DataFrame's rows depend on that may differ when they are computed again, as the plan shows it.

    That are Spark's non-deterministic expressions, and samples. Columns that aren't selected don't count, because the
    optimizer leaves them out. Nor do our routers, which route the rows of a batch that runs again as before. (PLANNED
    does so only beside a checkpoint, and has another name in plans without one.)

    ``_jdf`` and what it leads to are private. ``optimizedPlan`` refuses a stream. If a name is missing, ``kafka_sink``
    fails when a query is defined, unless it is told that its keys are repeatable.
    """
    analyzed = cast("Any", df)._jdf.queryExecution().analyzed()  # noqa: SLF001
    plan = get_java_session(df.sparkSession).sessionState().optimizer().execute(analyzed)
    return sorted({re.sub(r"#\d+L?", "", text) for text in _find_doubtful(plan)})


def _find_doubtful(node: Any) -> Iterator[str]:
    """The samples, and the innermost expressions that may differ, below a node of a plan."""
    if node.getClass().getSimpleName() == "Sample":
        yield "a sample"
    for expression in _iterate_seq(node.expressions()):
        yield from _find_innermost(expression)
    for child in _iterate_seq(node.children()):
        yield from _find_doubtful(child)


def _find_innermost(expression: Any) -> Iterator[str]:
    below = [text for child in _iterate_seq(expression.children()) for text in _find_innermost(child)]
    text = expression.toString()
    own, name = text.startswith(f"{_OWN}("), expression.getClass().getSimpleName()
    if below:
        yield from below
    elif (
        name in _BY_ORDER or (name in _ROUNDED and _is_floating(expression)) or not (own or expression.deterministic())
    ):
        yield text


def _is_floating(aggregate: Any) -> bool:
    return any(child.dataType().typeName() in {"float", "double"} for child in _iterate_seq(aggregate.children()))


def _iterate_seq(sequence: Any) -> Iterator[Any]:
    """The elements of a Seq of Scala's."""
    return (sequence.apply(n) for n in range(sequence.size()))


def get_java_session(spark: SparkSession) -> Any:
    """The session in the JVM, a ``SparkSession`` of Scala's.

    ``_jsparkSession`` is private. There is no other way to Hadoop's configuration with what its files say. A session of
    Spark Connect has none, and only the session's own settings are known there.
    """
    return spark._jsparkSession  # noqa: SLF001


def get_jvm() -> Any:
    """The JVM of this process' Spark.

    ``SparkContext._jvm`` is private. The listener's wrapper and Hadoop's classes are called through it. If it is
    missing, a topology doesn't start. The library asks for it only in a session that isn't Connect's.
    """
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001


def get_jvm_process(spark: SparkSession) -> Any:
    """The process of the JVM, a ``Popen``.

    ``_gateway.proc`` is private. A topology needs it to notice that Spark has died, and how. Without it the topology
    doesn't start. The library doesn't use it.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    return gateway.proc


def kill_jvm() -> None:
    """Kill the JVM that this process has started, if any: one that hangs doesn't end with the process.

    ``_gateway.proc`` is private, as in ``get_jvm_process``.
    """
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is not None:
        process.kill()


def get_accumulator_server(spark: SparkSession) -> Any:
    """The thread to which the JVM sends accumulators.

    ``_accumulatorServer`` is private. It prints a stack trace if the JVM is gone, which a topology sends to its log.
    Without it the topology doesn't start. The library doesn't use it.
    """
    return spark.sparkContext._accumulatorServer  # noqa: SLF001


def import_daemon() -> Any:
    """The main function of the daemon from which Spark's Python workers fork.

    ``pyspark.daemon.manager`` is private. Our own daemon (``spark.python.daemon.module``) is this one with our imports
    done. Only a topology uses it; a session without that setting has pyspark's.
    """
    from pyspark.daemon import manager

    return manager


def is_local(spark: SparkSession) -> bool:
    """Whether Spark runs on this machine."""
    return not is_remote(spark) and (spark.sparkContext.master or "").startswith("local")


@contextmanager
def override_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, until the block ends. A query keeps those with which it starts."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
