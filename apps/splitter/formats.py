"""The splitters of all source types: where the key is in a message, and why a message isn't of the format.

The formats of our datasets come first: their files say where the key is. Then come those of a user's own topic
(COLUMN), for which the user names the field of the key.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.splitter.avro_decoder import AvroDecoder, make_avro_splitter, read_schema_file
from unskew.apps.splitter.avro_refusals import SchemaRefusals
from unskew.apps.splitter.field_columns import KAFKA_COLUMNS, NOW, EventTime, FieldColumn, explain_row, make_arrays
from unskew.apps.splitter.json_fields import JsonFields
from unskew.apps.splitter.schema_registry import SchemaRegistry, find_schema_numbers
from unskew.apps.splitter.splitter import (
    Splitter,
    apply_to_column,
    explain_not_json,
    explain_unreadable,
    make_field_splitter,
    parse_document,
    split_batch_time,
)
from unskew.errors import UsageError, suggest_names
from unskew.producers.datasets.interface import KeyField
from unskew.producers.datasets.registry import DATASETS, create_dataset
from unskew.producers.messages import ELECTION_DAY, ELECTION_WORDS, LETTERS, MANGLED
from unskew.producers.readers.columns import ColumnDataset


def make_dataset_splitter(key: KeyField) -> Splitter:
    """The splitter of a dataset's messages. Other fields than the key's and the count's are ignored."""
    if key.several:
        return split_hashtags(key.path[0])
    return make_field_splitter(
        JsonFields(key.path, key.count, rule=key.rule, scalars=key.scalars, optional=key.optional)
    )


def split_hashtags(name: str) -> Splitter:
    """Messages with a list of hashtags. Each is a key, by the rule of ``unskew.producers.messages``."""

    def keys(parsed: Column) -> Column:
        found = F.when(right(kind(parsed)), F.try_variant_get(parsed, f"$.{name}", "array<string>"))
        return F.transform(F.filter(found, lambda tag: ~F.contains(tag, F.lit(MANGLED))), fold)

    def fold(tag: Column) -> Column:
        plain = F.lower(F.translate(tag, *LETTERS))
        return F.when(plain.rlike("|".join(ELECTION_WORDS)), F.lit(ELECTION_DAY)).otherwise(plain)

    def kind(parsed: Column) -> Column:
        return F.schema_of_variant(F.try_variant_get(parsed, f"$.{name}", "variant"))

    def right(found: Column) -> Column:
        return found.isin("ARRAY<STRING>", "ARRAY<VOID>")  # an empty list is a list of anything

    def reason(value: Column) -> Column:
        parsed = parse_document(value)
        found = kind(parsed)
        return (
            explain_unreadable(value)
            .when(parsed.isNull(), explain_not_json(value))
            .when(found.isNull(), F.lit(f"no field {name!r}"))
            .when(~right(found), F.concat(F.lit(f"field {name!r} is "), found, F.lit(", not ARRAY<STRING>")))
        )

    return Splitter(keys, reason, several=True)


#: The formats of the messages of a COLUMN topic.
FORMATS = ("json", "avro", "csv", "text")
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"
_FIELD = r"[^.'\[\]]+(\.[^.'\[\]]+)*"
_CSV_COLUMN = r"[1-9]\d{0,2}"
_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")  # a text of CSV that is a number
_COLUMNS = 1 << 20  # most columns of a CSV line; with more, Spark's parser ends the query
_CSV = {"escape": '"', "maxColumns": str(_COLUMNS)}  # RFC 4180: a quote inside quotes is doubled


@dataclass(frozen=True)
class SchemaSource:
    """The source of Avro's schemas: a file's path, or a registry's URL (default: ``$SCHEMA_REGISTRY_URL``).

    ``refusals`` are those of the stream to which the messages belong, if there is one.
    """

    address: str | None = field(default=None, repr=False)  # it may have a password
    refusals: SchemaRefusals | None = field(default=None, compare=False)

    def decoder(self, path: str, samples: Sequence[bytes], columns: tuple[FieldColumn, ...] = ()) -> AvroDecoder:
        """The decoder of the messages, which reads their key at a path, and further columns.

        Raises ``UsageError`` if the file isn't a schema, or the address is invalid; ``EnvironmentFault`` if the
        registry doesn't give the samples' schemas.
        """
        address = self.address or os.environ.get(REGISTRY_VARIABLE)
        if not address:
            valid = f"a file, a registry's URL (or ${REGISTRY_VARIABLE})"
            raise UsageError(f"schema is missing; valid with format avro: {valid}")
        if "://" not in address:
            return AvroDecoder(path, schema=read_schema_file(address), columns=columns)
        wanted = find_schema_numbers(samples)
        if wanted and self.refusals:
            # A batch that is replayed refuses them again, even if the registry has them now.
            wanted = self.refusals.filter_allowed(wanted)
        registry = SchemaRegistry.at(address).with_schemas(wanted)
        return AvroDecoder(path, registry=registry, columns=columns)


