"""Avro's logical types, of which only the key's value is decoded.

fastavro decodes all of them. So a date that Python can't hold would reject a message whose key is fine, and a decimal
of a million bytes takes minutes.
"""

import math
from functools import cache
from typing import Any, NamedTuple

from unskew.apps.splitter.json_fields import LONGEST_KEY

_POSTPONED = "unskew-"
_BASES = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string",),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
}


class UndecodedValue(NamedTuple):
    """A value as it is below its logical type."""

    value: Any  #: The value.
    schema: dict[str, Any]  #: Its type.

    @property
    def kind(self) -> str:
        """The name of the logical type."""
        return self.schema["logicalType"].removeprefix(_POSTPONED)

    def decode(self) -> Any:
        """The value of a decimal or UUID. Other values stay as they are.

        Raises ``ValueError`` if the bytes, or the text, are no value of the type.
        """
        from fastavro.read import LOGICAL_READERS

        if self.kind == "decimal":
            digits = min(self.schema["precision"], LONGEST_KEY)
            # To make digits of n bytes takes O(n²), so they are compared before.
            if abs(int.from_bytes(self.value, "big", signed=True)) >= _get_decimal_bound(digits):
                raise ValueError(f"has more than {digits:,} digits")
        elif self.kind != "uuid":
            return self
        try:
            return LOGICAL_READERS[f"{self.schema['type']}-{self.kind}"](self.value, self.schema, None)
        except (ArithmeticError, ValueError):
            raise ValueError(f"is no {self.kind}") from None


def postpone_logical_types(schema: Any) -> Any:
    """The same Avro schema, but the values of its logical types are read as ``UndecodedValue``.

    A logical type that isn't valid is left out, as Avro's specification says. So are all defaults, because
    a message has all fields of the schema that it was written by.
    """
    if isinstance(schema, list):
        return [postpone_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name not in ("default", "logicalType")}
    kept |= {name: postpone_logical_types(kept[name]) for name in ("type", "items", "values", "fields") if name in kept}
    if _is_valid(schema):
        kept["logicalType"] = _POSTPONED + schema["logicalType"]
    return kept


@cache
def load_reader() -> Any:
    """Let fastavro know the postponed types. Returns its ``schemaless_reader``."""
    from fastavro import schemaless_reader
    from fastavro.read import LOGICAL_READERS

    for kind, bases in _BASES.items():
        LOGICAL_READERS.update(dict.fromkeys((f"{base}-{_POSTPONED}{kind}" for base in bases), _postpone_value))
    return schemaless_reader


def _postpone_value(value: Any, schema: Any = None, _: Any = None) -> UndecodedValue:
    return UndecodedValue(value, schema)


def _is_valid(schema: dict[str, Any]) -> bool:
    kind, base = schema.get("logicalType"), schema.get("type")
    if not isinstance(kind, str) or base not in _BASES.get(kind, ()):
        return False
    if kind != "decimal":
        return True
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision == 0:
        return False
    size = schema.get("size")
    return base == "bytes" or (type(size) is int and precision <= math.log10(2) * (8 * size - 1))


@cache
def _get_decimal_bound(digits: int) -> int:
    return 10**digits
