"""Schemes with feedback: sources and workers report, a controller plans, and routers adopt its plans.

There is a router at each source, a monitor at each worker, and one controller. They exchange plain named values, so the
same objects run in the simulator and in a topology. In a topology, reports travel with the tasks' results, and a plan
is a file written before its first batch. A router creates its monitor and controller (``Grouping.monitor``,
``Grouping.controller``). All three have ``save`` and ``load``.

A plan has a number, is for routers of one identity, and is complete: after adopting it, a router that has missed plans
is as good as the others.

An interval is a batch of the topology, or a slice of the simulator's stream. All reports of an interval are about the
same tuples: a router reports when it has routed them, and a monitor when its worker has executed its share.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.keys import Keys
from unskew.grouping.state import Stateful, Value, pack_values, unpack_values

#: The costs of n tuples (ms), if measured.
Costs: TypeAlias = "NDArray[np.float64] | None"
#: Number of worker or source → report.
Reports: TypeAlias = Mapping[int, Mapping[str, Any]]
#: Each worker's backlog in tuples, float[W], if known.
Queues: TypeAlias = "Sequence[float] | None"


_PLAN = "plan"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A controller's plan for all routers.

    Two plans are equal if ``save`` gives the same bytes.

    """

    number: int  #: From 1 on. A router without a plan is at 0.
    #: The number of the plan that this one changes. Values about changes, such as moved keys, their former workers, and
    #: corrections, are true only for a router whose last plan is ``base``.
    base: int
    identity: str  #: The identity of the plan's routers: scheme, W, seed and parameters.
    #: name → value: The scheme's values, complete, so that a router that has missed plans catches up.
    values: Mapping[str, Value]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Plan) and self.save() == other.save())

    def __hash__(self) -> int:
        return hash((self.number, self.base, self.identity))

    def save(self) -> bytes:
        """Serialise the plan. Equal plans give equal bytes."""
        return pack_values(
            _PLAN,
            {
                "number": self.number,
                "base": self.base,
                "identity": self.identity,
                "values": pack_values(self.identity, self.values),
            },
        )

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse the bytes of ``save``. Raises ``ValueError`` if the bytes aren't a saved plan."""
        saved: dict[str, Any] = unpack_values(_PLAN, data)
        identity = saved["identity"]
        return cls(saved["number"], saved["base"], identity, unpack_values(identity, saved["values"]))


class Monitor(Stateful):
    """Observes one worker's tuples."""

    #: Whether the monitor's state is kept between intervals, because it has more than the next report.
    remembers: ClassVar[bool] = False

    @abstractmethod
    def observe(self, keys: Keys, costs: Costs) -> None:
        """Observe n tuples that the worker has executed, and their costs (float64[n], ms) if measured."""

    @abstractmethod
    def report(self) -> Mapping[str, Value] | None:
        """The report to the controller about the tuples since the last report, if any."""


class Controller(Stateful):
    """Makes plans from reports. A plan depends only on the controller's state and the reports."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        #: The number of the newest plan made.
        self.number = 0

    def plan(self, reports: Reports, queues: Queues = None, sources: Reports | None = None) -> Plan | None:
        """Make a plan from the reports of one interval.

        Parameters
        ----------
        reports : worker → report
            The monitors' reports, of workers with something to report.
        queues : float[W], optional
            Each worker's backlog in tuples, for schemes that use queues: in the simulator the waiting tuples at the
            interval's end. A micro-batch leaves none: see ``unskew.grouping.feedback_loop.estimate_backlog``.
        sources : source → report, optional
            The routers' reports (``Grouping.report``), if the scheme has them.

        Returns
        -------
        Plan or None
            A plan for every router, which changes the previous one, or None if nothing changes. If it moves keys
            between workers, its values ``moved`` and ``migration`` are the number of keys and the size of their state.

        """
        values = self._plan(reports, queues, sources)
        if values is None:
            return None
        self.number += 1
        return Plan(self.number, self.number - 1, self.identity, values)

    @abstractmethod
    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        """The scheme's decision: the values of a plan, see ``plan``."""

    def _state(self) -> dict[str, Value]:
        return {"number": self.number, **super()._state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.number = state["number"]
        super()._restore(state)

    def _identity(self) -> str:
        return f"{self.identity} controller"
