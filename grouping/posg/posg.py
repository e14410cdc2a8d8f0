"""POSG: proactive online scheduling by estimated execution times: the router and its controller."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_choice, check_integer, check_number
from unskew.grouping.feedback import Controller, Queues, Reports
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.posg.instances import PosgMonitor
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
    mean_cost,
    receive_matrices,
    submit_all,
    synchronise_accounts,
)
from unskew.grouping.posg.sketch import find_cells, sketch_shape
from unskew.grouping.state import Value


class Posg(Grouping):
    """Send each tuple to the worker with the least estimated work. The estimates are learned from the workers.

    Each worker sketches its tuples' costs in a pair of Count-Min sketches (``PosgMonitor``), and reports the sketch
    when it is stable. Once the router has a sketch from every worker, it estimates each tuple's cost beforehand,
    chooses the worker with the least account Ĉ, and adds the estimate to that account. When a worker reports a new
    sketch, the accounts are compared with the workers' actual time, and corrected.

    Guarantees
    ----------
    * Without feedback, and until every worker has sent a sketch: round robin, so loads differ by at most one tuple.
    * A sketch of m tuples never underestimates an item's frequency f. It overestimates f by ε(m − f) or more with
      probability at most δ. The estimate of the item's cost is between the least and the greatest cost of any item.
    * If the estimates were exact, the bound of FULL_KNOWLEDGE would hold.
    * A key may be on every worker, because the scheme is made for stateless work.

    Time O(log 1/δ + log W) a tuple, where the paper has O(log 1/δ + W). Memory: 16 · W · r · c bytes for the workers'
    sketches, shared by all routers of a process. For W = 100 that is 350 kB.

    Parameters
    ----------
    epsilon, delta : float, default 0.05, 0.1
        The sketches' precision, with ε > 0 and 0 < δ < 1. A sketch has ⌈e/ε⌉ columns and ⌈log2 1/δ⌉ rows. The defaults
        are the authors' values. With a tenth of ε their speed-up is 30 % better.
    window : int, default 1024
        N ≥ 1, the number of a worker's tuples between two checks of its sketch's stability. N should be ≫ W. The
        authors' value.
    tolerance : float, default 0.05
        μ ≥ 0. A sketch is stable if it has changed by at most this share between two checks. The authors' value.
    settle : {"clock", "work"}, default "clock"
        The target of corrections. "clock": when the worker will have finished its work, as in the authors' prototype
        (github.com/rivetti/osg_storm). "work": the worker's total time since the start, as the paper defines C. A
        worker that once got little work and idled must then catch up, though there is no queue to level. If workers
        idle at times, "work" is slower than round robin. At 102 % provisioning its mean speed-up is 0.83, and that of
        "clock" is 1.15.

    Notes
    -----
    The paper has one scheduler, whose requests travel with tuples, as in ``evidence/papers/posg/timeline.py``. Here
    reports come by intervals that end alike for sources and workers. The end of an interval is the request to all
    workers at once. Each of S sources has an account. The correction is divided between them in proportion to the work
    that they sent. The estimate for an item that a worker has never seen (F = 0) is that worker's mean.

    References
    ----------
    Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems*,
    section III.

    Examples
    --------
    Without feedback the scheme is a round robin:

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
        self.rows, self.columns = sketch_shape(epsilon, delta)
        self.window = check_integer("window", window, 1)
        self.tolerance = check_number("tolerance", tolerance, 0)
        self.settle = check_choice("settle", settle, ("work", "clock"))
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
        return submit_all(self.scheduler(), keys.codes, find_cells(keys, self.seed, self.rows, self.columns))

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Adopt a ``PosgController``'s plan: first the accounts' corrections, then new sketches."""
        if missed:
            self._catch_up(values)
            return
        weights = values["weights"]
        # A reply to an earlier epoch is void, because the account has been corrected since.
        if self._waiting and values["epoch"] == self.control[EPOCH] and self.source < len(weights):
            synchronise_accounts(self.scheduler(), values["deltas"] * weights[self.source])
        if len(values["senders"]):
            self.frequencies, self.works, self.means = values["frequencies"], values["works"], values["means"]
            for worker in values["senders"]:
                receive_matrices(self.scheduler(), int(worker))

    def _catch_up(self, values: Mapping[str, Any]) -> None:
        """Take the state of routers that have missed nothing, with the controller's account."""
        self.frequencies, self.works, self.means = values["frequencies"], values["works"], values["means"]
        self.known = values["known"].copy()
        self.control[EPOCH] = values["newest"]
        if self.known.all():
            settled = not len(values["senders"]) and values["epoch"] == values["newest"]
            self.control[STATE], self.control[TURN] = (RUN, self.workers) if settled else (SEND_ALL, 0)
        if self.source < len(values["estimates"]):
            self.estimated = values["estimates"][self.source].copy()

    def report(self) -> Mapping[str, Value]:
        """Report the estimated work sent to each worker, and the epoch that awaits replies, or −1."""
        return {"estimated": self.estimated.copy(), "epoch": int(self.control[EPOCH]) if self._waiting else -1}

    @property
    def _waiting(self) -> bool:
        return int(self.control[STATE]) in (SEND_ALL, WAIT_ALL)

    def monitor(self) -> PosgMonitor:
        """A new worker's sketches, with the router's hash functions."""
        return PosgMonitor(self.rows, self.columns, self.window, self.tolerance, self.seed)

    def controller(self) -> "PosgController":
        """The controller that collects the sketches and corrects the accounts."""
        return PosgController(self._identity(), self.workers, self.rows, self.columns, self.settle)

    def internals(self) -> Mapping[str, Any]:
        """Show the state machine's state and epoch, and how many workers have sent sketches."""
        return {
            "state": STATES[self.control[STATE]],
            "epoch": int(self.control[EPOCH]),
            "sketches": int(self.known.sum()),
        }

    def scheduler(self) -> Scheduler:
        """The router's state, for the kernels."""
        heap = np.empty(self.workers, np.int32)
        return Scheduler(self.control, self.known, self.frequencies, self.works, self.means, self.estimated, heap)

    def _identity(self) -> str:
        sketch = f"rows={self.rows} columns={self.columns}"
        return f"{super()._identity()} {sketch} window={self.window} tolerance={self.tolerance} {self.settle}"


