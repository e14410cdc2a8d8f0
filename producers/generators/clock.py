"""When the records of a generated stream happened."""

import numpy as np
from numpy.typing import NDArray

_HOUR = 3600
_DAY = 24 * _HOUR
#: How much busier the busiest hour is than the mean, and when it is (hours, UTC).
_SWING, _PEAK = 0.4, 18


def times_of_day(first: int, n: int, records: int, start: int, seconds: int) -> NDArray[np.int64]:
    """Times of n records of a stream that goes on day and night, busier in the evening than in the morning.

    Parameters
    ----------
    first : int
        Position of the first of them.
    n : int
        How many.
    records : int
        How many the whole stream has.
    start, seconds : int
        When it begins (s since the epoch) and how long it lasts.

    Returns
    -------
    int64[n]
        Seconds since the epoch, never falling.

    """
    # The stream's density is 1 + swing · cos; its integral says which share of the records is before each minute.
    minutes = np.arange(0, seconds + 60, 60, dtype=np.float64)
    phase = 2 * np.pi * (minutes - _PEAK * _HOUR) / _DAY
    share = minutes + _SWING * _DAY / (2 * np.pi) * (np.sin(phase) - np.sin(phase[0]))
    position = (np.arange(first, first + n) + 0.5) / max(records, 1) * share[-1]
    return start + np.minimum(np.interp(position, share, minutes).astype(np.int64), seconds - 1)
