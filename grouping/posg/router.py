"""POSG: proactive online scheduling by estimated execution times."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import integer, number
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.posg.controller import PosgController
from unskew.grouping.posg.monitor import PosgMonitor
from unskew.grouping.posg.scheduler import (
    EPOCH,
    ROUND_ROBIN,
    RUN,
    SEND_ALL,
    STATE,
    STATES,
    TURN,
    WAIT_ALL,
    Scheduler,
    receive_matrices,
    submit_all,
    synchronise,
)
from unskew.grouping.posg.sketch import cells, shape
from unskew.grouping.state import Value


class Posg(Grouping):
    """Send each tuple to the worker with the least estimated work, the estimates learned from the workers.

    Each worker sketches what its tuples cost (a pair of Count-Min sketches, ``PosgMonitor``) and hands the sketch over
    when it is stable. With a sketch from every worker the router estimates each tuple's cost beforehand, adds it to the
    chosen worker's account Ĉ, and chooses the least account. When a worker hands over a new sketch, the accounts are
    compared with what the workers really spent, and corrected.

    Guarantees
    ----------
    * Without feedback, and until every worker has sent a sketch: round robin, so loads differ by at most one tuple.
    * An item's frequency in a sketch of m tuples is never underestimated, and overestimated by ε(m − f) or more with
      probability at most δ; its cost is estimated between the least and the greatest cost of any item.
    * If the estimates were exact: the bound of FULL_KNOWLEDGE.
    * A key may be on every worker: made for stateless work.

    Time O(log 1/δ + log W) a tuple (the paper: + W). Memory: 16 · W · r · c bytes for the workers' sketches (W = 100:
    350 kB), shared by all routers of a process.

    Parameters
    ----------
    epsilon, delta : float, default 0.05, 0.1
        ε > 0 and 0 < δ < 1, the sketches' precision: e/ε columns and log2 1/δ rows. The authors' values; a tenth of ε
        brings them a 30 % better speed-up.
    window : int, default 1024
        N ≥ 1, tuples of a worker between two looks at its sketch's stability; N ≫ W. The authors' value.
    tolerance : float, default 0.05
        μ ≥ 0, the relative change between two looks up to which a sketch is stable. The authors' value.
    settle : "clock" or "work", default "clock"
        What an account is corrected to. "clock": when the worker will have finished what it has, as the authors'
        prototype (github.com/rivetti/osg_storm) does. "work": all that the worker has spent since the start, as the
        paper defines C. A worker that once got little work and idled is then made to catch up, though no queue is left
        to level; with workers that idle at times this is slower than round robin (mean speed-up 0.83 at 102 %
        provisioning, where "clock" has 1.15).

    Notes
    -----
    The paper has one scheduler, whose requests travel with tuples (``posg.timeline`` does exactly that). Here reports
    come by intervals that end alike for sources and workers: the end of an interval is the request to
    all workers at once. With S sources each has an account of its own, and the correction is divided between them in
    proportion to the work that they sent. An item that a worker has never seen (F = 0) costs that worker's mean.

    References
    ----------
    Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems*,
    section III.

    Examples
    --------
    Without feedback it is a round robin:

    >>> router = Posg(3)
    >>> router.route(["a"] * 4).tolist(), router.internals()["state"]
    ([0, 1, 2, 0], 'ROUND_ROBIN')

    """

    name = "POSG"
    short = "posg"
    state_fields = ("control", "known", "frequencies", "works", "means", "estimated", "source")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        epsilon: float = 0.05,
        delta: float = 0.1,
        window: int = 1024,
        tolerance: float = 0.05,
        settle: str = "clock",
    ) -> None:
        super().__init__(workers, seed=seed)
        self.rows, self.columns = shape(epsilon, delta)
        self.window = integer("window", window, 1)
        self.tolerance = number("tolerance", tolerance, 0)
        if settle not in ("work", "clock"):
            raise ValueError(f"settle is {settle!r}; valid: 'work', 'clock'")
        self.settle = settle
        k = self.workers
        self.control = np.array([ROUND_ROBIN, 0, 0])
        self.known = np.zeros(k, np.bool_)
        self.frequencies = np.zeros((k, self.rows, self.columns), np.int64)
        self.works = np.zeros((k, self.rows, self.columns))
        self.means = np.zeros(k)
        self.estimated = np.zeros(k)
        self.source = 0

    def at_source(self, source: int) -> Self:
        self.source = source
        self.control[TURN] = source % self.workers
        return self

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return submit_all(self._scheduler(), keys.codes, cells(keys, self.seed, self.rows, self.columns))

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Take up a ``PosgController``'s plan: first the corrections of the accounts, then new sketches."""
        if missed:
            self._catch_up(values)
            return
        weights = values["weights"]
        # A reply to an earlier epoch is void: the account it is about has been corrected since.
        if self._waiting and values["epoch"] == self.control[EPOCH] and self.source < len(weights):
            synchronise(self._scheduler(), values["deltas"] * weights[self.source])
        if len(values["senders"]):
            self.frequencies, self.works, self.means = values["frequencies"], values["works"], values["means"]
            for worker in values["senders"]:
                receive_matrices(self._scheduler(), int(worker))

    def _catch_up(self, values: Mapping[str, Any]) -> None:
        """Be where the routers are that have missed nothing; the account is what the controller takes it for."""
        self.frequencies, self.works, self.means = values["frequencies"], values["works"], values["means"]
        self.known = values["known"].copy()
        self.control[EPOCH] = values["newest"]
        if self.known.all():
            settled = not len(values["senders"]) and values["epoch"] == values["newest"]
            self.control[STATE], self.control[TURN] = (RUN, self.workers) if settled else (SEND_ALL, 0)
        if self.source < len(values["estimates"]):
            self.estimated = values["estimates"][self.source].copy()

    def report(self) -> Mapping[str, Value]:
        """Say what is estimated to have been sent to each worker, and the epoch whose replies are awaited, if any."""
        return {"estimated": self.estimated.copy(), "epoch": int(self.control[EPOCH]) if self._waiting else -1}

    @property
    def _waiting(self) -> bool:
        return int(self.control[STATE]) in (SEND_ALL, WAIT_ALL)

    def monitor(self) -> PosgMonitor:
        """A new worker's sketches, with this router's hash functions."""
        return PosgMonitor(self.rows, self.columns, self.window, self.tolerance, self.seed)

    def controller(self) -> PosgController:
        """The one that collects sketches and settles accounts."""
        return PosgController(self._identity(), self.workers, self.rows, self.columns, self.settle)

    def internals(self) -> Mapping[str, Any]:
        """Show the state of the machine, its epoch, and from how many workers there are sketches."""
        return {
            "state": STATES[self.control[STATE]],
            "epoch": int(self.control[EPOCH]),
            "sketches": int(self.known.sum()),
        }

    def _scheduler(self) -> Scheduler:
        heap = np.empty(self.workers, np.int32)
        return Scheduler(self.control, self.known, self.frequencies, self.works, self.means, self.estimated, heap)

    def _identity(self) -> str:
        sketch = f"rows={self.rows} columns={self.columns}"
        return f"{super()._identity()} {sketch} window={self.window} tolerance={self.tolerance} {self.settle}"