NO_SCHEMAS = SchemaSource()


def make_column_splitter(
    form: str,
    field: str | None,
    samples: Sequence[bytes] = (),
    schemas: SchemaSource = NO_SCHEMAS,
    columns: tuple[FieldColumn, ...] = (),
) -> Splitter:
    """The splitter of any topic. The key is a field of JSON or Avro, a column of CSV, or the whole text.

    Parameters
    ----------
    form : str
        One of ``FORMATS``. JSON may have Confluent's framing (a zero byte and a schema's number) before it.
    field : str, optional
        For JSON and Avro a field, whose dots lead to nested objects (``user.id``). Its texts, numbers and truth values
        are keys. For CSV the column's number, from 1. For text nothing.
    samples : sequence of bytes
        Messages of the topic. The Avro schemas that they name are fetched.
    schemas : SchemaSource
        The source of Avro's schemas.
    columns : tuple of FieldColumn
        Further columns, which are fields of JSON or Avro. Of CSV the event's time can be one.

    Raises
    ------
    UsageError
        There is no such format, or the format can't have such a field. Or Avro has no schema, or another format has
        one.
    EnvironmentFault
        The schema registry doesn't answer.

    """
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}{suggest_names(form, FORMATS)}")
    if schemas != NO_SCHEMAS and form != "avro":
        raise UsageError(f"schema is for format avro, not {form}")
    if form == "text":
        if field is not None:
            raise UsageError(f"key_field is {field!r}; valid with format text: none, the whole text is the key")
        _require_no_columns("format text", columns)
        return _make_text_splitter(lambda text: text, "no text")
    if form == "csv":
        return _make_csv_splitter(field, columns)
    if not re.fullmatch(_FIELD, field or ""):
        raise UsageError(f"key_field is {field!r}; valid with format {form}: a field, as user, user.id")
    _require_paths(columns)
    if form == "avro":
        return make_avro_splitter(schemas.decoder(str(field), samples, columns), schemas.refusals)
    return make_field_splitter(replace(JsonFields.column(str(field)), columns=columns))


def _require_paths(columns: Sequence[FieldColumn]) -> None:
    """Refuse a column whose path isn't one."""
    for column in columns:
        if not re.fullmatch(_FIELD, column.path):
            raise UsageError(f"{column.option} is {column.path!r}; valid: a field of the messages, as at, user.at")


def _require_no_columns(what: str, columns: Sequence[FieldColumn]) -> None:
    """Refuse columns of messages that have no fields."""
    for column in columns:
        valid = "none, its messages have no fields" if isinstance(column, EventTime) else ", ".join(KAFKA_COLUMNS)
        raise UsageError(f"{column.option} is {column.path!r}; valid with {what}: {valid}")


def _make_csv_splitter(field: str | None, columns: tuple[FieldColumn, ...]) -> Splitter:
    """The splitter of CSV. The key, and the event's time if it is read, are columns by their number."""
    _require_no_columns("format csv", [column for column in columns if not isinstance(column, EventTime)])
    numbers = {"key_field": field, **{column.option: column.path for column in columns}}
    for option, number in numbers.items():
        if not re.fullmatch(_CSV_COLUMN, number or ""):
            raise UsageError(f"{option} is {number!r}; valid with format csv: the column's number, from 1 to 999")
    names = [f"c{number}" for number in range(1, max(int(number or 0) for number in numbers.values()) + 1)]
    schema = ", ".join(f"{name} string" for name in names)

    def cell(text: Column, number: str | None = field) -> Column:
        commas = F.octet_length(text) - F.octet_length(F.replace(text, F.lit(","), F.lit("")))
        few = (F.octet_length(text) < _COLUMNS) | (commas < _COLUMNS)
        return F.when(few, F.from_csv(text, schema, _CSV))[f"c{number}"]

    split = _make_text_splitter(cell, f"nothing in column {field}", _has_more_records)
    return _add_text_time(split, cell, columns[0]) if columns else split


