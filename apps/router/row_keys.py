"""The key of a user's rows: a name, a column, or a list of these. Routers read it as one plain column.

Strings, binaries and integers are read as they are. All else is read as Spark's 64-bit hash, in which all NaN are
equal, and both zeros. Groupings tell keys apart by 64-bit hashes anyway. So the rows of a key always meet, and two keys
share a hash by a chance of one in 2^64.

Spark's hashes take a string's bytes, whatever its collation. So strings that a collation of Spark's own, UTF8_LCASE or
with RTRIM, holds for equal are brought to one form first. ICU's collations have no such form in SQL.
"""

from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from unskew.apps.router.tuple_packets import as_column
from unskew.errors import UsageError
from unskew.spark.compat import get_type

Key: TypeAlias = str | Column | Sequence[str | Column]

_HASHED = (
    StringType,
    BinaryType,
    IntegralType,
    FractionalType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
    DayTimeIntervalType,
    YearMonthIntervalType,
)
_VALID = (
    "string, binary, integer, float, decimal, boolean, date, timestamp, interval, and arrays and structs of these; "
    "strings of another collation as collate(…, 'UTF8_BINARY')"
)
_LOWER, _TRIM = "UTF8_LCASE", "_RTRIM"
#: Collations, less RTRIM, whose equal strings have one form that SQL can make.
_COMPARED = ("UTF8_BINARY", _LOWER)


def make_key_column(df: DataFrame, key: Key) -> Column:
    """The key as a column that routers read: string, binary or integer.

    Rows have the same key if they are equal in all columns of a list. Null equals null. Raises ``UsageError`` if there
    is no such column, Spark can't compare values of its type, or the list is empty.
    """
    parts = list_key_columns(key)
    kinds = [get_type(df, part) for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        if not _is_supported(kind):
            raise UsageError(f"the key {part!r} is {kind.simpleString()}; valid: {_VALID}")
    if len(parts) == 1 and is_plain(kinds[0]):
        return as_column(parts[0])
    return F.xxhash64(
        *(each for part, kind in zip(parts, kinds, strict=True) for each in _list_hash_inputs(as_column(part), kind))
    )


def list_key_columns(key: Key) -> list[str | Column]:
    """The columns of a key."""
    parts = [key] if isinstance(key, str | Column) else list(key) if isinstance(key, Sequence) else []
    if not parts or not all(isinstance(part, str | Column) for part in parts):
        raise UsageError(f"key is {key!r}; valid: a column's name, a Column, or a list of these")
    return parts


def is_plain(kind: DataType) -> bool:
    """Whether routers read a key of this type as it is. Strings that are compared by another collation they don't."""
    return isinstance(kind, StringType | BinaryType | IntegralType) and _get_collation(kind) == "UTF8_BINARY"


def _get_collation(kind: DataType) -> str:
    return getattr(kind, "collation", None) or "UTF8_BINARY"


def _is_supported(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_supported(kind.elementType) and not _has_collation(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_supported(field.dataType) for field in kind)
    return isinstance(kind, _HASHED) and _get_collation(kind).removesuffix(_TRIM) in _COMPARED


def _has_collation(kind: DataType) -> bool:
    """Whether there are strings of another collation than UTF8_BINARY in a value."""
    if isinstance(kind, ArrayType):
        return _has_collation(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_collation(field.dataType) for field in kind)
    return _get_collation(kind) != "UTF8_BINARY"


def _list_hash_inputs(values: Column, kind: DataType) -> list[Column]:
    """What is hashed of a column. Spark's hash skips nulls, so (null, 1) and (1, null) alone would have the same."""
    if isinstance(kind, StructType):
        fields = (_list_hash_inputs(values.getField(field.name), field.dataType) for field in kind)
        return [values.isNull(), *(each for field in fields for each in field)]
    return [
        values.isNull(),
        _normalise_strings(values, _get_collation(kind)) if isinstance(kind, StringType) else values,
    ]


def _normalise_strings(values: Column, collation: str) -> Column:
    """Strings in the form that all strings have which the collation holds for equal to them."""
    if collation == "UTF8_BINARY":
        return values
    values = F.collate(values, "UTF8_BINARY")
    if collation.endswith(_TRIM):
        values = F.rtrim(values)
    if collation.startswith(_LOWER):  # which has one small sigma, where lower() has another at the end of a word
        values = F.translate(F.lower(values), "ς", "σ")
    return values
