"""POSG's operator instances (workers), which sketch their tuples, and report sketches when stable."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Monitor
from unskew.grouping.interface import Costs
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.posg.sketch import find_cells, update_sketch
from unskew.grouping.state import Value

START, STABILISING = 0, 1
STATE, EXECUTED = 0, 1  # positions in `control`


class Instances(NamedTuple):
    """The matrices of k instances, and the states of their state machines (Figure 2)."""

    frequencies: NDArray[np.int64]  # [k, r, c], F
    works: NDArray[np.float64]  # [k, r, c], W
    snapshots: NDArray[np.float64]  # [k, r, c], S, the last W/F
    control: NDArray[np.int64]  # [k, 2], state, and tuples executed in this window


@kernel
def new_instances(k: int, rows: int, columns: int) -> Instances:
    """Create instances that have executed nothing."""
    return Instances(
        np.zeros((k, rows, columns), np.int64),
        np.zeros((k, rows, columns)),
        np.zeros((k, rows, columns)),
        np.zeros((k, 2), np.int64),
    )


@kernel
def execute_tuple(
    instances: Instances, op: int, at: NDArray[np.int32], key: int, cost: float, window: int, tolerance: float
) -> bool:
    """Record a tuple that instance ``op`` has executed.

    Return True if its matrices are stable. Then they should be sent and ``reset_instance``.

    After N tuples START takes a snapshot of W/F. Every N further tuples, it is compared with the present W/F. If the
    relative error is at most μ (equation 1), the matrices are stable. Otherwise a new snapshot is taken. Cells without
    tuples are 0 on both sides.
    """
    update_sketch(instances.frequencies, instances.works, op, at, key, cost)
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
                instances.snapshots[op, row, column] = _cost_ratio(instances, op, row, column)
    return stable


@kernel
def reset_instance(instances: Instances, op: int) -> None:
    """Return to START with empty matrices (Figure 2.C)."""
    instances.frequencies[op] = 0
    instances.works[op] = 0
    instances.control[op] = 0


@kernel
def relative_error(instances: Instances, op: int) -> float:
    """η of equation 1: Σ |S − W/F| / Σ S, or 0 if nothing differs."""
    off, total = 0.0, 0.0
    for row in range(instances.snapshots.shape[1]):
        for column in range(instances.snapshots.shape[2]):
            off += abs(instances.snapshots[op, row, column] - _cost_ratio(instances, op, row, column))
            total += instances.snapshots[op, row, column]
    if off == 0:
        return 0.0
    return off / total if total > 0 else np.inf


@kernel
def _cost_ratio(instances: Instances, op: int, row: int, column: int) -> float:
    count = instances.frequencies[op, row, column]
    return instances.works[op, row, column] / count if count else 0.0


class PosgMonitor(Monitor):
    """Sketches one worker's tuples, and sums up its time. ``Posg.monitor`` creates it.

    The paper's worker sends each sketch as soon as it is stable, which replaces the previous one. Here several sketches
    may become stable in one interval, so the report has their sum, which is the sketch of all their tuples.

    Time O(log 1/δ) a tuple, memory 40 · r · c bytes.
    """

    remembers = True
    state_fields = ("frequencies", "works", "snapshots", "control", "cumulated", "stable_frequencies", "stable_works")

    def __init__(self, rows: int, columns: int, window: int, tolerance: float, seed: int) -> None:
        self.window, self.tolerance, self.seed = window, tolerance, seed
        self.frequencies, self.works, self.snapshots, self.control = new_instances(1, rows, columns)
        self.cumulated = np.zeros(1)
        self.stable_frequencies = np.zeros((rows, columns), np.int64)
        self.stable_works = np.zeros((rows, columns))

    def observe(self, keys: Keys, costs: Costs) -> None:
        if costs is None:
            raise ValueError("POSG's monitor needs costs: what each tuple took, in ms")
        _, rows, columns = self.works.shape
        instance = Instances(self.frequencies, self.works, self.snapshots, self.control)
        tuples = keys.codes, find_cells(keys, self.seed, rows, columns), np.ascontiguousarray(costs, np.float64)
        stable = self.cumulated, self.stable_frequencies, self.stable_works
        _execute_all(instance, *tuples, self.window, self.tolerance, *stable)

    def report(self) -> Mapping[str, Value] | None:
        """Report the total time (ms), and the sum of the sketches that became stable since the last report."""
        report: dict[str, Value] = {"cumulated": float(self.cumulated[0])}
        if self.stable_frequencies.any():
            report |= {"frequencies": self.stable_frequencies.copy(), "works": self.stable_works.copy()}
            self.stable_frequencies[:] = 0
            self.stable_works[:] = 0
        return report

    def _identity(self) -> str:
        return f"POSG monitor {self.works.shape[1:]} window={self.window} tolerance={self.tolerance} seed={self.seed}"


@kernel
def _execute_all(
    instance: Instances,
    codes: NDArray[np.int32],
    at: NDArray[np.int32],
    costs: NDArray[np.float64],
    window: int,
    tolerance: float,
    cumulated: NDArray[np.float64],
    stable_frequencies: NDArray[np.int64],
    stable_works: NDArray[np.float64],
) -> None:
    """Execute n tuples, and add matrices that become stable to ``stable_frequencies`` and ``stable_works``."""
    for i in range(len(codes)):
        cumulated[0] += costs[i]
        if execute_tuple(instance, 0, at, codes[i], costs[i], window, tolerance):
            stable_frequencies += instance.frequencies[0]
            stable_works += instance.works[0]
            reset_instance(instance, 0)