def _add_text_time(split: Splitter, cell: Callable[[Column, str], Column], time: FieldColumn) -> Splitter:
    """A splitter of texts that also reads the event's time from a part of the text."""

    def read(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            texts, now_ms = split_batch_time(batch)
            yield read_text_times(time, texts, now_ms)

    def given(value: Column) -> Column:
        text = value.cast("string")
        part = F.when(F.is_valid_utf8(text), cell(text, time.path))
        return apply_to_column(read, f"{time.name} timestamp, reason string", F.struct(part.alias("text"), F.col(NOW)))

    def keys(value: Column) -> Column:
        found = given(value)[time.name]
        key = F.when(found.isNotNull(), split_keys(value))
        return F.struct(key.alias("key"), found.alias(time.name))

    split_keys = cast("Callable[[Column], Column]", split.keys)
    return Splitter(keys, lambda value: F.coalesce(split.reason(value), given(value)["reason"]), columns=(time,))


def read_text_times(time: FieldColumn, texts: pa.Array, now_ms: int) -> pa.StructArray:
    """The times of n texts, each a number or as in RFC 3339, and the reasons where there is none."""
    rows: list[tuple[Any]] = []
    reasons: list[str | None] = []
    for text in texts.to_pylist():
        given = text if text is None or not _NUMBER.fullmatch(text) else float(text) if "." in text else int(text)
        value = time.convert(given)
        rows.append((value,))
        lacking = f"nothing in column {time.path}" if text is None else time.refuse(given, "text")
        reasons.append(lacking if value is None else None)
    (times,), fit = make_arrays((time,), rows, now_ms)
    for n, row in enumerate(rows):
        if not fit[n] and reasons[n] is None:
            reasons[n] = explain_row((time,), row, now_ms)
    return pa.StructArray.from_arrays([times, pa.array(reasons, pa.string())], [time.name, "reason"])


def _has_more_records(text: Column) -> Column:
    """Whether a line ends in a CSV record, outside of quotes, and more follows: Spark's parser would drop that."""
    several = F.contains(text, F.lit("\n")) | F.contains(text, F.lit("\r"))
    return several & F.rlike(F.regexp_replace(text, '"[^"]*"', ""), F.lit(r"[\r\n][^\r\n]"))


def _make_text_splitter(
    key: Callable[[Column], Column], missing: str, more: Callable[[Column], Column] = lambda _: F.lit(False)
) -> Splitter:
    """Messages without a parser: their key is a function of their text. Those that have ``more`` are rejected."""

    def keys(value: Column) -> Column:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text) & ~more(text), key(text))

    def reason(value: Column) -> Column:
        several = F.coalesce(more(value.cast("string")), F.lit(False))
        follows = explain_unreadable(value).when(several, F.lit("not one CSV record: more follows it"))
        return follows.when(keys(value).isNull(), F.lit(missing))

    return Splitter(keys, reason)


def get_splitter(
    source_type: str,
    key_field: str | None = None,
    form: str | None = None,
    samples: Sequence[bytes] = (),
    schemas: SchemaSource = NO_SCHEMAS,
    columns: tuple[FieldColumn, ...] = (),
) -> Splitter:
    """The splitter of a source type: a dataset, or COLUMN, for which alone ``key_field`` and ``form`` are given.

    The other arguments are as for ``make_column_splitter``, whose errors it raises; so it does if there is no such
    source type.
    """
    name = source_type.upper()
    if name not in DATASETS and name != ColumnDataset.name:
        valid = [*DATASETS, ColumnDataset.name]
        raise UsageError(f"unknown sourceType {source_type!r}{suggest_names(source_type, valid)}")
    if key_field is None and form is None and schemas == NO_SCHEMAS:
        key = create_dataset(name).key if name in DATASETS else ColumnDataset.key
        return _add_columns(make_dataset_splitter(key), source_type, columns)
    if name != ColumnDataset.name:
        name = "key_field" if key_field is not None else "schema" if form is None else "format"
        raise UsageError(f"{name} is for sourceType COLUMN, not {source_type}, which has its own")
    return make_column_splitter(form or "json", key_field, samples, schemas, columns)


def _add_columns(splitter: Splitter, source_type: str, columns: tuple[FieldColumn, ...]) -> Splitter:
    """A dataset's splitter that reads further columns."""
    if splitter.fields is None:
        _require_no_columns(f"sourceType {source_type}", columns)
    _require_paths(columns)
    return make_field_splitter(replace(splitter.fields, columns=columns)) if splitter.fields and columns else splitter
