"""What generators make up: the times of the records, and titles."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.kafka.json_columns import join_columns

_HOUR = 3600
_DAY = 24 * _HOUR
#: How much busier the busiest hour is than the mean hour, and which hour it is (UTC).
_SWING, _PEAK = 0.4, 18


def times_of_day(first: int, n: int, records: int, start: int, seconds: int) -> NDArray[np.int64]:
    """Times for n records of a stream that is busier in the evening than in the morning.

    The stream has ``records`` records, begins at ``start`` (s since the epoch) and lasts for ``seconds``; the n begin
    at position ``first``. The times are seconds since the epoch, ascending: int64[n].
    """
    # The stream's density is 1 + swing · cos; its integral up to a minute is the share of the records before it.
    minutes = np.arange(0, seconds + 60, 60, dtype=np.float64)
    phase = 2 * np.pi * (minutes - _PEAK * _HOUR) / _DAY
    share = minutes + _SWING * _DAY / (2 * np.pi) * (np.sin(phase) - np.sin(phase[0]))
    position = (np.arange(first, first + n) + 0.5) / max(records, 1) * share[-1]
    return start + np.minimum(np.interp(position, share, minutes).astype(np.int64), seconds - 1)


_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "ch", "st")
_SYLLABLES = [onset + vowel for vowel in "aeio" for onset in _ONSETS]
_BITS = 6  # of a syllable, of which there are 64
_PARTS = 5
#: How many titles there are.
TITLES = 1 << _BITS * _PARTS
# An odd factor permutes the numbers below a power of two: neighbours in rank get titles that are no neighbours.
_SCRAMBLE = 0x2545F491


def make_titles(numbers: NDArray[np.int64], first: str) -> pa.StringArray:
    """A pronounceable title for each number below 2^30, string[n]. A number always has the same title.

    No two numbers have the same title. The title of 0 is ``first``.

    Examples
    --------
    >>> make_titles(np.array([0, 1, 2]), "Main_Page").to_pylist()
    ['Main_Page', 'Defeste_Deli', 'Fikicho_Fisa']

    """
    scrambled = numbers * _SCRAMBLE % TITLES
    digit = [pa.array(scrambled >> _BITS * part & (1 << _BITS) - 1) for part in range(_PARTS)]
    # Not made with the module: pa.array of a list imports pandas, which takes a third of a second.
    syllables, capitals = pa.array(_SYLLABLES), pa.array([syllable.capitalize() for syllable in _SYLLABLES])
    one, two, three, four, five = (
        table.take(digit[part]) for part, table in enumerate((capitals, syllables, syllables, capitals, syllables))
    )
    made = join_columns(one, two, three, "_", four, five)
    return pc.call_function("if_else", [pa.array(numbers == 0), pa.scalar(first), made])
