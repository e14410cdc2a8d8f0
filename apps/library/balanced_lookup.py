"""``balanced_lookup``: add columns from a database, a table or a service to each row, by its key."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from unskew.apps.library.keyed_map import keyed_map
from unskew.apps.operators.lookup import Lookup, LookupFunction
from unskew.apps.router.row_keys import is_plain
from unskew.apps.router.tuple_packets import as_column, make_cost_column, make_source_column
from unskew.apps.worker.usage_reports import parse_result_type
from unskew.durations import Duration, parse_milliseconds
from unskew.errors import UsageError
from unskew.spark.compat import convert_schema_to_arrow, find_same_column, get_type, is_simple, require_frame

_KEY, _SOURCE, _COST = "__unskew_key", "__unskew_source", "__unskew_cost"


def balanced_lookup(
    df: DataFrame,
    key: str | Column,
    workers: int,
    lookup: LookupFunction,
    columns: StructType | str,
    grouping: str = "PLANNED",
    checkpoint: str | None = None,
    *,
    ttl: Duration = "10 minutes",
    missing_ttl: Duration = "1 minute",
    how: str = "left",
    on_error: str = "fail",
    retries: int = 4,
    source: str | Column | None = None,
    sources: int | None = None,
    cost: str | Column | None = None,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    seed: int = 0,
    observe: str | None = None,
    **options: Any,
) -> DataFrame:
    """Add columns to each row that a function looks up by the row's key: in a database, a table or a service.

    The rows of a key come to few workers, which remember the answers. So all workers together ask for hardly more keys
    than there are, and a hot key, whose rows are spread over several workers, slows none of them.

    Parameters
    ----------
    df : DataFrame
        A stream, or a static DataFrame.
    key : str or Column
        What is looked up: a string, binary or integer. Null isn't looked up, and has no match.
    lookup : pyarrow.Array → pyarrow.RecordBatch or Table
        Gets distinct keys, and returns at most one row for each: the column ``key``, and ``columns``. It is called once
        a batch at each worker, for keys that are new or older than ``ttl``. ``unskew.lookups`` has ready-made ones.
    columns : StructType or str
        The columns that are looked up, such as ``"name string, country string"``.
    ttl, missing_ttl : timedelta, number (s) or str
        How long a row that was found stays valid, and how long it stays valid that a key has none.
    how : str
        ``left``: rows without a match stay, with nulls; ``inner``: they are left out.
    on_error : str
        If all attempts fail, ``fail`` ends the query. With ``ignore`` rows get the last answer that is known, or are
        treated as rows without a match, and the next batch asks again.
    retries : int
        How often a failed lookup is tried again, with pauses that double from 0.2 s to 5 s.
    workers, grouping, checkpoint, observe
        As for ``keyed_map``. The grouping may split keys, because nothing needs to be merged.
    source, sources, cost, weights, most_workers, seed, options
        As for ``balance``.

    Returns
    -------
    DataFrame
        The columns of ``df``, and those that are looked up. The rows may come in another order.

    Raises
    ------
    UsageError, EnvironmentFault
        As ``keyed_map``; also if ``df`` already has one of ``columns``, or the key has another type.
    StateFault
        The query fails with it if the lookup fails, or doesn't return at most one row for each key.

    Examples
    --------
    >>> import pyarrow as pa
    >>> countries = {"tr": "Türkiye", "de": "Germany"}
    >>> def name_countries(keys):
    ...     known = [key for key in keys.to_pylist() if key in countries]
    ...     return pa.table({"key": known, "name": [countries[key] for key in known]})
    >>> events = spark.createDataFrame([("tr", 1), ("de", 2), ("xx", 3), ("tr", 4)], "country string, id long")
    >>> named = balanced_lookup(events, "country", 2, name_countries, "name string")
    >>> [tuple(row) for row in named.orderBy("id").collect()]
    [('tr', 1, 'Türkiye'), ('de', 2, 'Germany'), ('xx', 3, None), ('tr', 4, 'Türkiye')]

    """
    require_frame(df)
    found = _parse_columns(df, columns)
    kind = get_type(df, key)
    if not is_plain(kind):
        raise UsageError(f"the key {key!r} is {kind.simpleString()}; valid: string, binary, integer")
    # The user's columns by their places: names may differ in case alone, or be those of our own.
    names = [f"c{n}" for n in range(len(df.columns))]
    own = {_KEY: as_column(key)}
    if source is not None:
        own[_SOURCE] = make_source_column(df, source)
    if cost is not None:
        own[_COST] = make_cost_column(df, cost)
    rows = df.select("*", *own.values()).toDF(*names, *own)
    # A key that is a column as it is travels once.
    shown = dict(zip(names, df.schema, strict=True))
    plain = isinstance(key, str) and is_simple(key)
    carried = [name for name in names if not plain or shown[name].name != key]
    work = Lookup(
        lookup,
        convert_schema_to_arrow(StructType([rows.schema[name] for name in carried])),
        convert_schema_to_arrow(found),
        parse_milliseconds("ttl", ttl, least=1),
        parse_milliseconds("missing_ttl", missing_ttl, least=1),
        how,
        on_error,
        retries,
    )
    results = keyed_map(
        rows,
        _KEY,
        workers,
        work,
        grouping,
        checkpoint,
        source=None if source is None else F.col(_SOURCE),
        sources=sources,
        cost=None if cost is None else F.col(_COST),
        weights=weights,
        most_workers=most_workers,
        seed=seed,
        observe=observe,
        **options,
    ).toDF(_KEY, *carried, *(f"v{n}" for n in range(len(found))))
    # Their own types, of which Arrow's may be wider.
    given = (
        F.col(name if name in carried else _KEY).cast(field.dataType).alias(field.name) for name, field in shown.items()
    )
    values = (F.col(f"v{n}").cast(field.dataType).alias(field.name) for n, field in enumerate(found))
    return results.select(*given, *values)


def _parse_columns(df: DataFrame, columns: StructType | str) -> StructType:
    """The columns that are looked up.

    Raises ``UsageError`` if there are none, the DataFrame has one of them already, or one is called as the key's.
    """
    found = parse_result_type(df.sparkSession, columns)
    if not found.names:
        raise UsageError("columns is empty; valid: at least one column, such as 'name string'")
    for name in found.names:
        if (there := find_same_column(df, name)) is not None:
            raise UsageError(f"there is a column {there!r} already; look it up by another name")
        if name == "key":
            raise UsageError("a column that is looked up is called 'key', as the key is there; give it another name")
    return found
