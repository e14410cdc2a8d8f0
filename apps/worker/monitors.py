"""The workers' part of the feedback loop: a worker observes its tuples of a batch, and reports at the batch's end."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.checkpoint.location import Location
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.router.router import Routing
from unskew.grouping.feedback import Monitor
from unskew.grouping.keys import KeyArray, Keys, encode_keys
from unskew.grouping.state import Value

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerMonitors:
    """The monitors of all workers, which the routing's grouping wants. Spark sends it to the tasks.

    If a monitor keeps a state from batch to batch, the state is versioned as the routers' states are. It depends on
    measured times, so two attempts of a task may write different bytes. Each version is written as a whole, and no
    count depends on it.
    """

    routing: Routing

    def open(self, worker: int, batch: int) -> Monitor | None:
        """A worker's monitor for a batch. None: the grouping doesn't observe its workers."""
        monitor = self.routing.router().monitor()
        versions = self._versions(monitor, worker)
        found = versions.newest(batch) if versions is not None else None
        if monitor is not None and found is not None:
            try:
                monitor.load(found[1])
            except ValueError as error:  # of another version of this program, or of another W
                log.warning("worker %d can't read its monitor's state (%s): it starts cold", worker, error)
        return monitor

    def close(self, monitor: Monitor, worker: int, batch: int) -> Mapping[str, Value] | None:
        """Write a monitor's state for the next batch, and return the report of this one."""
        report = monitor.report()
        versions = self._versions(monitor, worker)
        if versions is not None:
            versions.write(batch + 1, monitor.save())
        return report

    def report(self, worker: int, batch: int, arrived: KeyArray, seconds: float) -> Mapping[str, Value] | None:
        """The report of a worker that has executed all its tuples of a batch at once, in ``seconds``.

        ``arrived`` has the key of each tuple.
        """
        monitor = self.open(worker, batch)
        if monitor is None:
            return None
        if len(arrived):
            keys = encode_keys(arrived)
            costs = self.routing.cost.of(keys)
            monitor.observe(keys, costs + max(0.0, 1000 * seconds - float(costs.sum())) / len(keys))
        return self.close(monitor, worker, batch)

    def _versions(self, monitor: Monitor | None, worker: int) -> Versions | None:
        """The versions of a monitor's state. None: it keeps none from batch to batch."""
        checkpoint = self.routing.checkpoint
        if monitor is None or not monitor.remembers or checkpoint is None:
            return None
        return Versions(Location.of(checkpoint).below("unskew", "monitors", str(worker)))


def share_costs(keys: Keys, results: pa.Table) -> NDArray[np.float64]:
    """Each tuple's cost according to a work's results, float64[n], ms: its key's cost, divided by the key's tuples."""
    given = encode_keys(results.column("key"))
    costs = results.column("cost").to_numpy().astype(np.float64)
    hashes, index = np.unique(np.concatenate([keys.hashes, given.hashes]), return_inverse=True)
    at, of = index[: len(keys.hashes)][keys.codes], index[len(keys.hashes) :][given.codes]
    tuples = np.bincount(at, minlength=len(hashes))
    return np.bincount(of, costs, len(hashes))[at] / tuples[at]
