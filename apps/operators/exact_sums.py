"""Exact sums of floating-point numbers, independent of order, batches and workers.

A sum is kept as an *expansion*: float64 numbers whose exact sum it is. The first of them is the sum correctly rounded,
the second is the remainder correctly rounded, and so on. Nearly always there are one or two. Equal sums have equal
expansions.

References
----------
J. R. Shewchuk, Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates, 1997: two-sum and
two-product (sections 2.1 to 2.3), grow-expansion (2.4). Rounding an expansion is as in CPython's ``math.fsum``.

"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.list_columns import gather_lists, repeat_slots
from unskew.grouping.kernel_cache import kernel

EXPANSION = pa.list_(pa.float64())

#: Beyond it a square's rounding error may not be representable, or a sum of squares overflow.
LARGEST = 1e140

# Two components of an expansion don't share a bit, so there can't be more of them than float64s have binary places.
_PLACES = 2200


def sum_expansions(expansions: pa.ListArray, slots: NDArray[np.int32], keys: int) -> pa.ListArray:
    """The sums of n expansions by slot, one for each of k keys. O(n log n), some 20 ns each."""
    owners = repeat_slots(expansions, slots).to_numpy()
    order = np.argsort(owners, kind="stable")
    values = expansions.flatten().to_numpy()
    sums, of = _sum_by_slot(values[order], owners[order])
    return gather_lists(pa.array(of), pa.array(sums), keys, EXPANSION)


def make_expansions(*parts: NDArray[np.float64]) -> pa.ListArray:
    """Expansions with these parts. The next ``sum_expansions`` drops parts that are zero."""
    offsets = np.arange(len(parts[0]) + 1, dtype=np.int32) * len(parts)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.column_stack(parts).ravel()), type=EXPANSION)


def take_leading_parts(expansions: pa.ListArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first two parts of each expansion: the rounded sum, and most of the rounding error."""
    offsets = expansions.offsets.to_numpy()
    padded = np.concatenate([expansions.values.to_numpy(), [0.0, 0.0]])
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    return (
        np.where(lengths > 0, padded[starts], 0.0),
        np.where(lengths > 1, padded[starts + 1], 0.0),
    )


def two_product(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The exact product a · b as its rounded value and the rounding error, by Dekker's splitting."""
    product = a * b
    (ah, al), (bh, bl) = _split_halves(a), _split_halves(b)
    return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)


def _split_halves(a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    c = 134217729.0 * a  # 2²⁷ + 1
    high = c - (c - a)
    return high, a - high


@kernel
def _sum_by_slot(
    values: NDArray[np.float64], slots: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    sums = np.empty(len(values), np.float64)
    owners = np.empty(len(values), np.int32)
    parts = np.empty(_PLACES, np.float64)
    written = 0
    i = 0
    while i < len(values):
        slot = slots[i]
        n = 0
        while i < len(values) and slots[i] == slot:
            n = _grow_expansion(parts, n, values[i])
            i += 1
        while n:
            first = _round_sum(parts, n)
            sums[written] = first
            owners[written] = slot
            written += 1
            n = _grow_expansion(parts, n, -first)
    return sums[:written].copy(), owners[:written].copy()


@kernel
def _grow_expansion(parts: NDArray[np.float64], n: int, x: float) -> int:
    """Add x to the expansion of n parts, smallest first, without zeros; returns the new number of parts."""
    kept = 0
    for i in range(n):
        y = parts[i]
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            parts[kept] = low
            kept += 1
        x = high
    if x != 0.0:
        parts[kept] = x
        kept += 1
    return kept


@kernel
def _round_sum(parts: NDArray[np.float64], n: int) -> float:
    """The sum of the parts, correctly rounded: half-way cases depend on the next part."""
    n -= 1
    high, low = parts[n], 0.0
    while n > 0:
        n -= 1
        x, y = high, parts[n]
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            break
    if n > 0 and ((low < 0.0 and parts[n - 1] < 0.0) or (low > 0.0 and parts[n - 1] > 0.0)):
        y = low * 2.0
        x = high + y
        if y == x - high:
            high = x
    return high
