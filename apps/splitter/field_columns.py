"""Columns of tuples that are read from message fields, besides the key.

``JsonFields`` and ``AvroDecoder`` find a field's value. A ``FieldColumn`` makes an array of the values of many
messages, and says why a value isn't one. A message with such a value is rejected.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: The column of the messages that has their batch's time (ms since the epoch).
NOW = "__now"
#: The times that every part of a run can hold, Python's own among them (ms since the epoch).
FIRST, LAST = 0, 253_402_300_799_999

#: The columns of a message that are Kafka's. Other names are paths of fields.
KAFKA_COLUMNS = ("value", "topic", "partition", "offset", "timestamp", "timestampType")

#: Unit of a number → the milliseconds of one, as a fraction.
UNITS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}

_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
_LOCAL = rf"^{_DAY}[T ]{_CLOCK}:[0-5]\d(\.\d{{1,9}})?"
# RFC 3339. A leap second (:60) isn't a time of its own in Unix time.
_RFC_3339 = rf"{_LOCAL}(Z|[+-]{_CLOCK})$"
_TEXTS = (int, float, Decimal, UUID)
_SHOWN = 64  # characters of a text in a reason


@dataclass(frozen=True)
class FieldColumn(ABC):
    """A column of the tuples that is a field of the messages. Spark sends it to the tasks.

    Attributes
    ----------
    path : str
        The field. Dots lead to nested objects.
    name : str
        The column's name.
    type : DataType
        Its type.
    option : str
        What names the field in errors: a setting of the run.

    """

    path: str

    option: ClassVar[str]

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def type(self) -> pa.DataType: ...

    @abstractmethod
    def convert(self, value: Any) -> Any:
        """A field's value, as ``array`` takes it. None: it is none for this column."""

    @abstractmethod
    def refuse(self, value: Any, kind: str) -> str:
        """Why ``convert`` doesn't take a value, whose type has the name ``kind`` in the messages' format."""

    @abstractmethod
    def array(self, values: Sequence[Any], now_ms: int) -> pa.Array:
        """The column of n converted values, null where a value is None or isn't valid after all.

        ``now_ms`` is the time of the messages' batch.
        """

    @abstractmethod
    def explain(self, value: Any, now_ms: int) -> str:
        """Why ``array`` has null for a converted value."""


@dataclass(frozen=True)
class EventTime(FieldColumn):
    """The time of a message's event: a text as in RFC 3339 with an offset, or a number since the epoch.

    Parameters
    ----------
    unit : str
        One of ``UNITS``, for numbers.
    ahead : float
        How far a time may be ahead of the batch's time (s).

    """

    option: ClassVar[str] = "time_field"
    name: ClassVar[str] = "time"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    type: ClassVar[pa.DataType] = pa.timestamp("us", "UTC")  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    unit: str = "ms"
    ahead: float = math.inf

    def convert(self, value: Any) -> str | int | None:
        """A text as it is, and a number as milliseconds."""
        if type(value) is str:
            return value
        ms = to_milliseconds(value, self.unit) if type(value) in (int, float) else None
        return ms if ms is not None and FIRST <= ms <= LAST else None

    def refuse(self, value: Any, kind: str) -> str:
        """Why a value is no time."""
        if type(value) in (int, float):
            return f"field {self.path!r} is {value:g} {self.unit}, which is not in the years 1970 to 9999"
        offset = ", which has no offset" if kind.startswith("local-") else ", which is no time"
        return f"field {self.path!r} is {kind}{offset}"

    def array(self, values: Sequence[Any], now_ms: int) -> pa.Array:
        """The times of n values."""
        kinds = {*map(type, values)}

        def select(kind: type) -> Sequence[Any]:
            only = kinds <= {kind, type(None)}
            return values if only else [value if type(value) is kind else None for value in values]

        columns = [_parse_texts(pa.array(select(str), pa.string()))] if str in kinds else []
        columns += [pa.array(select(int), pa.int64()), pa.scalar(-1, pa.int64())]
        ms = pc.call_function("coalesce", columns).to_numpy()
        latest = min(LAST, now_ms + 1000 * self.ahead)
        return pa.array(1000 * ms, mask=(ms < FIRST) | (ms > latest)).cast(self.type)

    def explain(self, value: Any, now_ms: int) -> str:
        """Why a text is no time, or why a time isn't taken."""
        ms = value
        if type(value) is str:
            given = f"field {self.path!r} is {value[:_SHOWN]!r}"
            ms = _parse_texts(pa.array([value], pa.string()))[0].as_py()
            if ms is None:
                local = re.search(rf"{_LOCAL}$", value, re.ASCII)
                return f"{given}, which has no offset" if local else f"{given}, no time such as 2026-11-28T12:00:00Z"
            if not FIRST <= ms <= LAST:
                return f"{given}, which is not in the years 1970 to 9999"
        shown = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03d}Z"
        return f"field {self.path!r} is {shown}, which is more than {self.ahead:g} s ahead"


