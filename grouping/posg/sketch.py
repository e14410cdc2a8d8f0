"""The pair of Count-Min sketches that estimates execution times: F counts tuples, W sums what they cost."""

from math import ceil, e, log2

import numpy as np
from numpy.typing import NDArray

from grouping.arguments import number
from grouping.compiled import kernel
from grouping.hashing import below, function, mix
from grouping.keys import Keys


def shape(epsilon: float, delta: float) -> tuple[int, int]:
    """Rows r = ⌈log2 1/δ⌉ and columns c = ⌈e/ε⌉: an estimate errs by ε(m − f) or more with probability at most δ.

    The paper gives its default ε = 0.05 as 54 columns in section V and as 55 in section IV; δ = 0.1 as 4 rows, so its
    logarithm is the binary one, which is more than the bound needs (ln 10 = 2.3).

    >>> shape(0.05, 0.1), shape(0.70, 0.25)
    ((4, 55), (2, 4))
    """
    epsilon, delta = number("epsilon", epsilon, 0, above=True), number("delta", delta, 0, above=True)
    if delta >= 1:
        raise ValueError(f"delta is {delta!r}; valid: a number above 0, below 1")
    return ceil(log2(1 / delta)), ceil(e / epsilon)


def cells(keys: Keys, seed: int, rows: int, columns: int) -> NDArray[np.int32]:
    """The column of each distinct key in each row: int32[k, r]. The hash functions depend on the seed alone."""
    return _cells(keys.hashes, function(seed), rows, columns)


@kernel
def _cells(hashes: NDArray[np.uint64], number: np.uint64, rows: int, columns: int) -> NDArray[np.int32]:
    at = np.empty((len(hashes), rows), np.int32)
    for key in range(len(hashes)):
        for row in range(rows):
            at[key, row] = below(mix(hashes[key], number + np.uint64(row)), columns)
    return at


@kernel
def update(frequencies: NDArray[np.int64], works: NDArray[np.float64], at: NDArray[np.int32], cost: float) -> None:
    """Listing III.1: a tuple whose cells are ``at`` [r] was executed in ``cost`` ms."""
    for row in range(len(at)):
        frequencies[row, at[row]] += 1
        works[row, at[row]] += cost


@kernel
def frequency(frequencies: NDArray[np.int64], at: NDArray[np.int32]) -> int:
    """How often a key was seen: never less than the truth."""
    least = frequencies[0, at[0]]
    for row in range(1, len(at)):
        least = min(least, frequencies[row, at[row]])
    return least


@kernel
def estimate(frequencies: NDArray[np.int64], works: NDArray[np.float64], at: NDArray[np.int32], unseen: float) -> float:
    """Listing III.2, line 10: what a tuple costs, W/F of the row with the least F; ``unseen`` if that F is 0."""
    least, row = frequencies[0, at[0]], 0
    for i in range(1, len(at)):
        if frequencies[i, at[i]] < least:
            least, row = frequencies[i, at[i]], i
    return works[row, at[row]] / least if least > 0 else unseen


def expected_estimate(costs: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Theorem 4.3: E(W_v/C_v) of one row for each of n items that are equally frequent, float64[n].

    Parameters
    ----------
    costs : float64[n]
        The true execution time of each item, n ≥ 2.
    columns : int
        Of the sketch.

    """
    n, total = len(costs), costs.sum()
    alone = 1 - (1 - 1 / columns) ** n
    return (total - costs) / (n - 1) - columns * (total - n * costs) / (n * (n - 1)) * alone
