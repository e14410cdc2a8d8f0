"""An operator instance (a worker) of POSG: sketches its tuples until the sketch is stable, then hands it over."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grouping.compiled import kernel
from grouping.posg.sketch import update

START, STABILISING = 0, 1
STATE, EXECUTED = 0, 1  # positions in `control`


class Instance(NamedTuple):
    """The instance's matrices and where its state machine (Figure 2) stands."""

    frequencies: NDArray[np.int64]  # [r, c], F
    works: NDArray[np.float64]  # [r, c], W
    snapshot: NDArray[np.float64]  # [r, c], S, the last W/F
    control: NDArray[np.int64]  # [2], state, and tuples executed in this window


@kernel
def new_instance(rows: int, columns: int) -> Instance:
    """An instance that has executed nothing."""
    return Instance(
        np.zeros((rows, columns), np.int64),
        np.zeros((rows, columns)),
        np.zeros((rows, columns)),
        np.zeros(2, np.int64),
    )


@kernel
def execute(instance: Instance, at: NDArray[np.int32], cost: float, window: int, tolerance: float) -> bool:
    """Note one executed tuple; True: the matrices are stable, send and ``reset`` them.

    After N tuples START takes a snapshot of W/F. From then on, every N tuples: if the relative error between snapshot
    and present is at most μ (equation 1), the matrices are stable, else the snapshot is taken anew. Cells that no
    tuple has hit are 0 on both sides.
    """
    update(instance.frequencies, instance.works, at, cost)
    control = instance.control
    control[EXECUTED] += 1
    if control[EXECUTED] < window:
        return False
    control[EXECUTED] = 0
    stable = control[STATE] == STABILISING and relative_error(instance) <= tolerance
    if not stable:
        control[STATE] = STABILISING
        for row in range(instance.snapshot.shape[0]):
            for column in range(instance.snapshot.shape[1]):
                instance.snapshot[row, column] = _ratio(instance, row, column)
    return stable


@kernel
def reset(instance: Instance) -> None:
    """Back to START with empty matrices (Figure 2.C)."""
    instance.frequencies[:] = 0
    instance.works[:] = 0
    instance.control[:] = 0


@kernel
def relative_error(instance: Instance) -> float:
    """η of equation 1: Σ |S − W/F| / Σ S; 0 if nothing differs."""
    off, total = 0.0, 0.0
    for row in range(instance.snapshot.shape[0]):
        for column in range(instance.snapshot.shape[1]):
            off += abs(instance.snapshot[row, column] - _ratio(instance, row, column))
            total += instance.snapshot[row, column]
    if off == 0:
        return 0.0
    return off / total if total > 0 else np.inf


@kernel
def _ratio(instance: Instance, row: int, column: int) -> float:
    count = instance.frequencies[row, column]
    return instance.works[row, column] / count if count else 0.0
