"""The router: a grouping inside a Spark task. Its state is read at the batch's start and written at its end.

Routing is a function of the state at the start of the batch, the batch's rows, and the batch's time. Spark runs tasks
again. Suppose that some workers have fetched their packets, and a re-run routes otherwise: tuples would then be lost or
doubled. So routing depends on nothing else. Batch ``b`` reads a version of the state that batch ``b`` never writes (see
``unskew.apps.checkpoint.versions``).
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.checkpoint.visibility import require_visible
from unskew.apps.metrics.task_reports import Reports, RouterReport
from unskew.apps.router.planner_protocol import PlannerAddress
from unskew.apps.router.planner_session import PlannerSession
from unskew.apps.router.spill_buffer import SpillBuffer
from unskew.errors import UsageError
from unskew.grouping import GROUPINGS, Grouping, add_sources, create, create_standalone, encode_keys, get_parameters
from unskew.grouping.arguments import check_integer, check_weights
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import PlanState
from unskew.grouping.keys import KeyArray
from unskew.grouping.planned.interface import BatchGrouping
from unskew.grouping.registry import CAPPED, COSTED, WEIGHTED
from unskew.grouping.simulated_cost import FREE, Cost
from unskew.spark.micro_batches import get_batch_number, get_partition, get_query_id

log = logging.getLogger(__name__)

#: A piece of a source's part of a batch: its tuples (None in all pieces, if the caller needs none), their keys [n],
#: their times (int64[n], ms), and their costs (float64[n]). What the grouping doesn't use is None in all pieces.
Part: TypeAlias = tuple[pa.RecordBatch | None, pa.Array, "NDArray[np.int64] | None", "NDArray[np.float64] | None"]


@dataclass(frozen=True)
class Routing:
    """The routing of all sources. Spark sends it to the tasks."""

    grouping: str  #: The grouping's name.
    workers: int  #: W ≥ 1.
    #: The query's checkpoint location, beside which the routers' states are kept. Without it, or in a batch query,
    #: every batch starts with new routers.
    checkpoint: Where | None = None
    options: dict[str, Any] = field(default_factory=dict)  #: The scheme's own parameters.
    seed: int = 0  #: The scheme's seed.
    reports: Reports | None = None  #: Where the tasks send their reports.
    #: Whether the tasks belong to a stream's batches. With a checkpoint, each task then needs its batch's number.
    streaming: bool = False
    #: The tuples' cost, for schemes that need it before a tuple is executed, where the tuples don't bring it.
    cost: Cost = FREE
    #: Gives the plan state at a batch's start, with the plan that the routers follow. None: there are no plans.
    plans: Callable[[int], PlanState | None] | None = None
    #: A name for these routers, if the same query has others. Each name has its own states in the checkpoint.
    name: str = ""
    #: The query's planner, if the grouping plans a stream's batches before they are routed. Without it, each source
    #: plans its own part.
    planner: PlannerAddress | None = None

    def check(self, *, costs: bool = False, feedback: bool = False) -> None:
        """Raise ``UsageError`` for what would fail in every task of a query.

        ``costs`` says that tuples bring their cost, and ``feedback`` that the query's workers report to a driver.
        """
        create_standalone(self.grouping, self.workers, seed=self.seed, costs=costs, feedback=feedback, **self.options)
        if not re.fullmatch(r"[\w-]{0,60}", self.name):  # it is part of a file's name, with at most 4 bytes a letter
            raise UsageError(f"name is {self.name!r}; valid: up to 60 letters, digits, _ and -")

    def router(self, workers: int | None = None) -> Grouping:
        """A new router of no source. ``workers`` replaces W."""
        return create(self.grouping, workers or self.workers, seed=self.seed, **self.options)

    def plan_state(self, batch: int) -> PlanState:
        """The plans by which a batch is routed."""
        found = self.plans(batch) if self.plans is not None else None
        return found or PlanState(self.workers)

    def require_visible(self) -> None:
        """Check that the calling task sees the query's checkpoint (``unskew.apps.checkpoint.visibility``)."""
        if self.checkpoint is not None:
            require_visible(self.checkpoint)

    def open(self, source: int) -> "SourceRouter":
        """The router of one source for the batch that the calling task belongs to.

        Raises
        ------
        RuntimeError
            The task doesn't know the number of its stream's batch. Without it there is no state, and a re-run would
            route otherwise.
        UsageError
            The task doesn't see the query's checkpoint, or the source is no integer.

        """
        batch = get_batch_number()
        if self.streaming and self.checkpoint is not None and batch is None:
            raise RuntimeError(
                "a stream's router is run without the number of its batch; in foreachBatch, give a thread of your own "
                "the batch's properties with pyspark.util.inheritable_thread_target(df.sparkSession)"
            )
        self.require_visible()
        return SourceRouter(self, source, batch)


