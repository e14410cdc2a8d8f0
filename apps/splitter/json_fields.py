"""Fields of JSON messages, read in the router's task: Arrow arrays of messages go in, keys and counts come out.

A decoder that makes nothing of the other fields (``json_structs``) settles most messages that have a key, and
``orjson`` most that are left. Python's ``json`` reads the rest again. This last reading decides, and gives the reason
if the message is rejected.

A message must be one object according to RFC 8259, and no escape may be half of a surrogate pair. No name of a field
that is read may stand twice in its object. Other names may.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from unskew.apps.splitter.field_columns import NOW, FieldColumn, explain_row, make_arrays
from unskew.apps.splitter.json_structs import NOTHING, StructDecoder, get_decoder

#: The column of the messages that are to be read.
MESSAGE = "__message"
#: Bytes before a message's body in Confluent's framing: a zero, and the schema's number.
FRAME = 5
#: The largest count of a message. A window's sum overflows int64 only after 9 million messages with this count.
MOST = 10**12

#: The most bytes of a key (UTF-8). A result's record names its key three times, in JSON with up to six bytes for one,
#: and must not be larger than brokers take.
LONGEST_KEY = 64 << 10

#: Why a message is rejected that has more than an object, such as another one.
MORE = "not one JSON object: more follows it"

#: What is read of a message: its key, its count (-1: none), where it has no key the reason, and where it has one the
#: values of further columns.
Reading: TypeAlias = tuple[str | None, int, str | None, tuple[Any, ...]]
#: The reading of a valid message that has no key, so that it gives no tuple.
NO_TUPLE: Reading = (None, -1, None, ())

_BLANK = " \t\r\n"
_PRECISION = 38  # digits of a decimal
_DEEPEST = 1000  # levels of objects and lists, as Spark's parser
_SHALLOW = 2 * _DEEPEST  # bytes of a message that can't have more levels
_FIRST = 512  # messages by which we judge whether the others repeat each other
_TOGETHER = 256  # messages that are decoded at a time; one that isn't settled costs the others of these time
_INT_DIGITS = 20  # characters of an integer of 64 bits
_ABSENT = object()  # in place of a field's value: there is no such field


@dataclass(frozen=True)
class JsonFields:
    """The places of the key and the count in JSON messages. Spark sends it to the tasks.

    Parameters
    ----------
    path : tuple of str
        The names of the fields from the outermost object down to the key, which is a text.
    number : str, optional
        The field of the outermost object that has the message's count, a whole number from 0 to ``MOST``.
    scalars : bool
        Whether numbers and truth values are keys, too.
    framed : bool
        Whether messages may have Confluent's framing.
    optional : bool
        Whether the outermost field of the path may be null. Such a message is valid, and gives no tuple.
    rule : Array → Array, optional
        Makes keys from the field's values (strings).
    columns : tuple of FieldColumn
        Further columns of the tuples. A message is rejected if it lacks one of them.

    """

    path: tuple[str, ...]
    number: str | None = None
    scalars: bool = False
    framed: bool = False
    optional: bool = False
    rule: Callable[[pa.Array], pa.Array] | None = None
    columns: tuple[FieldColumn, ...] = ()

    @classmethod
    def column(cls, field: str) -> "JsonFields":
        """Those of the source type COLUMN: the key is a field, whose dots lead to nested objects (``user.id``)."""
        return cls(tuple(field.split(".")), scalars=True, framed=True)

    @property
    def gives(self) -> tuple[str, ...]:
        """The columns that are read from the messages."""
        return ("key", *(["count"] if self.number else []), *(column.name for column in self.columns))

    def unread(self, columns: list[str]) -> list[str]:
        """The columns that are needed to get these columns: those of the message, and those not read from it."""
        return [*self.needed, *(name for name in columns if name not in self.gives)]

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns from which the others are read: the message, and where it matters, its batch's time."""
        return (MESSAGE, NOW) if self.columns else (MESSAGE,)

    def read(self, messages: pa.Array, now_ms: int = 0) -> tuple[pa.Array, ...]:
        """Read n messages (binary) of a batch of this time.

        Returns their keys (string; null: rejected), their counts (int64) if any, and the further columns. If the path's
        outermost field is ``optional``, the last column says whether a message gives a tuple (bool).

        Messages that are equal to the byte are read once. A skewed stream without times or ids has many of them.
        """
        if not _is_repetitive(messages):
            return self._each(messages, now_ms)
        encoded = messages.dictionary_encode(null_encoding="encode")
        return tuple(column.take(encoded.indices) for column in self._each(encoded.dictionary, now_ms))

    def _each(self, messages: pa.Array, now_ms: int) -> tuple[pa.Array, ...]:
        readings = self._read_bodies(self._bodies(messages))
        keys = pa.array([reading[0] for reading in readings], pa.string())
        columns = [self.rule(keys) if self.rule else keys]
        if self.number:
            columns.append(pa.array([reading[1] for reading in readings], pa.int64()))
        if self.columns:
            lacking = (None,) * len(self.columns)
            further, fit = make_arrays(self.columns, [reading[3] or lacking for reading in readings], now_ms)
            columns[0] = pc.call_function("if_else", [pa.array(fit), columns[0], pa.scalar(None, pa.string())])
            columns += further
        if self.optional:
            columns.append(pa.array([reading is not NO_TUPLE for reading in readings], pa.bool_()))
        return tuple(columns)

    def reasons(self, messages: pa.Array, now_ms: int = 0) -> pa.Array:
        """Why each of n messages (binary) of a batch of this time is rejected (string). Null if it is valid."""
        readings = self._read_bodies(self._bodies(messages))
        reasons = [reason for _, _, reason, _ in readings]
        rows = [(n, values) for n, (_, _, _, values) in enumerate(readings) if values]
        if rows:
            _, fit = make_arrays(self.columns, (values for _, values in rows), now_ms)
            for (n, values), each in zip(rows, fit, strict=True):
                reasons[n] = None if each else explain_row(self.columns, values, now_ms)
        return pa.array(reasons, pa.string())

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the keys and counts instead of the messages, without the messages that give no tuple."""
        now = batch.column(NOW)[0].as_py() if self.columns and batch.num_rows else 0
        found = self.read(batch.column(MESSAGE), now)
        others = [name for name in batch.schema.names if name not in self.needed]
        columns = [*map(batch.column, others), *found[: len(self.gives)]]
        tuples = pa.record_batch(columns, [*others, *self.gives])
        return tuples.filter(found[-1]) if self.optional else tuples

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All batches, with keys and counts instead of the messages, for ``DataFrame.mapInArrow``."""
        yield from map(self, batches)

    def _bodies(self, messages: pa.Array) -> list[bytes | None]:
        """The messages without their framing."""
        found = messages.to_pylist()
        return [body[FRAME:] if body and body[0] == 0 else body for body in found] if self.framed else found

    @property
    def _paths(self) -> tuple[tuple[str, ...], ...]:
        """Where the key is, the count if there is one, and the further columns."""
        further = [tuple(column.path.split(".")) for column in self.columns]
        return (self.path, *([(self.number,)] if self.number else []), *further)

    def _read_bodies(self, bodies: Sequence[Any]) -> list[Reading]:
        """Read messages: most of them many at a time."""
        decoder = get_decoder(self._paths, nullable=self.optional)
        load, readings = self._make_loader(), list[Reading]()
        alone = not (self.number or self.columns or self.optional)
        for first in range(0, len(bodies), _TOGETHER):
            some = bodies[first : first + _TOGETHER]
            values = decoder.decode_all(some)
            if values is None or max(map(len, some)) >= _SHALLOW:
                readings += [self._read_body(body, decoder, load) for body in some]
            elif alone and {*map(type, values[0])} == {str}:
                readings += [(key, -1, None, ()) for key in values[0]]
            else:
                given = zip(some, zip(*values, strict=True), strict=True)
                readings += [self._settle(body, each) or self._read_slowly(body) for body, each in given]
        return readings

    def _read_body(self, body: Any, decoder: StructDecoder, load: Callable[[Any], tuple[Any, ...] | None]) -> Reading:
        """Read a message by what is likely to settle it, and else slowly."""
        given = decoder.decode(body) or load(body)
        return (given and _is_shallow(body) and self._settle(body, given)) or self._read_slowly(body)

    def _settle(self, body: Any, given: tuple[Any, ...]) -> Reading | None:
        """The reading of a message that has these values at the paths. None: it has to be read slowly."""
        key, number = given[0], self.number
        if type(key) is not str:
            if key is NOTHING:
                return NO_TUPLE
            if not self.scalars or not (type(key) is bool or _is_integer(key)):
                return None
            key = str(key).lower()
        count = given[1] if number else -1
        if number and not (type(count) is int and 0 <= count <= MOST):
            return None
        values: tuple[Any, ...] = ()
        if self.columns:
            further = given[2 if number else 1 :]
            if any(type(value) is int and not _is_integer(value) for value in further):
                return None
            values = tuple([column.convert(value) for column, value in zip(self.columns, further, strict=True)])
        if None in values or (len(body) > LONGEST_KEY and check_key_length(key)):
            return None
        return key, count, None, values

    def _make_loader(self) -> Callable[[Any], tuple[Any, ...] | None]:
        """A function that reads the values by ``orjson``; None: the message has to be read again."""
        loads, paths, first, optional = orjson.loads, self._paths, self.path[0], self.optional

        def load(body: Any) -> tuple[Any, ...] | None:
            try:
                document = loads(body)  # which refuses None, too
                absent = optional and document[first] is None
                given = (NOTHING,) * len(paths) if absent else tuple([_follow(document, path) for path in paths])
            except (TypeError, ValueError, LookupError):
                return None
            return given if _is_lossless(body, document) else None

        return load

    def _read_slowly(self, body: bytes | None) -> Reading:
        """Read a message by Python's ``json``, whatever the message is."""
        if body is None:
            return None, -1, "no value", ()
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return None, -1, "not UTF-8", ()
        with _allow_recursion():
            try:
                document = _parse_document(text)
            except (ValueError, RecursionError) as error:
                return None, -1, MORE if isinstance(error, _MoreError) else "not JSON", ()
            if self.optional and _get_field(document, self.path[0]) is None:
                return NO_TUPLE
            key = _get_field(document, *self.path)
            count = _get_field(document, self.number) if self.number else -1
            reason = self._against_key(key) or (self._against_count(count) if self.number else None)
            values, lacking = self._read_columns(document)
        if reason:
            return None, -1, reason, ()
        if isinstance(key, bool):
            key = str(key).lower()
        elif isinstance(key, _Number):
            key = format_number(key)
        reason = check_key_length(key) or lacking
        return (None, -1, reason, ()) if reason else (key, int(count), None, values)

    def _read_columns(self, document: Any) -> tuple[tuple[Any, ...], str | None]:
        """The converted values of the further columns, and the reason if one isn't there."""
        values: list[Any] = []
        for column in self.columns:
            value = _get_field(document, *column.path.split("."))
            if value is _ABSENT:
                return (), f"no field {column.path!r}"
            if isinstance(value, _Twice):
                return (), _explain_twice(column.path)
            number = _parse_number(value) if isinstance(value, _Number) else value
            values.append(column.convert(number))
            if values[-1] is None:
                return (), column.refuse(number, describe_type(value))
        return tuple(values), None

    def _against_key(self, key: Any) -> str | None:
        """Why a value is no key; None: it is one."""
        name = ".".join(self.path)
        if key is _ABSENT:
            return f"no field {name!r}"
        if isinstance(key, _Twice):
            return _explain_twice(name)
        if self.scalars:
            return (
                f"field {name!r} is {describe_type(key)}, which is no key" if key is None or _is_nested(key) else None
            )
        return None if describe_type(key) == "STRING" else f"field {name!r} is {describe_type(key)}, not STRING"

    def _against_count(self, count: Any) -> str | None:
        """Why a value is no count; None: it is one."""
        if count is _ABSENT:
            return f"no field {self.number!r}"
        if isinstance(count, _Twice):
            return _explain_twice(self.number)
        if describe_type(count) != "BIGINT":
            return f"field {self.number!r} is {describe_type(count)}, not BIGINT"
        return None if 0 <= int(count) <= MOST else f"the count is {int(count)}, not 0 to {MOST}"


