"""Parses durations: a timedelta, a number of seconds, or Spark's syntax.

pandas doesn't support Spark's weeks, takes ``30`` for nanoseconds, and isn't needed by the groupings.
"""

import math
import re
from datetime import timedelta
from numbers import Real
from typing import Any, TypeAlias

from unskew.errors import UsageError

#: A timedelta, seconds, or a string such as ``10 minutes``, ``1 hour 30 minutes``, ``30s``.
Duration: TypeAlias = timedelta | float | str

# Spark's units, and short names of the common ones. Spark's months and years have no fixed length.
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_UNITS = _MICROSECONDS | {f"{unit}s": n for unit, n in _MICROSECONDS.items()}
_UNITS |= {short: _MICROSECONDS[unit] for short, unit in _SHORT.items()}
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"

#: The longest duration (s): 100 years. A time plus it still fits into int64 in ms and Python's times, and precedes the
#: year 10000, at which a backfill ends.
LONGEST = 100 * 365.25 * 86_400

#: The most sliding windows that contain a time.
MOST_WINDOWS = 60

_VALID = "a timedelta, seconds (30), or text in weeks to microseconds ('1 hour 30 minutes', '30s')"


def parse_seconds(name: str, value: Any, *, least: float = 0.0, above: bool = False) -> float:
    """Parse a duration to seconds: at least ``least``, or more if ``above``, and at most 100 years.

    Parameters
    ----------
    name : str
        The parameter's name, for the error.
    value : timedelta, number or str
        The duration. Numbers, also as strings, are in seconds. Other strings are Spark's intervals, in weeks to
        microseconds, in any case of letters; or with the short units of ``_SHORT``.
    least : float
        The least duration (s).
    above : bool
        Whether the duration must be longer than ``least``.

    Raises
    ------
    UsageError
        The value is invalid. The message names the parameter, the value and the valid values.

    Examples
    --------
    >>> [parse_seconds("gap", text) for text in ("1 hour 30 minutes", "500 milliseconds", "1h30min")]
    [5400.0, 0.5, 5400.0]
    >>> parse_seconds("gap", timedelta(minutes=1)), parse_seconds("gap", 2.5), parse_seconds("gap", "30")
    (60.0, 2.5, 30.0)

    """
    found = _to_seconds(value)
    if found is None or not math.isfinite(found) or found < least or (above and found == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise UsageError(f"{name} is {value!r}; valid: a duration {bound} s: {_VALID}")
    if found > LONGEST:
        raise too_long_error(name, value)
    return found


def too_long_error(name: str, value: Any) -> UsageError:
    """The error for a duration longer than ``LONGEST``."""
    return UsageError(f"{name} is {value!r}; valid: a duration of at most 100 years")


def parse_milliseconds(name: str, value: Any, *, least: int = 0) -> int:
    """Parse a duration to whole milliseconds, at least ``least``. Arguments and errors as for ``parse_seconds``.

    >>> parse_milliseconds("gap", "10 minutes"), parse_milliseconds("gap", 0.5)
    (600000, 500)
    """
    return round(1000 * parse_seconds(name, value, least=least / 1000))


def parse_slide(value: Any, window_ms: int, name: str = "slide") -> int:
    """Parse how often a sliding window begins, in ms: the window's length (ms) divided by 1 to ``MOST_WINDOWS``.

    So every time is in equally many windows. Arguments and errors as for ``parse_seconds``.

    >>> parse_slide("5 seconds", 15_000)
    5000
    """
    slide_ms = round(1000 * parse_seconds(name, value, above=True), 6)
    if slide_ms % 1 or not slide_ms or window_ms % slide_ms or window_ms > MOST_WINDOWS * slide_ms:
        raise UsageError(
            f"{name} is {value!r}; valid for a window of {window_ms / 1000:g} s: its length divided by 1 to "
            f"{MOST_WINDOWS}, in whole milliseconds"
        )
    return int(slide_ms)


def _to_seconds(value: Any) -> float | None:
    """A duration in seconds, or None if it isn't one."""
    if isinstance(value, str):
        return _parse_text(value.strip().lower())
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    except OverflowError:  # an integer beyond floats
        return None


def _parse_text(text: str) -> float | None:
    """The seconds of a lower-case string, or None if it isn't a duration."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    interval = text.removeprefix("interval ")
    parts = re.findall(_PART, interval)
    if not re.fullmatch(rf"(?:\s*{_PART})+", interval) or any(unit not in _UNITS for _, unit in parts):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts) / 1e6
