"""Schemes with feedback: workers report, a controller plans, the routers adopt.

Router (at each source), monitor (at each worker) and controller (one) exchange plain named values, so the same objects
run in the simulator and in a topology: there reports travel with the tasks' results and a plan is a file that is
written before the batch that it holds for.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from grouping.interface import Costs
from grouping.keys import Keys
from grouping.state import Value


class Monitor(ABC):
    """What one worker observes of its tuples."""

    @abstractmethod
    def observe(self, keys: Keys, costs: Costs) -> None:
        """Note n tuples that the worker has executed, with their costs (float64[n], ms) where they're measured."""

    @abstractmethod
    def report(self) -> Mapping[str, Value] | None:
        """What the controller should know of the tuples since the last report; None if there's nothing to say."""


class Controller(ABC):
    """Reports in, plan out: a pure function of its own state and what it is told.

    ``state_fields`` / ``save`` / ``load`` are as a router's, so that a restarted driver plans on.
    """

    @abstractmethod
    def plan(
        self, reports: Mapping[int, Mapping[str, Value]], queues: Sequence[float] | None = None
    ) -> Mapping[str, Value] | None:
        """Decide from the workers' reports of one interval.

        Parameters
        ----------
        reports : worker → report
            Workers that had nothing to say are left out.
        queues : float[W], optional
            Tuples waiting at each worker, for schemes that watch queues.

        Returns
        -------
        A plan for every router's ``adopt``; None: go on as you do.

        """