def _explain_twice(name: str | None) -> str:
    return f"field {name!r} is there twice"


def check_key_length(key: str) -> str | None:
    """Why a key is too long. None: it isn't."""
    size = len(key.encode())
    return f"the key has {size} bytes, not {LONGEST_KEY} at most" if size > LONGEST_KEY else None


def _is_repetitive(messages: pa.Array) -> bool:
    """Whether messages occur more than twice on average, judged by the first ones. To encode all costs more."""
    first = messages.slice(0, _FIRST)
    return len(messages) > _FIRST and 2 * len(first.unique()) < len(first)


def _is_lossless(body: bytes, document: dict[str, Any]) -> bool:
    """Whether ``orjson`` has surely kept every name.

    Each name has a colon behind it; all other colons are in texts. A message with as many colons as the outermost
    object has names has no others. Else the document is written again: if no colon is escaped, the message has more
    colons than that exactly where a name was dropped.
    """
    colons = body.count(b":")
    if len(document) != colons:
        try:
            if b"\\u003" in body or orjson.dumps(document).count(b":") != colons:
                return False
        except TypeError:  # more levels than orjson writes
            return False
    return True


def _is_shallow(body: bytes) -> bool:
    """Whether a message surely has no more levels than there may be."""
    return len(body) < _SHALLOW or body.count(b"[") + body.count(b"{") <= _DEEPEST


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer of up to 64 bits. As keys, larger numbers are those of ``format_number``."""
    return type(value) is int and -(2**63) <= value < 2**64


def format_number(number: str) -> str:
    """A number as a key, as Spark writes it: a decimal if it has no exponent and few digits, else Java's double.

    >>> [format_number(number) for number in ("-0", "12.50", "1e3", "1E-7", "1e400")]
    ['0', '12.5', '1000.0', '1.0E-7', 'Infinity']
    """
    if _parse_decimal(number) is not None:
        plain = number.rstrip("0").rstrip(".") if "." in number else number
        return "0" if plain == "-0" else plain
    value = float(number)
    if not np.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, trim="0")
    mantissa, exponent = np.format_float_scientific(value, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"


def describe_type(value: Any) -> str:
    """The type of a JSON value, in Spark's words, for reasons. A list of different elements is ``ARRAY<VARIANT>``.

    >>> [describe_type(_DECODER.decode(text)) for text in ("7", "1.50", "1e3", '["a", null]', '{"b": [], "a": true}')]
    ['BIGINT', 'DECIMAL(2,1)', 'DOUBLE', 'ARRAY<STRING>', 'OBJECT<a: BOOLEAN, b: ARRAY<VOID>>']
    """
    if isinstance(value, dict):
        return f"OBJECT<{', '.join(f'{name}: {describe_type(value[name])}' for name in sorted(value))}>"
    if isinstance(value, list):
        kinds = {describe_type(element) for element in value if element is not None} or {"VOID"}
        return f"ARRAY<{kinds.pop() if len(kinds) == 1 else 'VARIANT'}>"
    if isinstance(value, _Number):
        digits = _parse_decimal(value)
        if digits is None:
            return "DOUBLE"
        whole = "." not in value and -(2**63) <= int(value) < 2**63
        return "BIGINT" if whole else f"DECIMAL({digits[0]},{digits[1]})"
    return "VOID" if value is None else "BOOLEAN" if isinstance(value, bool) else "STRING"


def _parse_decimal(number: str) -> tuple[int, int] | None:
    """Precision and scale of a number that Spark takes for a decimal; None: it is a double."""
    whole, _, fraction = number.lstrip("-").partition(".")
    if "e" in number.lower() or max(len((whole + fraction).lstrip("0")), len(fraction)) > _PRECISION:
        return None
    fraction = fraction.rstrip("0")
    return max(1, len(fraction), len((whole + fraction).lstrip("0"))), len(fraction)


class _MoreError(ValueError):
    """More than blanks follows an object."""


class _Twice(list[Any]):
    """The values of a name that stands twice in its object."""


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def _parse_document(text: str) -> Any:
    """The value that a text is; raises ValueError or RecursionError if it is no JSON."""
    text = text.strip(_BLANK)
    document, end = _DECODER.raw_decode(text)
    if "\\u" in text:
        json.dumps(document, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    if _count_levels(document) > _DEEPEST:
        raise ValueError
    if end < len(text):
        raise _MoreError if isinstance(document, dict) else ValueError
    return document


def _count_levels(document: Any) -> int:
    """How deep objects and lists are in each other."""
    levels, level = 0, [document]
    while level := [value for value in level if _is_nested(value)]:
        levels += 1
        below = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
        level = [one for inner in below for one in (inner if isinstance(inner, _Twice) else [inner])]
    return levels


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _get_field(value: Any, *path: str) -> Any:
    for name in path:
        if isinstance(value, _Twice):
            break
        value = value.get(name, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value


def _follow(document: Any, path: Sequence[str]) -> Any:
    """The value at a path. Raises LookupError or TypeError if there is none."""
    for name in path:
        document = document[name]
    return document


def _parse_number(number: str) -> float:
    """A number as ``orjson`` reads it: an int of up to 64 bits, or else a double."""
    whole = int(number) if len(number) <= _INT_DIGITS and not set(number) & set(".eE") else None
    return whole if whole is not None and -(2**63) <= whole < 2**64 else float(number)


@contextmanager
def _allow_recursion() -> Iterator[None]:
    """Let functions call themselves for each of the levels that a message may have."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 5 * _DEEPEST)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its members. A name that stands twice has all its values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        found |= {name: _Twice(value for other, value in pairs if other == name) for name in twice}
    return found


def _refuse_constant(_: str) -> Any:
    raise ValueError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_make_object, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant
)