@dataclass(frozen=True)
class FieldValue(FieldColumn):
    """A field that the work reads, as a number or a text. No value is null: messages without one are rejected.

    Parameters
    ----------
    kind : DataType
        ``int64``, ``double`` or ``string``. A double may also be written as an integer, and a string as any number or
        truth value.

    """

    option: ClassVar[str] = "the work's column"

    kind: pa.DataType = field(default_factory=pa.string)

    @classmethod
    def of(cls, path: str, wanted: pa.DataType | None) -> "FieldValue":
        """The field for a work that casts it to a type. None: to none, so that it is a text."""
        if wanted is not None and (pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)):
            return cls(path, pa.float64())
        return cls(path, pa.int64() if wanted is not None and pa.types.is_integer(wanted) else pa.string())

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def type(self) -> pa.DataType:
        """The kind."""
        return self.kind

    def convert(self, value: Any) -> str | float | None:
        """A value of the column's type."""
        if self.type == pa.string():
            if type(value) is str:
                return value
            return str(value).lower() if type(value) is bool else str(value) if isinstance(value, _TEXTS) else None
        if type(value) is bool:
            return None
        if self.type == pa.float64():
            return float(value) if isinstance(value, int | float | Decimal) else None
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None

    def refuse(self, value: Any, kind: str) -> str:
        """Why a value isn't of the column's type."""
        return f"field {self.path!r} is {kind}, not {self.type}"

    def array(self, values: Sequence[Any], now_ms: int) -> pa.Array:
        """The values."""
        return pa.array(values, self.type)

    def explain(self, value: Any, now_ms: int) -> str:
        """Never called: all converted values are valid."""
        raise AssertionError


def to_milliseconds(number: float, unit: str) -> int | None:
    """A number of a unit as whole milliseconds, without the fraction of the last one. None: infinite, or no number.

    >>> to_milliseconds(1764331200.123, "s"), to_milliseconds(1764331200123999999, "ns")
    (1764331200123, 1764331200123)
    """
    multiple, divisor = UNITS[unit]
    if isinstance(number, int):
        return number * multiple // divisor
    # A double has microseconds of today's times in seconds, with an error that the rounding removes.
    microseconds = 1000 * multiple * number / divisor
    return round(microseconds) // 1000 if math.isfinite(microseconds) else None


def _parse_texts(texts: pa.Array) -> pa.Array:
    """The times of n texts (int64, ms), null where a text isn't as in RFC 3339."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64())
    valid = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(_RFC_3339))
    texts = pc.call_function("if_else", [valid, texts, pa.scalar(None, pa.string())])
    options = pc.ReplaceSubstringOptions(r"(\.\d{3})\d+", r"\1")
    texts = pc.call_function("replace_substring_regex", [texts], options)
    kind = pa.timestamp("ms", "UTC")
    try:
        return texts.cast(kind).cast(pa.int64())
    except pa.ArrowInvalid:  # a month hasn't the day of one of the texts
        return pa.array([_parse_text(text) for text in texts.to_pylist()], kind).cast(pa.int64())


def _parse_text(text: str | None) -> datetime | None:
    """The time of a text that is as in RFC 3339, but for a day that its month may not have."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def make_arrays(
    columns: Sequence[FieldColumn], rows: Iterable[tuple[Any, ...]], now_ms: int
) -> tuple[list[pa.Array], NDArray[np.bool_]]:
    """The columns of n rows of converted values (None where there is none), and which rows have all columns."""
    values = [*zip(*rows, strict=True)] or [()] * len(columns)
    arrays = [column.array(given, now_ms) for column, given in zip(columns, values, strict=True)]
    fit = [array.is_valid().to_numpy(zero_copy_only=False) for array in arrays]
    return arrays, np.logical_and.reduce(fit)


def explain_row(columns: Sequence[FieldColumn], row: tuple[Any, ...], now_ms: int) -> str:
    """Why ``make_arrays`` doesn't give all columns of a row of converted values."""
    return next(
        column.explain(value, now_ms)
        for column, value in zip(columns, row, strict=True)
        if column.array([value], now_ms).null_count
    )