def check_scheme_options(
    grouping: str,
    options: Mapping[str, Any],
    *,
    cost: bool = False,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    sources: int | None = None,
) -> dict[str, Any]:
    """The scheme's own parameters, from those of a user's function, which names some of them itself.

    ``cost`` says that the tuples bring their cost. If the grouping, in capitals, is unknown, ``Routing.check`` says so.

    Raises ``UsageError`` if the grouping can't use costs, weights or most_workers, or a value is invalid.

    >>> check_scheme_options("KEY", {}, sources=4)
    {}
    >>> check_scheme_options("BOUNDED_LOAD", {"slack": 0.1}, cost=True, sources=4)
    {'slack': 0.1, 'balance': 'cost', 'sources': 4}
    """
    found = dict(options)
    if grouping not in GROUPINGS:
        return found
    _require_cost(grouping, found, cost=cost)
    if cost and "balance" in get_parameters(grouping):
        found["balance"] = "cost"
    if weights is not None:
        if grouping not in WEIGHTED:
            raise UsageError(f"{grouping} can't use weights; valid: {', '.join(WEIGHTED)}")
        found["weights"] = check_weights(weights)
    if most_workers is not None:
        if grouping not in CAPPED:
            raise UsageError(f"{grouping} can't use most_workers; valid: {', '.join(CAPPED)}")
        found["most_workers"] = check_integer("most_workers", most_workers, 1)
    if sources is not None:
        found |= add_sources(grouping, check_integer("sources", sources, 1), {})
    return found


def _require_cost(name: str, options: Mapping[str, Any], *, cost: bool) -> None:
    """Raise ``UsageError`` if a grouping can't use the tuples' cost, or lacks it."""
    if cost and name not in COSTED:
        raise UsageError(f"{name} can't use a cost; valid: {', '.join(COSTED)}")
    if cost and options.get("balance", "cost") != "cost":
        raise UsageError(f"balance is {options['balance']!r}, but a cost is given; valid: 'cost', or no balance")
    if options.get("balance") == "cost" and not cost:
        raise UsageError(f"{name} with balance cost needs each tuple's cost: give its column as cost=")


