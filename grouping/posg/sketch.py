"""The pair of Count-Min sketches that estimates execution times: F counts tuples, W sums their costs."""

from math import ceil, e, log2

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.hashing import hash_function, mix_hash, reduce_to_range
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys


def sketch_shape(epsilon: float, delta: float) -> tuple[int, int]:
    """Rows r = ⌈log2 1/δ⌉ and columns c = ⌈e/ε⌉: an estimate errs by ε(m − f) or more with probability at most δ.

    The paper has 54 columns for its default ε = 0.05 in section V, and 55 columns in the example of section IV. It has
    4 rows for δ = 0.1, so its logarithm is binary. This is more than the bound needs, because ln 10 = 2.3.

    >>> sketch_shape(0.05, 0.1), sketch_shape(0.70, 0.25)
    ((4, 55), (2, 4))
    """
    epsilon = check_number("epsilon", epsilon, 0, above=True)
    delta = check_number("delta", delta, 0, 1, above=True, below=True)
    return ceil(log2(1 / delta)), ceil(e / epsilon)


def find_cells(keys: Keys, seed: int, rows: int, columns: int) -> NDArray[np.int32]:
    """The column of each distinct key in each row: int32[k, r]. The hash functions depend only on the seed."""
    return _hash_cells(keys.hashes, hash_function(seed), rows, columns)


@kernel
def _hash_cells(hashes: NDArray[np.uint64], number: np.uint64, rows: int, columns: int) -> NDArray[np.int32]:
    at = np.empty((len(hashes), rows), np.int32)
    for key in range(len(hashes)):
        for row in range(rows):
            at[key, row] = reduce_to_range(mix_hash(hashes[key], number + np.uint64(row)), columns)
    return at


# These kernels take the matrices of all instances, [k, r, c], with the instance's number ``op``, and the cells of all
# distinct keys, [K, r], with the key's code, because slices would cost more than the work on them.


@kernel
def update_sketch(
    frequencies: NDArray[np.int64], works: NDArray[np.float64], op: int, at: NDArray[np.int32], key: int, cost: float
) -> None:
    """Listing III.1: instance ``op`` has executed a tuple in ``cost`` ms."""
    for row in range(at.shape[1]):
        frequencies[op, row, at[key, row]] += 1
        works[op, row, at[key, row]] += cost


@kernel
def estimate_frequency(frequencies: NDArray[np.int64], op: int, at: NDArray[np.int32], key: int) -> int:
    """How often instance ``op`` has seen a key, never too low."""
    least = frequencies[op, 0, at[key, 0]]
    for row in range(1, at.shape[1]):
        least = min(least, frequencies[op, row, at[key, row]])
    return least


@kernel
def estimate_cost(
    frequencies: NDArray[np.int64], works: NDArray[np.float64], op: int, at: NDArray[np.int32], key: int, unseen: float
) -> float:
    """Listing III.2, line 10: a tuple's cost, W/F in the row with the least F, or ``unseen`` if that is 0."""
    least, row = frequencies[op, 0, at[key, 0]], 0
    for i in range(1, at.shape[1]):
        count = frequencies[op, i, at[key, i]]
        if count < least:
            least, row = count, i
    return works[op, row, at[key, row]] / least if least > 0 else unseen


def expected_estimate(costs: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Theorem 4.3: E(W_v/C_v) of one row of a sketch for each of n ≥ 2 items that are equally frequent, float64[n].

    ``costs``, float64[n], are the items' true execution times.
    """
    n, total = len(costs), costs.sum()
    alone = 1 - (1 - 1 / columns) ** n
    return (total - costs) / (n - 1) - columns * (total - n * costs) / (n * (n - 1)) * alone