class PosgController(Controller):
    """Passes new sketches to the sources and, if they wait for it, the workers' actual time.

    Memory: the newest sketches of W workers, and W numbers a source.
    """

    state_fields = ("frequencies", "works", "means", "known", "epoch", "cumulated", "estimates")

    def __init__(self, identity: str, workers: int, rows: int, columns: int, settle: str) -> None:
        super().__init__(identity)
        self.settle = settle
        self.frequencies = np.zeros((workers, rows, columns), np.int64)
        self.works = np.zeros((workers, rows, columns))
        self.means = np.zeros(workers)
        self.known = np.zeros(workers, np.bool_)
        #: The epoch of the routers' newest synchronisation.
        self.epoch = 0
        self.cumulated = np.zeros(workers)
        self.estimates = np.zeros((0, workers))

    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        """Plan: which workers sent sketches, all sketches with mean costs, and the accounts' corrections.

        ``deltas`` is Δ = C − Ĉ of each worker, Ĉ summed over the sources and about the same tuples; ``weights`` how
        the sources divide it, by the work that they sent; ``epoch`` is the synchronisation that it belongs to, or −1
        if no source waits for one.
        For a router that has missed plans: ``known``, which workers have ever sent sketches; ``newest``, the epoch that
        this plan leads to; and ``estimates``, each source's account after this plan, float64[S, W].
        C is the work that the worker has done, or with ``settle="clock"`` the work that waits for it: ``queues``, its
        backlog, times its mean cost; 0 without ``queues``.
        """
        senders = sorted(worker for worker, report in reports.items() if "frequencies" in report)
        for worker, report in reports.items():
            self.cumulated[worker] = report["cumulated"]
        self._note(sources or {})
        epoch = max((report["epoch"] for report in (sources or {}).values()), default=-1)
        if not senders and epoch < 0:
            return None
        if senders:
            # Routers share the arrays of the last plan, so these are never written to again.
            self.frequencies, self.works, self.means = self.frequencies.copy(), self.works.copy(), self.means.copy()
        for worker in senders:
            self.frequencies[worker] = reports[worker]["frequencies"]
            self.works[worker] = reports[worker]["works"]
            self.means[worker] = mean_cost(self.frequencies[worker], self.works[worker])
            # As in each router, see ``receive_matrices``.
            self.known[worker] = True
            self.epoch += int(self.known.all())
        sent = self.estimates.sum(axis=1)
        weights = sent / sent.sum() if sent.sum() > 0 else np.full(len(sent), 1 / max(1, len(sent)))
        waiting = self.means * (0.0 if queues is None else np.asarray(queues))
        deltas = (waiting if self.settle == "clock" else self.cumulated) - self.estimates.sum(axis=0)
        if epoch >= 0:
            # Each source's account after this plan, needed if the source has nothing to report next time.
            self.estimates = self.estimates + np.outer(weights, deltas)
        return {
            "senders": np.array(senders, np.int32),
            "frequencies": self.frequencies,
            "works": self.works,
            "means": self.means,
            "epoch": epoch,
            "deltas": deltas,
            "weights": weights,
            "known": self.known.copy(),
            "newest": self.epoch,
            "estimates": self.estimates.copy(),
        }

    def _note(self, sources: Reports) -> None:
        """Keep each source's account, for intervals in which it has nothing to route."""
        missing = max(sources, default=-1) + 1 - len(self.estimates)
        if missing > 0:
            self.estimates = np.vstack([self.estimates, np.zeros((missing, self.estimates.shape[1]))])
        for source, report in sources.items():
            self.estimates[source] = report["estimated"]
