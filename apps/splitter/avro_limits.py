"""Avro schemas, and the messages that would stop a process which decodes them.

fastavro decodes in C. It calls itself for each level of a value, and Python's limit of recursion doesn't hold there: a
message of 40 KB that is a list of 20,000 linked records overflows the stack and kills the process. A few bytes can
also stand for 2^60 values that take no bytes. If a schema bounds its messages,
they need no look. With another schema, a message is walked through before it is decoded. The walk doesn't call itself.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from unskew.apps.splitter.avro_logical_types import postpone_logical_types

# A level takes 1 KiB of the stack, which has 8 MiB.
_DEEPEST = 1000
# fastavro, which reads schemas, and pickle, which brings them to the tasks, call themselves for each level of the JSON.
_DEEPEST_JSON = 200
# The most values of a message: a fixed number, and some more for each byte.
_EMPTY, _EMPTY_PER_BYTE = 10_000, 10

_NUMBERS = ("int", "long", "enum")
_SIZED = ("bytes", "string")
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_PRIMITIVES = {"int", "long", *_SIZED, *_BYTES}
_RECORDS = ("record", "error")


class MessageTooDeep(Exception):
    """A message has more levels, or more values, than may be decoded."""


@dataclass(frozen=True)
class AvroSchema:
    """A schema that fastavro has read."""

    parsed: Any  #: What fastavro decodes by.
    #: Name → type, if messages of any depth are possible, or messages of far more values than bytes. None: they aren't,
    #: and messages needn't be walked through.
    named: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, text: str, named: dict[str, Any] | None = None) -> Self:
        """The schema of a JSON text. ``named`` has the types of other schemas by name, and gets those of this one.

        Raises
        ------
        Exception
            The text isn't a schema. fastavro raises many kinds.

        """
        from fastavro import parse_schema

        document = json.loads(text)
        _require_depth(document)
        document = postpone_logical_types(document)
        types: dict[str, Any] = {}
        parsed = parse_schema(document, named_schemas={} if named is None else named)
        parsed = parse_schema(parsed, named_schemas=types)  # as fastavro reads it again for each message
        return cls(parsed, None if _is_bounded(parsed, types) else types)

    def check(self, message: bytes, begin: int) -> None:
        """Refuse a message, whose body begins at ``begin``, that isn't to be decoded. Time and memory are O(its
        length).

        Raises ``MessageTooDeep`` if it has too many levels or values, and others if it isn't of this schema.
        """
        if self.named is None:
            return
        body = io.BytesIO(message)
        body.seek(begin)
        left = most = _EMPTY + _EMPTY_PER_BYTE * len(message)
        levels: list[Iterator[Any]] = [iter([self.parsed])]  # each has the types of the values that are still to come
        while levels:
            given = next(levels[-1], None)
            if given is None:
                levels.pop()
                continue
            left -= 1
            if left < 0:
                raise MessageTooDeep(f"it has more than {most:,} values in {len(message):,} bytes")
            each, kind = _resolve_type(given, self.named)
            if kind in _NUMBERS:
                _read_number(body)
            elif kind in _SIZED:
                _skip_bytes(body, _read_number(body))
            elif kind in _BYTES:
                _skip_bytes(body, _BYTES[kind])
            elif kind == "fixed":
                _skip_bytes(body, each["size"])
            else:
                if len(levels) > _DEEPEST:
                    raise MessageTooDeep(f"it is nested more than {_DEEPEST:,} levels deep")
                levels.append(_iterate_value_types(body, each, kind))


def _require_depth(document: Any) -> None:
    level = [document]
    for _ in range(_DEEPEST_JSON + 1):  # the innermost has no elements
        level = [inner for each in level if isinstance(each, dict | list) for inner in _list_elements(each)]
        if not level:
            return
    raise ValueError(f"its JSON is nested more than {_DEEPEST_JSON} levels deep")


def _list_elements(each: dict[str, Any] | list[Any]) -> list[Any]:
    return [*each.values()] if isinstance(each, dict) else each


def _is_bounded(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether every message of a schema has few levels, and not many more values than bytes.

    That is so if the schema is small when each name is replaced by its type, and no array has values without bytes.
    """
    level, types = [schema], 0
    for _ in range(_DEEPEST):
        resolved = [_resolve_type(each, named) for each in level]
        if any(kind == "array" and _takes_no_bytes(each["items"], named) for each, kind in resolved):
            return False
        level = list(islice((inner for each, kind in resolved for inner in _list_inner_types(each, kind)), _EMPTY + 1))
        types += len(level)
        if not level or types > _EMPTY:
            break
    return not level


def _takes_no_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether values of a type take no bytes."""
    rest, seen = [schema], set()
    while rest:
        each, kind = _resolve_type(rest.pop(), named)
        if kind in _RECORDS:
            rest += _list_inner_types(each, kind) if each["name"] not in seen else []
            seen.add(each["name"])
        elif kind != "null" and not (kind == "fixed" and each["size"] == 0):
            return False
    return True


def _resolve_type(schema: Any, named: Mapping[str, Any]) -> tuple[Any, str]:
    """A type, and its kind. A name stands for the type that it names."""
    if isinstance(schema, list):
        return schema, "union"
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return schema, schema
        schema = named[schema]
    return schema, schema["type"]


def _list_inner_types(schema: Any, kind: str) -> list[Any]:
    """The types of the values that are directly in a value of a type."""
    if kind == "union":
        return schema
    if kind in _RECORDS:
        return [field["type"] for field in schema["fields"]]
    return [schema["items"]] if kind == "array" else [schema["values"]] if kind == "map" else []


def _iterate_value_types(body: io.BytesIO, schema: Any, kind: str) -> Iterator[Any]:
    """The types of the values that are directly in the value at this place of a message."""
    inner = _list_inner_types(schema, kind)
    if kind in _RECORDS:
        yield from inner
    elif kind == "union":
        branch = _read_number(body)
        if branch < 0:
            raise ValueError
        yield inner[branch]
    else:
        entry = inner if kind == "array" else ["string", *inner]
        while count := _read_number(body):
            if count < 0:
                _read_number(body)  # the block's bytes
            for _ in range(abs(count)):
                yield from entry


def _read_number(body: io.BytesIO) -> int:
    """Read an integer: zigzag, in groups of seven bits."""
    number = 0
    for shift in range(0, 70, 7):
        byte = body.read(1)[0]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("more than 64 bits")


def _skip_bytes(body: io.BytesIO, size: int) -> None:
    if len(body.read(size)) != size:
        raise EOFError
