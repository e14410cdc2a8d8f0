"""The DPA paper's five workloads: 100 letters each, with the skew that the paper gives before any balancing.

Which letters make a workload skewed depends on the hash function, and the paper's isn't known to the bit. So the
letters are chosen for our rings: they fall on the four reducers as the paper's S says, on both methods' rings at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

from unskew.grouping import create, encode

REDUCERS, ITEMS = 4, 100


@dataclass(frozen=True, slots=True)
class Shape:
    """Items of the four reducers on the halving method's and on the doubling method's ring; S follows from the most."""

    halving: tuple[int, int, int, int]
    doubling: tuple[int, int, int, int]


EVEN = (25, 25, 25, 25)
#: S = (most − 25) / 75, as in the paper's column "No LB". WL3 is one letter, so it needs no choice.
SHAPES: dict[str, Shape | None] = {
    "WL1": Shape(EVEN, (100, 0, 0, 0)),
    "WL2": Shape(EVEN, EVEN),
    "WL3": None,
    "WL4": Shape((85, 5, 5, 5), (62, 13, 13, 12)),
    "WL5": Shape((40, 20, 20, 20), (66, 12, 11, 11)),
}


@cache
def letters(name: str, seed: int) -> Sequence[str] | None:
    """The workload's 100 letters in random order; None: with this seed's rings no letters have that skew."""
    rng = np.random.default_rng((seed, list(SHAPES).index(name)))
    shape = SHAPES[name]
    if shape is None:
        return ["a"] * ITEMS
    alphabet = np.array(list(ascii_letters))
    halving, doubling = (_owners(method, alphabet, seed) for method in ("halving", "doubling"))
    there = np.zeros((REDUCERS, REDUCERS), np.bool_)
    there[halving, doubling] = True
    table = _fill(shape, there, rng)
    if table is None:
        return None
    chosen: list[str] = []
    for h, d in np.argwhere(table).tolist():
        choice = alphabet[(halving == h) & (doubling == d)]
        chosen += rng.choice(choice, table[h, d]).tolist()
    return rng.permutation(chosen).tolist()


def _owners(method: str, alphabet: NDArray[np.str_], seed: int) -> NDArray[np.int32]:
    return create("CONSISTENT_HASH", REDUCERS, seed=seed, method=method).route(encode(alphabet.tolist()))


def _fill(shape: Shape, there: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Items for each (reducer of the halving ring, of the doubling ring) that has letters, with the shape's sums.

    Item by item at random, each so that the rest can still be placed; None if there is no way, whichever reducers
    have the most.
    """
    for _ in range(16):
        rows, columns = rng.permutation(shape.halving), rng.permutation(shape.doubling)
        if _placeable(rows, columns, there):
            break
    else:
        return None
    table = np.zeros_like(there, np.int64)
    while rows.sum():
        weight = np.where(there, np.outer(rows, columns), 0).astype(float).ravel()
        for at in rng.choice(weight.size, np.count_nonzero(weight), replace=False, p=weight / weight.sum()).tolist():
            h, d = divmod(at, REDUCERS)
            rows[h] -= 1
            columns[d] -= 1
            if _placeable(rows, columns, there):
                table[h, d] += 1
                break
            rows[h] += 1
            columns[d] += 1
    return table


def _placeable(rows: NDArray[np.int64], columns: NDArray[np.int64], there: NDArray[np.bool_]) -> bool:
    """Hall's condition: no set of rows has more items than the columns that it can use."""
    return all(
        rows[list(some)].sum() <= columns[there[list(some)].any(axis=0)].sum()
        for size in range(1, REDUCERS + 1)
        for some in combinations(range(REDUCERS), size)
    )
