"""Made-up page titles: a number's own, pronounceable, the same in every process."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.producers.rendering import joined

_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "ch", "st")
_SYLLABLES = pa.array([onset + vowel for vowel in "aeio" for onset in _ONSETS])
_FIRST = pa.array([syllable.capitalize() for syllable in _SYLLABLES.to_pylist()])
_BITS = 6  # of a syllable, of which there are 64
_PARTS = 5
#: There are so many titles.
TITLES = 1 << _BITS * _PARTS
# An odd factor permutes the numbers below a power of two: neighbours in rank get titles that are no neighbours.
_SCRAMBLE = 0x2545F491


def titles(numbers: NDArray[np.int64], first: str) -> pa.StringArray:
    """The title of each number below 2^30, two numbers' never the same: string[n]. Number 0 is called ``first``.

    Examples
    --------
    >>> titles(np.array([0, 1, 2]), "Main_Page").to_pylist()
    ['Main_Page', 'Defeste_Deli', 'Fikicho_Fisa']

    """
    scrambled = numbers * _SCRAMBLE % TITLES
    digit = [pa.array(scrambled >> _BITS * part & (1 << _BITS) - 1) for part in range(_PARTS)]
    one, two, three, four, five = (
        table.take(digit[part]) for part, table in enumerate((_FIRST, _SYLLABLES, _SYLLABLES, _FIRST, _SYLLABLES))
    )
    made = joined(one, two, three, "_", four, five)
    return pc.call_function("if_else", [pa.array(numbers == 0), pa.scalar(first), made])
