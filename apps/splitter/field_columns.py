"""Columns of tuples that are read from fields of the messages, beside the key.

``JsonFields`` and ``AvroDecoder`` find a field's value. A ``FieldColumn`` makes an array of the values of many
messages, and says why a value isn't one. A message with such a value is rejected.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: The column of the messages that has their batch's time (ms since the epoch).
NOW = "__now"
#: The times that every part of a run can hold, Python's own among them (ms since the epoch).
FIRST, LAST = 0, 253_402_300_799_999

#: Unit of a number → the milliseconds of one, as a fraction.
UNITS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}

_DAY = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
_LOCAL = rf"^{_DAY}[T ]{_CLOCK}:[0-5]\d(\.\d{{1,9}})?"
# RFC 3339. A leap second (:60) isn't a time of its own in Unix time.
_RFC_3339 = rf"{_LOCAL}(Z|[+-]{_CLOCK})$"
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
        The option that names the field.

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

    option: ClassVar[str] = "--time-field"
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
        texts = values if int not in kinds else [value if type(value) is str else None for value in values]
        numbers = values if str not in kinds else [value if type(value) is int else None for value in values]
        times = _parse_texts(pa.array(texts, pa.string())) if str in kinds else pa.scalar(None, pa.int64())
        columns = [times, pa.array(numbers, pa.int64()), pa.scalar(-1, pa.int64())]
        ms = pc.call_function("coalesce", columns).to_numpy()
        latest = min(LAST, now_ms + 1000 * self.ahead)
        return pa.array(1000 * ms, mask=(ms < FIRST) | (ms > latest)).cast(self.type)

    def explain(self, value: Any, now_ms: int) -> str:
        """Why a text is no time, or why a time isn't taken."""
        field, ms = f"field {self.path!r}", value
        if type(value) is str:
            field = f"{field} is {value[:_SHOWN]!r}"
            ms = _parse_texts(pa.array([value], pa.string()))[0].as_py()
            if ms is None:
                local = re.search(rf"{_LOCAL}$", value, re.ASCII)
                return f"{field}, which has no offset" if local else f"{field}, no time such as 2026-11-28T12:00:00Z"
            if not FIRST <= ms <= LAST:
                return f"{field}, which is not in the years 1970 to 9999"
        shown = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03d}Z"
        return f"field {self.path!r} is {shown}, which is more than {self.ahead:g} s ahead"


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
