"""The workers' part of the feedback loop: a worker observes its tuples of a batch, and reports at the batch's end."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.routing.router import Routing
from unskew.grouping.feedback import Monitor
from unskew.grouping.keys import Keys, encode
from unskew.grouping.state import Value

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Monitors:
    """The monitors of all workers. Spark sends it to the tasks.

    Parameters
    ----------
    routing : Routing
        The run's routing. Its grouping decides what is monitored.

    """

    routing: Routing

    def open(self, worker: int, batch: int) -> "WorkerMonitor | None":
        """A worker's monitor for a batch. None: the grouping doesn't observe its workers."""
        fresh = self.routing.router().monitor()
        return None if fresh is None else WorkerMonitor(fresh, self.routing.checkpoint, worker, batch)

    def report(self, worker: int, batch: int, tuples: pa.RecordBatch, seconds: float) -> Mapping[str, Value] | None:
        """The report of a worker that has executed all its tuples of a batch at once, in ``seconds``.

        ``tuples`` has the column ``key``.
        """
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

    If the monitor keeps a state from batch to batch, the state is versioned as the routers' states are. It depends on
    measured times, so two attempts of a task may write different bytes. Each version is written as a whole, and no
    count depends on it.
    """

    def __init__(self, monitor: Monitor, checkpoint: Where | None, worker: int, batch: int) -> None:
        self._monitor = monitor
        self._batch = batch
        self._versions: Versions | None = None
        if checkpoint is not None and monitor.remembers:
            self._versions = Versions(Location.of(checkpoint).below("unskew", "monitors", str(worker)))
            found = self._versions.newest(batch)
            if found is not None:
                try:
                    monitor.load(found[1])
                except ValueError as error:  # of another version of this program, or of another W
                    log.warning("worker %d can't read its monitor's state (%s): it starts cold", worker, error)

    def observe(self, keys: Keys, costs: NDArray[np.float64]) -> None:
        """Observe n tuples that the worker has executed, with their costs (float64[n], ms)."""
        self._monitor.observe(keys, costs)

    def close(self) -> Mapping[str, Value] | None:
        """Write the state for the next batch, and return the report of this one."""
        report = self._monitor.report()
        if self._versions is not None:
            self._versions.write(self._batch + 1, self._monitor.save())
        return report


def costs_by(keys: Keys, results: pa.Table) -> NDArray[np.float64]:
    """Each tuple's cost according to a work's results, float64[n], ms: its key's cost, divided by the key's tuples."""
    given = encode(results.column("key"))
    costs = results.column("cost").to_numpy().astype(np.float64)
    hashes, index = np.unique(np.concatenate([keys.hashes, given.hashes]), return_inverse=True)
    at, of = index[: len(keys.hashes)][keys.codes], index[len(keys.hashes) :][given.codes]
    tuples = np.bincount(at, minlength=len(hashes))
    return np.bincount(of, costs, len(hashes))[at] / tuples[at]
