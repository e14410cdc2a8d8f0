"""Avro: messages are decoded in Python, as a whole, and their key is a field at any depth.

Their schema is that of a file, or each message names its own, by number. A schema is fetched from the registry once.
The driver fetches the schemas that samples of the topic name. A task that meets another schema fetches it. If the
registry doesn't have a schema, it is asked again in the next batch. Within a batch the first answer holds
(``SchemaRefusals``).
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.splitter.avro_limits import AvroSchema, MessageTooDeep
from unskew.apps.splitter.avro_logical_types import UndecodedValue, load_reader
from unskew.apps.splitter.avro_refusals import BatchRefusals, SchemaRefusals
from unskew.apps.splitter.field_columns import NOW, EventTime, FieldColumn, explain_row, make_arrays
from unskew.apps.splitter.json_fields import FRAME
from unskew.apps.splitter.schema_registry import SchemaMissing, SchemaRegistry
from unskew.apps.splitter.splitter import Splitter, apply_to_column
from unskew.errors import EnvironmentFault, UsageError
from unskew.spark.compat import convert_schema_to_spark

_KEYS = (str, int, float, Decimal, UUID)  # bool is an int
_TIMES = {"timestamp-millis": "ms", "timestamp-micros": "us"}

#: A message's key and the reason why it has none, one of which is None, and the converted values of further columns.
AvroReading: TypeAlias = tuple[Any, ...]

#: (the registry's address, a schema's number) → the schema: for the life of a process, as a schema never changes.
_fetched: dict[tuple[str, int], AvroSchema] = {}


def read_schema_file(path: str) -> AvroSchema:
    """The schema of an ``.avsc`` file. Raises ``UsageError`` if the file isn't a schema."""
    try:
        return AvroSchema.of(Path(path).read_text())
    except Exception as error:  # noqa: BLE001  fastavro raises many kinds
        raise UsageError(f"schema is {path}, which is no Avro schema: {error or type(error).__name__}") from None


class MessageRejected(Exception):
    """Why a message has no key."""


@dataclass(frozen=True)
class AvroDecoder:
    """Reads the key of a message, a field. Dots in its path lead to nested records. Spark sends it to the tasks.

    All messages have one schema, or without it, each names its own in the registry. A message that lacks one of the
    further columns is rejected.
    """

    path: str
    schema: AvroSchema | None = field(default=None, repr=False)
    registry: SchemaRegistry | None = None
    columns: tuple[FieldColumn, ...] = ()

    def key(self, message: bytes | None, schema_of: Callable[[int], AvroSchema] | None = None) -> str:
        """The key of a message. ``schema_of`` returns the schema that it names. Default: the registry's.

        Raises ``MessageRejected`` if the message has no key; ``EnvironmentFault`` if the registry doesn't answer.
        """
        return self._find_key(self._decode(message, schema_of))

    def _decode(self, message: bytes | None, schema_of: Callable[[int], AvroSchema] | None) -> Any:
        """The whole message."""
        if message is None:
            raise MessageRejected("no value")
        schema, begin, name = self._written_by(message, schema_of)
        body = io.BytesIO(message)
        body.seek(begin)
        try:
            schema.check(message, begin)
            read = load_reader()(body, schema.parsed, None)
        except MessageTooDeep as error:
            raise MessageRejected(f"not to be decoded by {name}: {error}") from None
        except Exception as error:
            raise MessageRejected(f"not Avro by {name}") from error
        if body.tell() != len(message):
            raise MessageRejected(f"not Avro by {name}: it is longer")
        return read

    def _written_by(self, message: bytes, schema_of: Callable[[int], AvroSchema] | None) -> tuple[AvroSchema, int, str]:
        """The schema of a message, where its body begins, and the schema's name."""
        if self.registry is None:
            if self.schema is None:
                raise UsageError("a decoder needs a schema or a registry")
            return self.schema, 0, "the schema"
        if len(message) < FRAME or message[0]:
            raise MessageRejected("no schema's number before it")
        number = int.from_bytes(message[1:FRAME], "big")
        schema = self.registry.schemas.get(number)
        if schema is None:
            schema = (schema_of or partial(SchemaRequests(self.registry).schema, 0))(number)
        return schema, FRAME, f"schema {number}"

    def _find_key(self, document: Any) -> str:
        read = _find_value(document, self.path)
        if isinstance(read, bool):
            return str(read).lower()
        if not isinstance(read, _KEYS):
            raise MessageRejected(f"field {self.path!r} is {_name_type(read)}, which is no key")
        return str(read)

    def read(self, message: bytes | None, schema_of: Callable[[int], AvroSchema] | None = None) -> AvroReading:
        """(a message's key, None, values of columns …), or (None, the reason why it is rejected, None …)."""
        try:
            document = self._decode(message, schema_of)
            return self._find_key(document), None, *(_convert_field(document, column) for column in self.columns)
        except MessageRejected as error:
            return None, str(error), *(None for _ in self.columns)


def _find_value(document: Any, path: str) -> Any:
    """The value at a path of a message, decoded by its logical type where that is a decimal or a UUID."""
    value = document
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            raise MessageRejected(f"no field {path!r}")
        value = value[name]
    if not isinstance(value, UndecodedValue):
        return value
    try:
        return value.decode()
    except ValueError as error:
        raise MessageRejected(f"field {path!r} {error}") from None


