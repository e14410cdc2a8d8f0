"""The operator instances (workers) of POSG: each sketches its tuples until the sketch is stable, then hands it over."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.posg.sketch import update

START, STABILISING = 0, 1
STATE, EXECUTED = 0, 1  # positions in `control`


class Instances(NamedTuple):
    """The matrices of k instances, and where their state machines (Figure 2) stand."""

    frequencies: NDArray[np.int64]  # [k, r, c], F
    works: NDArray[np.float64]  # [k, r, c], W
    snapshots: NDArray[np.float64]  # [k, r, c], S, the last W/F
    control: NDArray[np.int64]  # [k, 2], state, and tuples executed in this window


@kernel
def new_instances(k: int, rows: int, columns: int) -> Instances:
    """Instances that have executed nothing."""
    return Instances(
        np.zeros((k, rows, columns), np.int64),
        np.zeros((k, rows, columns)),
        np.zeros((k, rows, columns)),
        np.zeros((k, 2), np.int64),
    )


@kernel
def execute(
    instances: Instances, op: int, at: NDArray[np.int32], key: int, cost: float, window: int, tolerance: float
) -> bool:
    """Note a tuple that instance ``op`` has executed; True: its matrices are stable, send and ``reset`` them.

    After N tuples START takes a snapshot of W/F. From then on, every N tuples: if the relative error between snapshot
    and present is at most μ (equation 1), the matrices are stable, else the snapshot is taken anew. Cells that no
    tuple has hit are 0 on both sides.
    """
    update(instances.frequencies, instances.works, op, at, key, cost)
    control = instances.control
    control[op, EXECUTED] += 1
    if control[op, EXECUTED] < window:
        return False
    control[op, EXECUTED] = 0
    stable = bool(control[op, STATE] == STABILISING and relative_error(instances, op) <= tolerance)
    if not stable:
        control[op, STATE] = STABILISING
        for row in range(instances.snapshots.shape[1]):
            for column in range(instances.snapshots.shape[2]):
                instances.snapshots[op, row, column] = _ratio(instances, op, row, column)
    return stable


@kernel
def reset(instances: Instances, op: int) -> None:
    """Back to START with empty matrices (Figure 2.C)."""
    instances.frequencies[op] = 0
    instances.works[op] = 0
    instances.control[op] = 0


@kernel
def relative_error(instances: Instances, op: int) -> float:
    """η of equation 1: Σ |S − W/F| / Σ S; 0 if nothing differs."""
    off, total = 0.0, 0.0
    for row in range(instances.snapshots.shape[1]):
        for column in range(instances.snapshots.shape[2]):
            off += abs(instances.snapshots[op, row, column] - _ratio(instances, op, row, column))
            total += instances.snapshots[op, row, column]
    if off == 0:
        return 0.0
    return off / total if total > 0 else np.inf


@kernel
def _ratio(instances: Instances, op: int, row: int, column: int) -> float:
    count = instances.frequencies[op, row, column]
    return instances.works[op, row, column] / count if count else 0.0
