"""Finds pairs of rows with close times, by sorting."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_PAIRS_AT_ONCE = 1 << 20


def number_by_group(group: NDArray[np.int64], time: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    """One number for each of n rows, which grows with the group (≥ 0), then with the time.

    Rows of different groups are further apart than ``reach``, which is the longest distance of a pair in the times'
    unit. Raises ``ValueError`` if the times are too far apart for such numbers.
    """
    if int(group.max(initial=0)) >= count_groups(time, reach):
        raise ValueError("the tuples' times are too far from each other")
    first, span = _find_span(time, reach)
    return (group + 1) * span + (time - first)


def count_groups(time: NDArray[np.int64], reach: int) -> int:
    """How many groups ``number_by_group`` can tell apart with these times."""
    return max(0, ((1 << 62) - 1) // _find_span(time, reach)[1] - 1)


def _find_span(time: NDArray[np.int64], reach: int) -> tuple[int, int]:
    """The first time, and the distance of two groups' first numbers."""
    first = int(time.min()) if len(time) else 0
    return first, int(time.max(initial=first)) - first + reach + 2


def find_close_pairs(
    left: NDArray[np.int64], right: NDArray[np.int64], before: int, after: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The positions of each pair with left − ``before`` ≤ right ≤ left + ``after``, about a million pairs at a time.

    ``left``, int64[n], and ``right``, int64[m], are the rows' numbers (``number_by_group``).
    """
    order = np.argsort(right, kind="stable")
    ascending = right[order]
    first = np.searchsorted(ascending, left - before, side="left")
    many = np.searchsorted(ascending, left + after, side="right") - first
    for some in _cut_evenly(many):
        own = np.arange(len(left))[some]
        within = np.arange(many[some].sum()) - np.repeat(np.cumsum(many[some]) - many[some], many[some])
        yield np.repeat(own, many[some]), order[np.repeat(first[some], many[some]) + within]


def _cut_evenly(many: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of n tuples by their number of partners: at most a million pairs each, unless one tuple has more."""
    ends, start = np.cumsum(many), 0
    while start < len(many):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PAIRS_AT_ONCE, side="right")))
        if ends[stop - 1] > before:
            yield slice(start, stop)
        start = stop
