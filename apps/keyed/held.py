"""What the workers of a run hold, as they told it after a batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Held:
    """The states after a batch.

    Attributes
    ----------
    states, size : int64[W]
        States and their bytes at each worker (of a home: at the worker of its number).
    at_workers : int
        Those of them that are no homes': of keys that may have more at other workers.
    finished : int
        States that left in the batch.
    fragments : int
        States that workers handed over to homes in the batch.
    met : int
        The keys that they are of.
    met_ms : int
        The watermark when states that outlive windows last met: what is told is told as of then.
    merging : float
        How long the slowest home was at work (s).

    """

    states: NDArray[np.int64]
    size: NDArray[np.int64]
    at_workers: int
    finished: int
    fragments: int
    met: int
    met_ms: int
    merging: float

    @classmethod
    def of(cls, told: Mapping[str, Mapping[int, Mapping[str, Any]]], workers: int) -> "Held":
        """From the reports of workers and homes."""
        holding = [n for stage in ("worker", "home") for n, said in told.get(stage, {}).items() if said["states"]]
        most = max([workers, *(number + 1 for number in holding)])  # until those that are too many have handed out
        states, size = np.zeros(most, np.int64), np.zeros(most, np.int64)
        for stage in ("worker", "home"):
            for number, said in told.get(stage, {}).items():
                if said["states"]:
                    states[number] += said["states"]
                    size[number] += said["bytes"]
        at_workers, homes = told.get("worker", {}).values(), told.get("home", {}).values()
        return cls(
            states,
            size,
            sum(said["states"] for said in at_workers),
            sum(said["finished"] for said in (*at_workers, *homes)),
            sum(said["fragments"] for said in at_workers),
            sum(said["met"] for said in homes),
            min((said["met_ms"] for said in homes), default=0),
            max((said["seconds"] for said in homes), default=0.0),
        )
