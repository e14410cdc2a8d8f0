"""Substitutes for what some Spark versions lack, and PySpark's private names.

All that depends on Spark's version is here, and all private names of PySpark, except those of its Python workers
(``unskew.apps.driver.python_daemon``, ``unskew.apps.driver.python_processes``, ``unskew.apps.driver.session``). Each
function with a private name says what it is for, and what happens if it is missing.

The code tests what the installed PySpark has, not its version number, because a vendor's Spark may have more than the
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

_OWN = "unskew"  # our functions' name in plans
_SEED = 42  # of Spark's Murmur3Hash; a row's partition is pmod(hash, P)


def choose_tokens(workers: int, partitions: int) -> list[int]:
    """The workers' tokens: distinct ints such that worker w's token hashes to partition w mod P.

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
    """Put each row in the partition of its number, by ``repartitionById``, or before Spark 4.1 by a token's hash."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(partitions, number)
    by_number = F.array(*map(F.lit, choose_tokens(partitions, partitions)))
    return df.repartition(partitions, F.get(by_number, number))


def reduce_with_remedy(value: Any, remedy: str) -> tuple[Callable[[bytes, str], Any], tuple[bytes, str]]:
    """What ``__reduce__`` returns for our value, so that a Python without our package reports the remedy.

    Otherwise Spark would only report a missing module. ``pyspark.cloudpickle`` isn't documented, but Spark pickles
    functions with it. If it is missing, the import of this module fails.
    """

    # A nested function is pickled with its code, not by its module's name.
    def load(pickled: bytes, remedy: str) -> Any:
        import pickle

        try:
            import unskew  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ModuleNotFoundError:
            raise ModuleNotFoundError(remedy, name="unskew") from None
        return pickle.loads(pickled)  # noqa: S301  Spark itself has pickled it

    return load, (cloudpickle.dumps(value), remedy)


class _Function:
    """A function that is pickled with a remedy."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, given: Any) -> Any:
        return self.function(given)

    def __reduce__(self) -> tuple[Any, ...]:
        remedy = "unskew.ship_to_executors(spark) sends it, or install it there"
        remedy = f"the executors' Python lacks the package unskew: {remedy}"
        return reduce_with_remedy(self.function, remedy)


def explain_import(function: Callable[[Any], Any], name: str = _OWN) -> Any:
    """A function for executors. If their Python lacks our package, the first batch fails with the remedy.

    ``name`` is its name in plans.
    """
    there = _Function(function)

    def run(batches: Any) -> Any:
        return there(batches)

    run.__annotations__ = getattr(function, "__annotations__", {})  # Spark reads the function's kind from them
    run.__name__ = name
    return run


def apply_to_arrays(
    df: DataFrame,
    function: Callable[[Arrays], Iterator[pa.Array]],
    columns: Sequence[Column],
    returned: DataType,
    name: str = _OWN,
) -> Column:
    """Apply a function to Arrow arrays, as a column of ``df`` that is non-deterministic for the optimizer.

    So Spark neither pushes filters below it, nor evaluates it twice per row. The function gets each Arrow batch's
    ``columns``, and yields as many values, of the type ``returned``. It may read ahead. ``name`` is its name in plans.
    The default tells ``find_nondeterministic`` that a batch that runs again has the same values.
    """
    if hasattr(F, "arrow_udf"):
        arrow: Any = F.arrow_udf(explain_import(_wrap_arrow_udf(function), name), returned)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return arrow.asNondeterministic()(*columns)
    # Before Spark 4.1 via pandas, which converts integer columns with nulls to floats, and drops times' zones: both
    # travel as integers without nulls.
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
    """Adapt the function to ``arrow_udf``, which passes a single column itself, not a tuple of one."""

    def arrays(batches: Any) -> Any:
        return function((each,) if isinstance(each, pa.Array) else tuple(each) for each in batches)

    # Spark reads the function's kind from its hints.
    arrays.__annotations__ = {"batches": Arrays, "return": Iterator[pa.Array]}
    return arrays


def _wrap_pandas_udf(function: Callable[[Arrays], Iterator[pa.Array]], kinds: list[DataType]) -> Any:
    """Adapt the function to ``pandas_udf``, with the columns of ``apply_to_arrays``."""
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
    """Read a column that ``apply_to_arrays`` passed through pandas."""
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
    """``df.select(*names).mapInArrow(function, schema)`` for columns of any name, as in ``df.columns``.

    Spark looks up the columns by name, and fails if a name has a dot or a backtick, or two differ only in case. Here
    Spark sees other names, and the function gets the right ones.
    """
    given = df.columns
    plain = df.toDF(*(f"c{n}" for n in range(len(given)))).select(*(f"c{given.index(name)}" for name in names))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(list(names)) for batch in batches)

    run.__name__ = getattr(function, "__name__", run.__name__)  # plans show it
    return plain.mapInArrow(run, schema)