class SourceRouter:
    """One source's router in one batch. Call ``close`` when the source's tuples of the batch are routed."""

    def __init__(self, routing: Routing, source: int, batch: int | None) -> None:
        if not isinstance(source, int):  # it names the folder of a state
            raise UsageError(f"source is {source!r}; valid: an integer")
        self._routing = routing
        self._source = source
        self._batch = batch
        self._plans = PlanState(routing.workers) if batch is None else routing.plan_state(batch)
        self._grouping = self._new()
        self._versions: Versions | None = None
        self._session: PlannerSession | None = None
        self._tuples = 0
        self._seconds = 0.0
        self._waited = 0.0
        if routing.planner is not None and batch is not None:
            # Tasks of one source are told apart: several topics have a partition 0. Sources have no state of their own.
            self._session = PlannerSession(routing.planner, get_query_id(), batch, get_partition())
            if self._session.replicas is not None:
                self._grouping.load(self._session.replicas)
        elif routing.checkpoint is not None and batch is not None and self._grouping.state_fields:
            folder = ("routers", routing.name) if routing.name else ("sources",)
            self._versions = Versions(Location.of(routing.checkpoint).below("unskew", *folder, str(source)))
            self._restore(self._versions, batch)
        if self._plans.active is not None and self._session is None:
            self._adopt(self._plans.active)

    @property
    def workers(self) -> int:
        """W in this batch."""
        return self._grouping.workers

    def _adopt(self, plan: Plan) -> None:
        """Adopt the plan that is active in this batch."""
        if not plan.values and plan.number > self._grouping.plan:
            self._grouping = self._new()  # after a rescaling routers begin anew, and the restored state is older
        try:
            self._grouping.adopt(plan)
        except ValueError as error:
            # The plan is of other options, or of another version of this program. (A run with states that were moved by
            # such a plan doesn't get here: see ``require_known_plans`` in ``unskew.apps.driver.plans.feedback_loop``.)
            log.warning("source %d goes without a plan until there is a new one: %s", self._source, error)

    def _restore(self, versions: Versions, batch: int) -> None:
        found = versions.newest(batch)
        # A router may begin without its state: counts stay exact, and the scheme learns anew.
        if found is None:
            if batch > 0:
                log.warning("source %d has no router state for batch %d: it starts cold", self._source, batch)
            return
        try:
            self._grouping.load(found[1])
        except Exception as error:  # noqa: BLE001  another version may raise any kind
            log.warning("source %d can't read its router state (%s): it starts cold", self._source, error)
            self._grouping = self._new()

    def _new(self) -> Grouping:
        return self._routing.router(self._plans.workers).at_source(self._source)

    def route(
        self, keys: KeyArray, times: ArrayLike | None, costs: NDArray[np.float64] | None = None
    ) -> NDArray[np.int32]:
        """Route n tuples as ``Grouping.route`` does. The times are int64, ms. Costs: default as the routing has it."""
        started, waited = time.perf_counter(), self._waited
        if self._grouping.uses_cost or self._session is not None:
            keys = encode_keys(keys)
        if self._grouping.uses_cost and costs is None:
            costs = self._routing.cost.of(keys)
        if self._session is not None:
            workers = self._route_by_quotas(self._session, keys, costs)
        else:
            workers = self._grouping.route(keys, times, costs)
        self._seconds += time.perf_counter() - started - (self._waited - waited)
        self._tuples += len(workers)
        return workers

    def _route_by_quotas(self, session: PlannerSession, keys: KeyArray, costs: ArrayLike | None) -> NDArray[np.int32]:
        """Route the source's part of the batch by the query's plan."""
        assert isinstance(self._grouping, BatchGrouping)
        quotas = session.quotas
        if quotas is None:
            counts = self._grouping.count(keys, costs)
            started = time.perf_counter()
            quotas = session.request_quotas(counts)
            self._waited += time.perf_counter() - started
        return self._grouping.follow(keys, quotas, costs)

    def through(self, parts: Iterable[Part]) -> Iterator[tuple[Any, NDArray[np.int32]]]:
        """Route the source's part of the batch piece by piece. Yields each piece's own value, and its workers.

        If a grouping looks at whole batches, all pieces are held until the last has come: keys, times and costs in
        memory, and what record batches the pieces have in memory or a file (``SpillBuffer``). (The pieces' sizes depend
        on Spark's settings, and may differ when the batch runs again. The part doesn't.)
        """
        if not self._grouping.batched:
            for own, keys, times, costs in parts:
                yield own, self.route(keys, times, costs)
            return
        all_keys: list[pa.Array] = []
        all_times: list[NDArray[np.int64]] = []
        all_costs: list[NDArray[np.float64]] = []
        with SpillBuffer() as held:
            for own, keys, times, costs in parts:
                all_keys.append(keys)
                if times is not None:
                    all_times.append(times)
                if costs is not None:
                    all_costs.append(costs)
                if own is not None:
                    held.add(own)
            if not all_keys:
                return
            times = np.concatenate(all_times) if all_times else None
            costs = np.concatenate(all_costs) if all_costs else None
            workers = self.route(pa.chunked_array(all_keys), times, costs)
            ends = np.cumsum([len(keys) for keys in all_keys])
            for own, routes in zip_longest(held, np.split(workers, ends[:-1])):
                yield own, routes

    def close(self, rejected: int = 0) -> None:
        """Write the state for the next batch, and send the report. ``rejected`` counts messages without a key."""
        if self._session is not None:
            self._session.close()
        grouping = self._grouping.report()
        if self._versions is not None and self._batch is not None:
            self._versions.write(self._batch + 1, self._grouping.save())
        if self._routing.reports is not None and self._batch is not None:
            internals = dict(self._grouping.internals())
            report = RouterReport(self._tuples, self._seconds, rejected, internals, grouping, self._waited)
            self._routing.reports.send(self._batch, self._source, report)
