"""Draw from a discrete distribution of any size in constant time: Walker's alias table."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


@kernel
def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The table of K weights (≥ 0, their sum > 0): thresholds float64[K] and aliases int32[K]. O(K) (Vose)."""
    k = len(weights)
    threshold = weights * (k / weights.sum())
    alias = np.arange(k).astype(np.int32)
    pending = np.empty(k, np.int32)  # light columns from the left, heavy ones from the right
    light, heavy = 0, k
    for i in range(k):
        if threshold[i] < 1.0:
            pending[light] = i
            light += 1
        else:
            heavy -= 1
            pending[heavy] = i
    while light > 0 and heavy < k:
        light -= 1
        small, large = pending[light], pending[heavy]
        alias[small] = large
        threshold[large] -= 1.0 - threshold[small]
        if threshold[large] < 1.0:
            heavy += 1
            pending[light] = large
            light += 1
    # What is left on either side is 1 up to rounding.
    for i in range(light):
        threshold[pending[i]] = 1.0
    for i in range(heavy, k):
        threshold[pending[i]] = 1.0
    return threshold, alias


@kernel
def pick(uniform: NDArray[np.float64], threshold: NDArray[np.float64], alias: NDArray[np.int32]) -> NDArray[np.int64]:
    """One draw for each number of [0, 1): its integer part in K names the column, its fraction chooses in it."""
    k = len(threshold)
    drawn = np.empty(len(uniform), np.int64)
    for i in range(len(uniform)):
        at = uniform[i] * k
        column = min(np.int64(at), k - 1)
        drawn[i] = column if at - column < threshold[column] else alias[column]
    return drawn