def choose_disk_manager(version: str) -> str:
    """The class that writes a checkpoint's files to disk without a process (``readlink``) per file.

    It moved in Spark 4.1. Before Spark starts, only its version says where it is.

    >>> choose_disk_manager("4.0.1").removeprefix("org.apache.spark.sql.execution.")
    'streaming.FileSystemBasedCheckpointFileManager'
    """
    major, minor = map(int, version.split(".")[:2])
    moved = "checkpointing." if (major, minor) >= (4, 1) else ""
    return f"org.apache.spark.sql.execution.streaming.{moved}FileSystemBasedCheckpointFileManager"


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is Spark Connect's, without a JVM here.

    Only the module's name is private. PySpark's ``is_remote()`` says how the process began, but a process may have
    sessions of both kinds.
    """
    return type(spark).__module__.startswith("pyspark.sql.connect")


def explain_missing_column(df: DataFrame, name: str) -> UsageError:
    """The error for a missing column, or several that Spark can't distinguish."""
    like = [each for each in df.columns if each.lower() == name.strip("`").lower()]
    if len(like) > 1:
        return UsageError(f"Spark takes {name!r} for each of the columns {', '.join(like)}: rename them")
    valid = (each if is_simple(each) else quote_name(each) for each in df.columns)
    return UsageError(f"there is no column {name!r}{suggest_names(name, valid)}")


def quote_name(name: str) -> str:
    """Quote a column's name for Spark's functions, in which a dot would access a struct's field.

    >>> quote_name("user.id")
    '`user.id`'
    """
    return f"`{name.replace('`', '``')}`"


def is_simple(name: str) -> bool:
    """Whether Spark accepts a column's name without quotes."""
    return not {".", "`"} & set(name)


def require_frame(df: Any, name: str = "df") -> None:
    """Raise ``UsageError`` unless it is a Spark DataFrame, not pandas', say."""
    if not (hasattr(df, "isStreaming") and hasattr(df, "sparkSession")):
        kind = f"{type(df).__module__}.{type(df).__qualname__}".removeprefix("builtins.")
        raise UsageError(f"{name} is a {kind}; valid: a DataFrame of Spark, as spark.createDataFrame(…) makes one")


def find_same_column(df: DataFrame, name: str) -> str | None:
    """The column that Spark resolves this name to, by default in any case of letters."""
    like = [each for each in df.columns if each.lower() == name.lower()]
    exact = like and is_on(df.sparkSession, "spark.sql.caseSensitive")
    return next((each for each in like if each == name or not exact), None)


def get_type(df: DataFrame, column: str | Column) -> DataType:
    """The type of a column. Raises as ``get_field``."""
    return get_field(df, column).dataType


def get_field(df: DataFrame, column: str | Column) -> StructField:
    """The name and type of a column, resolved by Spark: it may be a struct's field.

    Raises ``UsageError`` if there is no such column.
    """
    try:
        return df.select(column).schema[0]
    except AnalysisException as error:
        if isinstance(column, str):
            raise explain_missing_column(df, column) from error
        raise


def convert_type_to_arrow(kind: DataType) -> pa.DataType:
    """Convert Spark's type to Arrow's, with times in UTC.

    ``pyspark.sql.pandas.types`` is private, but without running a job PySpark has this table of types nowhere else. If
    it is missing, the import fails when a query is defined. Its arguments differ: up to 4.1, UTC is the default.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
    return to_arrow_type(kind, **zone)


def convert_schema_to_arrow(schema: StructType) -> pa.Schema:
    """Convert Spark's schema to Arrow's, with times in UTC. Private as in ``convert_type_to_arrow``."""
    kinds = convert_type_to_arrow(schema)
    return pa.schema(list(kinds))


def convert_schema_to_spark(schema: pa.Schema) -> StructType:
    """Convert Arrow's schema to Spark's. Private as in ``convert_type_to_arrow``. Versions differ in zoneless times."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def is_on(spark: SparkSession, name: str) -> bool:
    """Whether a setting is true, by choice or default. False if Spark doesn't know it."""
    try:
        return spark.conf.get(name) == "true"  # a default here would override Spark's
    except Exception:  # noqa: BLE001  classic and Connect raise different ones
        return False


def has_function(spark: SparkSession, name: str) -> bool:
    """Whether SQL has a function. PySpark lacks some, such as Spark 4.1's ``approx_top_k`` in 4.2."""
    return spark.catalog.functionExists(name)


def get_plan(df: DataFrame) -> str:
    """A DataFrame's physical plan as text, as printed by ``explain``.

    Spark Connect's ``_explain_string`` and ``_jdf`` are private, but ``explain`` prints to the terminal. If they are
    missing, ``balance`` and its like fail when a query is defined.
    """
    frame = cast("Any", df)
    if is_remote(df.sparkSession):
        return frame._explain_string()  # noqa: SLF001
    utilities = get_jvm().org.apache.spark.sql.api.python.PythonSQLUtils
    return utilities.explainString(frame._jdf.queryExecution(), "simple")  # noqa: SLF001


# A node of a plan is the first word of its line.
_NODE = re.compile(r"^[\s:|+\-*()\d]*(\w+)", re.MULTILINE)
# Spark runs jobs to find out how many tasks a plan with these has.
_RUN_BEFORE = ("Exchange", "Subquery", "AdaptiveSparkPlan", "Limit")


