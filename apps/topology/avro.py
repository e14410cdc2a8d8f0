"""Messages in Avro: decoded in Python, whole, and keyed by a field of any depth.

With a schema registry each message says by which schema it is written (a zero byte, the schema's number in four); the
schemas are fetched once, on the driver where samples of the topic have them, else by the task that meets one first.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column

from unskew.apps.topology.fields import FRAME
from unskew.apps.topology.reading import Splitter, over_arrays
from unskew.apps.topology.registry import NoSchema, Registry, Schema

_KEYS = (str, int, float, Decimal, UUID)  # bool is an int

#: (the registry's address, a schema's number) → the schema, or why there is none: for the life of a process.
_met: dict[tuple[str, int], Schema | NoSchema] = {}


class Rejected(Exception):
    """Why a message has no key."""


@dataclass(frozen=True)
class Decoder:
    """From messages to their keys; travels to the tasks.

    Parameters
    ----------
    path : str
        The key's field, of nested records with dots.
    schema : Schema, optional
        By which all messages are written.
    registry : Registry, optional
        Has the schemas that messages name.

    """

    path: str
    schema: Schema = field(default=None, repr=False)
    registry: Registry | None = None

    def key(self, message: bytes | None) -> str:
        """The key of a message.

        Raises
        ------
        Rejected
            It has none.
        EnvironmentFault
            The registry doesn't answer.

        """
        from fastavro import schemaless_reader

        if message is None:
            raise Rejected("no value")
        schema, begin, said = self._written_by(message)
        body = io.BytesIO(message)
        body.seek(begin)
        try:
            read = schemaless_reader(body, schema, None)
        except Exception as error:
            raise Rejected(f"not Avro by {said}") from error
        if body.tell() != len(message):
            raise Rejected(f"not Avro by {said}: it is longer")
        return self._field(read)

    def _written_by(self, message: bytes) -> tuple[Schema, int, str]:
        """The schema of a message, where its body begins, and the schema's name."""
        if self.registry is None:
            return self.schema, 0, "the schema"
        if len(message) < FRAME or message[0]:
            raise Rejected("no schema's number before it")
        number = int.from_bytes(message[1:FRAME], "big")
        return self._schema(number), FRAME, f"schema {number}"

    def _schema(self, number: int) -> Schema:
        assert self.registry is not None
        found = self.registry.schemas.get(number)
        if found is None:
            place = self.registry.url, number
            if place not in _met:
                try:
                    _met[place] = self.registry.fetch(number)
                except NoSchema as error:
                    _met[place] = error
            found = _met[place]
        if isinstance(found, NoSchema):
            raise Rejected(str(found))
        return found

    def _field(self, read: Any) -> str:
        for name in self.path.split("."):
            if not isinstance(read, dict) or name not in read:
                raise Rejected(f"no field {self.path!r}")
            read = read[name]
        if isinstance(read, bool):
            return str(read).lower()
        if not isinstance(read, _KEYS):
            kind = "null" if read is None else type(read).__name__
            raise Rejected(f"field {self.path!r} is {kind}, which is no key")
        return str(read)

    def told(self, message: bytes | None) -> tuple[str | None, str | None]:
        """A message's key, or why it has none."""
        try:
            return self.key(message), None
        except Rejected as error:
            return None, str(error)


def avro(decoder: Decoder) -> Splitter:
    """Messages in Avro."""

    def told(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for values in batches:
            keys, reasons = zip(*map(decoder.told, values.to_pylist()), strict=True) if len(values) else ((), ())
            columns = [pa.array(keys, pa.string()), pa.array(reasons, pa.string())]
            yield pa.StructArray.from_arrays(columns, ["key", "reason"])

    def read(value: Column, what: str) -> Column:
        return over_arrays(told, "key string, reason string", value)[what]

    return Splitter(lambda value: read(value, "key"), lambda value: read(value, "reason"))


def numbers(samples: Sequence[bytes]) -> set[int]:
    """The numbers of the schemas that messages name."""
    return {int.from_bytes(m[1:FRAME], "big") for m in samples if len(m) >= FRAME and not m[0]}
