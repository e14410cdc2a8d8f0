"""Converts key columns to one plain value, as in states, and back to their types and names, as in results.

A string, binary or integer is its own plain value; a date, say, is its number of days. Several columns or a struct
become JSON of such values, without nulls. Equal keys have equal values, and vice versa.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from unskew.apps.router.row_keys import Key, is_plain, list_key_columns
from unskew.apps.router.tuple_packets import as_column
from unskew.errors import UsageError
from unskew.spark.compat import convert_type_to_arrow, get_field

_VALID = "string, binary, integer, float, decimal, boolean, date, timestamp, and structs of these"


@dataclass(frozen=True)
class KeyColumns:
    """A key of one column or several."""

    fields: list[StructField]  #: The columns' names and types.
    value: Column  #: The key as one plain value.
    kind: DataType  #: The value's type: string, binary or integer.

    @classmethod
    def of(cls, df: DataFrame, key: Key) -> "KeyColumns":
        """The columns of a DataFrame's key.

        Raises ``UsageError`` if the column doesn't exist, or its type isn't supported.
        """
        parts = list_key_columns(key)
        fields = [get_field(df, part) for part in parts]
        for part, field in zip(parts, fields, strict=True):
            if not _is_supported(field.dataType):
                raise UsageError(f"the key {part!r} is {field.dataType.simpleString()}; valid: {_VALID}")
        columns = [as_column(part) for part in parts]
        if len(fields) == 1 and is_plain(fields[0].dataType):
            return cls(fields, columns[0], fields[0].dataType)
        if len(fields) == 1 and not isinstance(fields[0].dataType, StructType):
            kind, encode, _ = _choose_coding(fields[0].dataType)
            return cls(fields, encode(columns[0]), kind)
        given = zip(columns, fields, strict=True)
        leaves = [leaf for values, field in given for leaf, _ in _flatten_leaves(values, field.dataType)]
        text = F.to_json(
            F.struct(*(leaf.alias(f"c{i}") for i, leaf in enumerate(leaves))), {"ignoreNullFields": "true"}
        )
        return cls(fields, text, StringType())

    @property
    def plain(self) -> bool:
        """Whether the plain value is the key's only column unchanged."""
        return len(self.fields) == 1 and is_plain(self.fields[0].dataType)

    @property
    def arrow(self) -> pa.DataType:
        """The value's Arrow type."""
        return convert_type_to_arrow(self.kind)

    @property
    def schema_text(self) -> str:
        """The columns' types, as in the checkpoint's record if the key isn't plain."""
        return ", ".join(field.dataType.simpleString() for field in self.fields)

    def columns(self, value: Column) -> list[Column]:
        """The key's columns from its plain value."""
        if self.plain:
            return [value.alias(self.fields[0].name)]
        first = self.fields[0]
        if len(self.fields) == 1 and not isinstance(first.dataType, StructType):
            return [_choose_coding(first.dataType)[2](value).alias(first.name)]
        kinds = [kind for field in self.fields for _, kind in _flatten_leaves(value, field.dataType)]
        schema = StructType([StructField(f"c{i}", kind) for i, kind in enumerate(kinds)])
        read = F.from_json(value, schema)
        leaves = iter([read.getField(name) for name in schema.names])
        return [_compose_column(leaves, field.dataType).alias(field.name) for field in self.fields]


def _is_supported(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_supported(field.dataType) for field in kind)
    timed = DateType | TimestampType | TimestampNTZType
    return is_plain(kind) or isinstance(kind, timed | BooleanType | DecimalType | FloatType | DoubleType)


def _choose_coding(kind: DataType) -> tuple[DataType, Callable[[Column], Column], Callable[[Column], Column]]:
    """The type of a value's plain form, and the conversions to it and back."""
    own = kind.simpleString()
    if isinstance(kind, DateType):
        return IntegerType(), F.unix_date, F.date_from_unix_date
    if isinstance(kind, TimestampType):
        return LongType(), F.unix_micros, F.timestamp_micros
    if isinstance(kind, BooleanType):
        return IntegerType(), lambda values: values.cast("int"), lambda values: values.cast("boolean")
    if isinstance(kind, FloatType | DoubleType):  # −0 equals 0
        zero = F.lit(0).cast(kind)
        return StringType(), lambda of: F.when(of == 0, zero).otherwise(of).cast("string"), lambda of: of.cast(kind)
    return StringType(), lambda values: values.cast("string"), lambda values: values.cast(own)


def _flatten_leaves(values: Column, kind: DataType) -> list[tuple[Column, DataType]]:
    """The JSON values of a column, with types. A struct begins with whether it is null."""
    if isinstance(kind, StructType):
        fields = (_flatten_leaves(values.getField(field.name), field.dataType) for field in kind)
        return [(F.when(values.isNull(), 1), IntegerType()), *(leaf for field in fields for leaf in field)]
    if isinstance(kind, BinaryType):
        return [(F.hex(values), StringType())]
    if is_plain(kind):
        return [(values, kind)]
    plain, encode, _ = _choose_coding(kind)
    return [(encode(values), plain)]


def _compose_column(leaves: Iterator[Column], kind: DataType) -> Column:
    """Compose a column from its JSON values."""
    leaf = next(leaves)
    if isinstance(kind, StructType):
        fields = [_compose_column(leaves, field.dataType).alias(field.name) for field in kind]
        return F.when(leaf.isNull(), F.struct(*fields))
    if isinstance(kind, BinaryType):
        return F.unhex(leaf)
    return leaf if is_plain(kind) else _choose_coding(kind)[2](leaf)
