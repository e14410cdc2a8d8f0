"""The workers' part of the loop: what a worker observes of its tuples in a batch, and reports at its end."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.topology.router import Routing
from unskew.grouping.feedback import Monitor
from unskew.grouping.keys import Keys, encode
from unskew.grouping.state import Value

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Monitors:
    """All workers' monitors; travels to the tasks.

    Parameters
    ----------
    routing : Routing
        Of the run: its grouping's routers say what is monitored.

    """

    routing: Routing

    def open(self, worker: int, batch: int) -> "WorkerMonitor | None":
        """A worker's monitor for a batch; None: the scheme doesn't observe its workers."""
        fresh = self.routing.router().monitor()
        return None if fresh is None else WorkerMonitor(fresh, self.routing.checkpoint, worker, batch)

    def report(self, worker: int, batch: int, tuples: pa.RecordBatch, seconds: float) -> Mapping[str, Value] | None:
        """The report of a worker that has done all its tuples (column ``key``) of a batch at once, in so much time."""
        monitor = self.open(worker, batch)
        if monitor is None:
            return None
        if tuples.num_rows:
            keys = encode(tuples.column("key"))
            costs = self.routing.cost.of(keys)
            monitor.observe(keys, costs + max(0.0, 1000 * seconds - float(costs.sum())) / len(keys))
        return monitor.close()


class WorkerMonitor:
    """One worker's monitor during one batch.

    What it remembers from batch to batch, if it does, is versioned as the routers' state is. It is made of measured
    times, so two attempts of a task may write different bytes, each whole: it is soft state, no count depends on it.
    """

    def __init__(self, monitor: Monitor, checkpoint: Where | None, worker: int, batch: int) -> None:
        self._monitor = monitor
        self._batch = batch
        self._versions: Versions | None = None
        if checkpoint is not None and monitor.remembers:
            self._versions = Versions(Place.of(checkpoint).below("unskew", "monitors", str(worker)))
            found = self._versions.newest(batch)
            if found is not None:
                try:
                    monitor.load(found[1])
                except ValueError as error:  # another version's, or of another W
                    log.warning("worker %d can't read its monitor's state (%s): it starts cold", worker, error)

    def observe(self, keys: Keys, costs: NDArray[np.float64]) -> None:
        """Note n tuples that the worker has executed, with their costs (float64[n], ms)."""
        self._monitor.observe(keys, costs)

    def close(self) -> Mapping[str, Value] | None:
        """The report of the batch, when what the next one must know is written."""
        report = self._monitor.report()
        if self._versions is not None:
            self._versions.write(self._batch + 1, self._monitor.save())
        return report


def told_by(keys: Keys, told: pa.Table) -> NDArray[np.float64]:
    """What results with a ``cost`` say that each tuple cost: its key's costs, divided among the key's tuples."""
    said = encode(told.column("key"))
    costs = told.column("cost").to_numpy().astype(np.float64)
    hashes, place = np.unique(np.concatenate([keys.hashes, said.hashes]), return_inverse=True)
    at, of = place[: len(keys.hashes)][keys.codes], place[len(keys.hashes) :][said.codes]
    tuples = np.bincount(at, minlength=len(hashes))
    return np.bincount(of, costs, len(hashes))[at] / tuples[at]