def _name_type(value: Any) -> str:
    return "null" if value is None else value.kind if isinstance(value, UndecodedValue) else type(value).__name__


def _convert_field(document: Any, column: FieldColumn) -> Any:
    """A column's value in a message."""
    value = _find_value(document, column.path)
    if isinstance(column, EventTime) and isinstance(value, UndecodedValue) and value.kind in _TIMES:
        column, value = replace(column, unit=_TIMES[value.kind]), value.value
    converted = column.convert(value)
    if converted is None:
        raise MessageRejected(column.refuse(value, _name_type(value)))
    return converted


class SchemaRequests:
    """A task's requests to the registry, for schemas that the driver hasn't fetched.

    ``refusals`` are the stream's. Without them, or outside of a stream, each answer stands alone. ``decides`` says that
    the task is a router's, which refuses what the registry doesn't have. Another task follows the router's task.
    """

    def __init__(
        self, registry: SchemaRegistry, refusals: SchemaRefusals | None = None, *, decides: bool = True
    ) -> None:
        self._registry = registry
        self._refusals = refusals if refusals is not None and refusals.batch() is not None else None
        self._decides = decides or self._refusals is None
        self._refused: dict[int, BatchRefusals] = {}
        self._unwritten: set[int] = set()

    def read(self, decoder: "AvroDecoder", messages: Iterable[tuple[int, bytes | None]]) -> list[AvroReading]:
        """What ``AvroDecoder.read`` says of each message of a Kafka partition.

        The schemas that these messages have to do without are written down once, before this returns.
        """
        found = [decoder.read(message, partial(self.schema, partition)) for partition, message in messages]
        for partition in self._unwritten:
            if self._refusals:
                self._refusals.write(partition, self._refused[partition])
        self._unwritten.clear()
        return found

    def schema(self, partition: int, number: int) -> AvroSchema:
        """The schema that a message of a Kafka partition names.

        Raises ``MessageRejected`` if the batch has to do without it; ``EnvironmentFault`` if the registry doesn't
        answer, or no longer has a schema by which messages were routed.
        """
        if partition not in self._refused:
            self._refused[partition] = self._refusals.read(partition) if self._refusals else BatchRefusals()
        refused = self._refused[partition]
        address = self._registry.url
        if refused.why(number) is None and (address, number) not in _fetched:
            try:
                _fetched[address, number] = self._registry.fetch(number, self._list_known())
            except SchemaMissing as error:
                if not self._decides:
                    raise EnvironmentFault(f"{address} had a schema by which messages are routed: {error}") from None
                refused.add(number, str(error), self._list_known)
                self._unwritten.add(partition)
        if why := refused.why(number):
            raise MessageRejected(why)
        return _fetched[address, number]

    def _list_known(self) -> set[int]:
        return {*self._registry.schemas, *(number for address, number in _fetched if address == self._registry.url)}


def make_avro_splitter(decoder: AvroDecoder, refusals: SchemaRefusals | None = None) -> Splitter:
    """The splitter of messages in Avro. They must have a column ``partition`` beside them."""
    further = decoder.columns
    schema = pa.schema([("key", pa.string()), ("reason", pa.string()), *((each.name, each.type) for each in further)])
    beside = ["partition", *([NOW] if further else [])]

    def reading(batches: Iterator[pa.Array], *, decides: bool) -> Iterator[pa.Array]:
        asking = SchemaRequests(decoder.registry, refusals, decides=decides) if decoder.registry else None
        for rows in batches:
            partitions, *batch_time, values = map(pa.Array.to_pylist, rows.flatten())
            read = (
                asking.read(decoder, zip(partitions, values, strict=True)) if asking else [*map(decoder.read, values)]
            )
            now_ms = batch_time[0][0] if batch_time and len(rows) else 0
            yield pa.StructArray.from_arrays(make_columns(further, read, now_ms), fields=[*schema])

    # A function for each: the router's tasks call the one, those that read rejected messages again the other.
    def keys(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from reading(batches, decides=True)

    def reasons(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from reading(batches, decides=False)

    def column(function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], value: Column) -> Column:
        return apply_to_column(
            function, convert_schema_to_spark(schema), F.struct(*map(F.col, beside), value.alias("value"))
        )

    def tuples(value: Column) -> Column:
        read = column(keys, value)
        return read if further else read["key"]

    return Splitter(tuples, lambda value: column(reasons, value)["reason"], columns=further)


def make_columns(further: Sequence[FieldColumn], read: Sequence[AvroReading], now_ms: int) -> list[pa.Array]:
    """The columns of n readings: keys, reasons, and the further columns of a batch of this time."""
    keys, reasons = ([row[n] for row in read] for n in range(2))
    arrays: list[pa.Array] = []
    if further:
        arrays, fit = make_arrays(further, (row[2:] for row in read), now_ms)
        for n in np.flatnonzero(~fit).tolist():
            if reasons[n] is None:
                keys[n], reasons[n] = None, explain_row(further, read[n][2:], now_ms)
    return [pa.array(keys, pa.string()), pa.array(reasons, pa.string()), *arrays]
