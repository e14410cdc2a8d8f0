"""POSG between workers and sources: collect the sketches, settle the accounts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unskew.grouping.feedback import Controller
from unskew.grouping.posg.scheduler import mean_cost
from unskew.grouping.state import Value


class PosgController(Controller):
    """Passes new sketches on to the sources and, when they wait for it, what the workers really spent.

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
        #: Of the routers' newest synchronisation.
        self.epoch = 0
        self.cumulated = np.zeros(workers)
        self.estimates = np.zeros((0, workers))

    def _plan(
        self,
        reports: Mapping[int, Mapping[str, Any]],
        queues: Sequence[float] | None,
        sources: Mapping[int, Mapping[str, Any]] | None,
    ) -> Mapping[str, Value] | None:
        """Plan: who sent sketches, all sketches with their mean costs, and what to synchronise with, if any waits.

        ``deltas`` is Δ = C − Ĉ of each worker, Ĉ summed over the sources and about the same tuples; ``weights`` how
        the sources divide it, by the work that they sent; ``epoch`` the synchronisation that it belongs to, or −1.
        For a router that has missed plans: ``known``, who has ever sent sketches, ``newest``, the epoch that this plan
        leads to, and ``estimates``, each source's account after it, float64[S, W].
        C is the work that the worker has done, or with ``settle="clock"`` what is waiting for it: ``queues``, its
        backlog, times its mean cost; nothing without ``queues``.
        """
        senders = sorted(worker for worker, report in reports.items() if "frequencies" in report)
        for worker, report in reports.items():
            self.cumulated[worker] = report["cumulated"]
        self._note(sources or {})
        epoch = max((report["epoch"] for report in (sources or {}).values()), default=-1)
        if not senders and epoch < 0:
            return None
        if senders:
            # Routers hold the arrays of the last plan: they are never written to again.
            self.frequencies, self.works, self.means = self.frequencies.copy(), self.works.copy(), self.means.copy()
        for worker in senders:
            self.frequencies[worker] = reports[worker]["frequencies"]
            self.works[worker] = reports[worker]["works"]
            self.means[worker] = mean_cost(self.frequencies[worker], self.works[worker])
            # As each router does, see ``receive_matrices``.
            self.known[worker] = True
            self.epoch += int(self.known.all())
        sent = self.estimates.sum(axis=1)
        weights = sent / sent.sum() if sent.sum() > 0 else np.full(len(sent), 1 / max(1, len(sent)))
        waiting = self.means * (0.0 if queues is None else np.asarray(queues))
        deltas = (waiting if self.settle == "clock" else self.cumulated) - self.estimates.sum(axis=0)
        if epoch >= 0:
            # What a source's account becomes, for one that has nothing to report next time.
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

    def _note(self, sources: Mapping[int, Mapping[str, Any]]) -> None:
        """Keep what each source estimates, for an interval in which it has nothing to route."""
        missing = max(sources, default=-1) + 1 - len(self.estimates)
        if missing > 0:
            self.estimates = np.vstack([self.estimates, np.zeros((missing, self.estimates.shape[1]))])
        for source, report in sources.items():
            self.estimates[source] = report["estimated"]
