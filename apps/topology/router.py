"""The router: a grouping inside a Spark task, its state read at the batch's start and written at its end.

Routing is a function of (state at the start of the batch, the batch's rows, the batch's time). Spark re-runs tasks, and
a re-run that answered differently after some workers had fetched their share would lose or double tuples. So nothing
else may enter, and the state that batch ``b`` reads is a version that batch ``b`` never writes (see
``unskew.apps.checkpoint.versions``).
"""

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame

from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.standing import Standing
from unskew.apps.topology.cost import FREE, Cost
from unskew.apps.topology.reports import Reports
from unskew.grouping import Grouping, create, encode, shared, standalone
from unskew.grouping.feedback import Plan

if TYPE_CHECKING:
    from unskew.apps.topology.settings import Settings

log = logging.getLogger(__name__)

_BATCH = "streaming.sql.batchId"  # the local property in which Spark tells a batch's jobs its number


@dataclass(frozen=True)
class Routing:
    """What every source's router has in common; travels to the tasks.

    Parameters
    ----------
    grouping : str
        A groupingType; one that needs feedback adopts the plans that are beside the checkpoint, if a driver writes any.
    workers : int
        W ≥ 1.
    checkpoint : str or Place, optional
        The query's checkpoint location: the routers' state is kept beside it. None, or a batch query: every batch
        starts cold.
    options : dict
        The scheme's own parameters.
    seed : int
        The scheme's seed.
    reports : Reports, optional
        Where tasks tell what they did.
    streaming : bool
        Whether the tasks belong to a stream's batches: if there is a checkpoint, they then must know which batch.
    cost : Cost
        What tuples cost, for schemes that must know it beforehand.
    rescaled : bool
        Whether the stream's batches may have had other numbers of workers: what is beside the checkpoint says so.

    """

    grouping: str
    workers: int
    checkpoint: Where | None = None
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    reports: Reports | None = None
    streaming: bool = False
    cost: Cost = FREE
    rescaled: bool = False

    @classmethod
    def of(cls, settings: "Settings", reports: Reports | None) -> Self:
        """Of a topology."""
        options = shared(settings.grouping, settings.sources, settings.options)
        return cls(
            settings.grouping, settings.workers, settings.place, options, settings.seed, reports,
            streaming=True, cost=settings.cost, rescaled=Plans(settings.place).newest() is not None,
        )  # fmt: skip

    def check(self) -> None:
        """Raise ``ValueError`` on the driver for what would fail in every task where no driver closes the loop."""
        standalone(self.grouping, self.workers, seed=self.seed, **self.options)

    def router(self, workers: int | None = None) -> Grouping:
        """A new router of no source; ``workers``: another W."""
        return create(self.grouping, workers or self.workers, seed=self.seed, **self.options)

    @property
    def planned(self) -> bool:
        """Whether there may be plans."""
        return self.checkpoint is not None and (self.rescaled or self.router().controller() is not None)

    def standing(self, batch: int) -> Standing:
        """By what a batch is routed."""
        found = Plans(self.checkpoint).at(batch) if self.checkpoint is not None and self.planned else None
        return found or Standing(self.workers)

    def open(self, source: int) -> "SourceRouter":
        """The router of one source for the batch that the calling task belongs to.

        Raises
        ------
        RuntimeError
            The batch of a stream has no number here: without its state, a task that is run again routes otherwise.

        """
        batch = batch_number()
        if self.streaming and self.checkpoint is not None and batch is None:
            raise RuntimeError(
                "a stream's router is run without the number of its batch; in foreachBatch, give a thread of your own "
                "the batch's properties with pyspark.util.inheritable_thread_target(df.sparkSession)"
            )
        return SourceRouter(self, source, batch)


def batch_number() -> int | None:
    """The number of the micro-batch that the calling task belongs to; None in a batch query."""
    context = TaskContext.get()
    number = context and context.getLocalProperty(_BATCH)
    return int(number) if number is not None else None


def in_a_stream(df: DataFrame) -> bool:
    """Whether a DataFrame is a stream, or is made of a batch of one (in ``foreachBatch``)."""
    return df.isStreaming or df.sparkSession.sparkContext.getLocalProperty(_BATCH) is not None


class SourceRouter:
    """One source's router during one batch; ``close`` it when the source's tuples of the batch are routed."""

    def __init__(self, routing: Routing, source: int, batch: int | None) -> None:
        self._routing = routing
        self._source = source
        self._batch = batch
        self._standing = Standing(routing.workers) if batch is None else routing.standing(batch)
        self._grouping = self._new()
        self._versions: Versions | None = None
        self._tuples = 0
        self._seconds = 0.0
        if routing.checkpoint is not None and batch is not None and self._grouping.state_fields:
            self._versions = Versions(Place.of(routing.checkpoint).below("unskew", "sources", str(source)))
            self._restore(self._versions, batch)
        if self._standing.active is not None:
            self._adopt(self._standing.active)

    @property
    def workers(self) -> int:
        """W in this batch."""
        return self._grouping.workers

    def _adopt(self, plan: Plan) -> None:
        """Take up the plan that holds in this batch."""
        if not plan.values and plan.number > self._grouping.plan:
            self._grouping = self._new()  # what was restored is of a time before the new beginning
        try:
            self._grouping.adopt(plan)
        except ValueError as error:
            # Of another version of this program. (Where states lie by plans, the run doesn't begin: ``run.intake``.)
            log.warning("source %d goes without a plan until there is a new one: %s", self._source, error)

    def _restore(self, versions: Versions, batch: int) -> None:
        found = versions.newest(batch)
        # Soft state: counts stay exact, the scheme learns anew.
        if found is None:
            if batch > 0:
                log.warning("source %d has no router state for batch %d: it starts cold", self._source, batch)
            return
        try:
            self._grouping.load(found[1])
        except Exception as error:  # noqa: BLE001  as many kinds as there are versions
            log.warning("source %d can't read its router state (%s): it starts cold", self._source, error)
            self._grouping = self._new()

    def _new(self) -> Grouping:
        return self._routing.router(self._standing.workers).at_source(self._source)

    def route(self, keys: pa.Array, times: ArrayLike | None) -> NDArray[np.int32]:
        """Route n tuples, as ``Grouping.route``; times int64, ms."""
        started = time.perf_counter()
        if self._grouping.uses_cost:
            encoded = encode(keys)
            workers = self._grouping.route(encoded, times, self._routing.cost.of(encoded))
        else:
            workers = self._grouping.route(keys, times)
        self._seconds += time.perf_counter() - started
        self._tuples += len(workers)
        return workers

    def close(self, **report: Any) -> None:
        """Write the state for the next batch and report."""
        said = self._grouping.report()
        if self._versions is not None and self._batch is not None:
            self._versions.write(self._batch + 1, self._grouping.save())
        if self._routing.reports is not None and self._batch is not None:
            report |= {"tuples": self._tuples, "seconds": self._seconds, "internals": dict(self._grouping.internals())}
            report["report"] = said
            self._routing.reports.send(self._batch, "router", self._source, report)


def partition() -> int:
    """The number of the calling task's partition; 0 outside of a task."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def milliseconds(times: pa.Array) -> NDArray[np.int64]:
    """An Arrow timestamp column as int64[n], ms since the epoch."""
    return times.cast(pa.timestamp("ms", times.type.tz), safe=False).to_numpy(zero_copy_only=False).astype(np.int64)
