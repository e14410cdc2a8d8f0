"""POSG at a worker: sketch the executed tuples, report a sketch when it is stable."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.feedback import Monitor
from unskew.grouping.interface import Costs
from unskew.grouping.keys import Keys
from unskew.grouping.posg.instances import Instances, execute, new_instances, reset
from unskew.grouping.posg.sketch import cells
from unskew.grouping.state import Value


class PosgMonitor(Monitor):
    """One worker's sketches and the total of what it spent; ``Posg.monitor`` makes it.

    The paper's worker sends a sketch as soon as it is stable and the next replaces it at the scheduler, after it has
    been of use. By intervals several may come at once, of which a source would see the last alone: it gets their sum,
    which is the sketch of all their tuples.

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
        _execute_all(
            instance, keys.codes, cells(keys, self.seed, rows, columns), np.ascontiguousarray(costs, np.float64),
            self.window, self.tolerance, self.cumulated, self.stable_frequencies, self.stable_works,
        )  # fmt: skip

    def report(self) -> Mapping[str, Value] | None:
        """Say what was spent in all (ms), and hand over the sketches that have become stable, as one."""
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
    """Execute n tuples; matrices that become stable are added to the last two arrays."""
    for i in range(len(codes)):
        cumulated[0] += costs[i]
        if execute(instance, 0, at, codes[i], costs[i], window, tolerance):
            stable_frequencies += instance.frequencies[0]
            stable_works += instance.works[0]
            reset(instance, 0)