def list_nodes(plan: str) -> list[str]:
    """The names of a plan's operators, from the text of ``get_plan``."""
    return _NODE.findall(plan)


def count_tasks(df: DataFrame) -> int | None:
    """The number of tasks that read a static DataFrame. None if Spark would have to run a job, or is remote."""
    if df.isStreaming or is_remote(df.sparkSession):
        return None
    if any(each in node for node in list_nodes(get_plan(df)) for each in _RUN_BEFORE):
        return None
    return df.rdd.getNumPartitions()


def keeps_order(df: DataFrame) -> bool:
    """Whether the RDDs that a DataFrame reads always return rows in the same order.

    The batch in ``foreachBatch`` is such an RDD. ``_jdf`` and, in Scala, the RDD's level are private. Spark Connect
    lacks them: the order is assumed to change.
    """
    if is_remote(df.sparkSession):
        return False
    leaves = cast("Any", df)._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001
    read = [leaves.apply(n) for n in range(leaves.size())]
    rdds = [leaf.rdd() for leaf in read if leaf.getClass().getSimpleName() == "LogicalRDD"]
    return all(rdd.outputDeterministicLevel().toString() == "DETERMINATE" for rdd in rdds)


#: Classes of aggregates that depend on the order of rows, though Spark takes them for deterministic.
_BY_ORDER = frozenset(
    (
        *("AnyValue", "ApproximatePercentile", "CollectList", "CollectSet", "First", "HistogramNumeric", "Last"),
        *("ListAgg", "MaxBy", "MinBy", "Mode"),
    )
)
#: Classes of aggregates whose rounding errors depend on the order of floats.
_ROUNDED = frozenset(
    (
        *("Average", "Corr", "CovPopulation", "CovSample", "Kurtosis", "Skewness", "StddevPop", "StddevSamp", "Sum"),
        *("VariancePop", "VarianceSamp"),
    )
)


def find_nondeterministic(df: DataFrame) -> list[str]:
    """The parts of a DataFrame's plan that may give other rows when computed again.

    These are Spark's non-deterministic expressions, and samples; but not columns that aren't selected, because the
    optimizer drops them, nor our routers, which route a batch that runs again as before. (PLANNED does so only with a
    checkpoint, and has another name in plans without one.)

    ``_jdf`` and its members are private. ``optimizedPlan`` refuses streams. If a name is missing, ``kafka_sink`` fails
    when a query is defined, unless its keys are declared repeatable.
    """
    analyzed = cast("Any", df)._jdf.queryExecution().analyzed()  # noqa: SLF001
    plan = get_java_session(df.sparkSession).sessionState().optimizer().execute(analyzed)
    return sorted({re.sub(r"#\d+L?", "", text) for text in _find_doubtful(plan)})


def _find_doubtful(node: Any) -> Iterator[str]:
    """The samples, and the innermost expressions that may differ, below a plan's node."""
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
    """The elements of a Scala Seq."""
    return (sequence.apply(n) for n in range(sequence.size()))


def get_java_session(spark: SparkSession) -> Any:
    """The JVM's session, Scala's ``SparkSession``.

    ``_jsparkSession`` is private, but the only way to Hadoop's configuration with its files. Spark Connect has none:
    only the session's settings are known there.
    """
    return spark._jsparkSession  # noqa: SLF001


def get_jvm() -> Any:
    """The JVM of this process's Spark.

    ``SparkContext._jvm`` is private. It is needed for the listener's wrapper and Hadoop's classes. If it is missing, a
    topology doesn't start. The library uses it only without Connect.
    """
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001


def get_jvm_process(spark: SparkSession) -> Any:
    """The JVM's process, a ``Popen``.

    ``_gateway.proc`` is private. With it a topology notices that Spark has died, and how; without it, it doesn't start.
    The library doesn't use it.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    return gateway.proc


def kill_jvm() -> None:
    """Kill the JVM started by this process, if any: one that hangs doesn't end with the process.

    ``_gateway.proc`` is private, as in ``get_jvm_process``.
    """
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is not None:
        process.kill()


def get_accumulator_server(spark: SparkSession) -> Any:
    """The thread to which the JVM sends accumulators.

    ``_accumulatorServer`` is private. If the JVM is gone, it prints a stack trace, which a topology redirects to its
    log. Without it the topology doesn't start. The library doesn't use it.
    """
    return spark.sparkContext._accumulatorServer  # noqa: SLF001


def import_daemon() -> Any:
    """The main function of the daemon of Spark's Python workers.

    ``pyspark.daemon.manager`` is private. Our daemon (``spark.python.daemon.module``) is this one with our imports.
    Only a topology uses it; sessions without that setting have PySpark's.
    """
    from pyspark.daemon import manager

    return manager


def is_local(spark: SparkSession) -> bool:
    """Whether Spark runs on this machine."""
    return not is_remote(spark) and (spark.sparkContext.master or "").startswith("local")


@contextmanager
def override_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Override the session's settings in the block. A query keeps those with which it starts."""
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
