"""The feedback loop: turns an interval's reports into the next interval's plan state.

The plan state after an interval is a function of the state before it and the reports of its tasks. In a topology, an
interval is a batch, and the driver writes the state next to the checkpoint (``unskew.apps.driver.plans``). In the
simulator, reports and plans have delays.

If workers have states that move with their keys, a plan is first *pending* for an interval: tuples are routed as
before, and the workers release the states that the plan takes from them. When all workers have reported that, the plan
is *active*. If Spark calls no worker, because a batch has no rows, the plan is pending for longer, but no tuple waits
for it.

A new number of workers on the same checkpoint is a plan, too, without values, because routers and controller start anew
when W changes.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from unskew.grouping import measures
from unskew.grouping.feedback import Controller, Plan, Queues, Reports
from unskew.grouping.interface import Grouping
from unskew.grouping.state import Value, pack_values, unpack_values

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MigrationReport:
    """A worker's part in the plans that move keys."""

    taken: int = 0  #: The newest plan whose states the worker had received *before* the batch. No replay reads them.
    released: int = 0  #: The newest plan for which the worker has released its states.
    keys: int = 0  #: The number and size of the states that it released in the batch.
    bytes: int = 0
    wrote: bool = False  #: Whether it wrote a file of states in the batch, even one without states.


@dataclass(frozen=True, slots=True)
class Interval:
    """The reports of an interval."""

    number: int  #: The batch's number.
    monitors: Reports  #: worker → report: The monitors' reports, of workers with something to report.
    sources: Reports  #: source → report: The routers' reports (``Grouping.report``), likewise.
    tuples: int  #: The number of tuples executed.
    #: float[W]: Each worker's busy time (s), after a micro-batch. W is that of the plan state before.
    busy: Sequence[float] = ()
    #: float[W], optional: The waiting tuples at each worker at the interval's end. None: a micro-batch leaves none.
    queues: Queues = None
    #: worker → report: The workers' parts in the plans that move keys.
    migrations: Mapping[int, MigrationReport] = field(default_factory=dict)
    #: worker → batch: The batch of a worker's ``migrations``, if it isn't ``number``.
    called: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A plan that moved keys."""

    plan: int  #: The plan's number.
    made: int  #: The batch after which it was made.
    planning_seconds: float  #: The controller's time for it.
    table: int  #: The number of its routing table's entries, or its ring's tokens.
    before: float  #: The slowest worker's time divided by the mean in the batch ``made``.
    keys: int | None = None  #: The number of moved keys. None: not counted, as for a ring if no states move with keys.
    bytes: int = 0  #: The size of their states, if workers have states.
    batch: int = -1  #: The first batch with tuples under the plan; −1 if there was none yet.
    after: float = 0.0  #: The slowest worker's time divided by the mean in that batch.
    workers_before: int = 0  #: W before and after, if the plan changes it. Else 0.
    workers: int = 0

    def __str__(self) -> str:
        """In words.

        >>> str(Rebalance(3, 7, 0.0021, 12, 2.4, keys=1500, batch=9, after=1.125))
        'plan 3: 1,500 keys moved, planned in 2 ms, table of 12, slowest / mean worker 2.40 → 1.12'
        >>> str(Rebalance(4, 9, 0.0, 0, 1.1, keys=700, bytes=56_000, workers_before=10, workers=20))
        'rescaled from 10 to 20 workers: the states of 700 keys moved (56,000 bytes)'
        """
        moved = "the ring's tokens" if self.keys is None else f"{self.keys:,} key{'s' * (self.keys != 1)}"
        size = f" ({self.bytes:,} bytes)" if self.bytes else ""
        if self.workers:
            states = f": the states of {moved} moved{size}" if self.bytes else ""
            return f"rescaled from {self.workers_before} to {self.workers} workers{states}"
        return (
            f"plan {self.plan}: {moved} moved{size}, planned in {1000 * self.planning_seconds:.0f} ms, "
            f"table of {self.table:,}, slowest / mean worker {self.before:.2f} → {self.after:.2f}"
        )


_IDENTITY = "plan state"
_FILES = ("files", "pending_files")


@dataclass(frozen=True, slots=True)
class PlanState:
    """The plans of a query at the start of a batch."""

    workers: int  #: W under the active plan.
    active: Plan | None = None  #: The plan that the routers follow, if any.
    #: A plan that routers don't follow yet. In their next batch, the workers release the states of the keys that leave
    #: them.
    pending: Plan | None = None
    pending_workers: int = 0  #: W once the pending plan is active. Default: ``workers``.
    controller: bytes = b""  #: The controller's state.
    #: The workers that have released the states that the pending plan takes from them.
    released: frozenset[int] = frozenset()
    unrouted: tuple[Rebalance, ...] = ()  #: The plans that move keys, and under which no batch has been routed yet.
    #: If states move: sender → the batch in which it wrote its file of states released for the active plan.
    files: Mapping[int, int] = field(default_factory=dict)
    pending_files: Mapping[int, int] = field(default_factory=dict)  #: The same for the pending plan, so far.

    def __post_init__(self) -> None:
        """By default, W stays."""
        if not self.pending_workers:
            object.__setattr__(self, "pending_workers", self.workers)

    def save(self) -> bytes:
        """Serialise the state. Equal states give equal bytes."""
        values: dict[str, Value] = {
            "workers": self.workers,
            "active": self.active.save() if self.active else None,
            "pending": self.pending.save() if self.pending else None,
            "pending_workers": self.pending_workers,
            "controller": self.controller,
            "released": json.dumps(sorted(self.released)).encode(),
            "unrouted": json.dumps([asdict(rebalance) for rebalance in self.unrouted]).encode(),
            **{name: json.dumps(getattr(self, name), sort_keys=True).encode() for name in _FILES},
        }
        return pack_values(_IDENTITY, values)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse the bytes of ``save``. Raises ``ValueError`` if the bytes aren't a saved state."""
        fields: dict[str, Any] = unpack_values(_IDENTITY, data)
        for name in ("active", "pending"):
            fields[name] = Plan.read(fields[name]) if fields[name] else None
        fields["released"] = frozenset(json.loads(fields["released"]))
        for name in _FILES:
            fields[name] = {int(sender): batch for sender, batch in json.loads(fields[name]).items()}
        fields["unrouted"] = tuple(Rebalance(**saved) for saved in json.loads(fields["unrouted"]))
        return cls(**fields)


@dataclass(frozen=True)
class FeedbackLoop:
    """The loop of one run.

    Parameters
    ----------
    router : W → Grouping
        Creates a router of the run, whose controller makes the plans. It must be new, because after a micro-batch it
        adopts the plan.
    workers : int
        The run's W. If earlier intervals had another W, keys and states move to the new workers.
    moving : bool
        Whether the workers have states that move with their keys.
    keyed : bool
        Whether the workers have states.
    controller : Controller, optional
        The controller, if it outlives an interval: in the simulator, whose intervals are shorter than the time to save
        it. None: the plan state has its state.

    """

    router: Callable[[int], Grouping]
    workers: int
    moving: bool = False
    keyed: bool = False
    controller: Controller | None = None

    def after(self, before: PlanState, interval: Interval) -> PlanState:
        """The plan state after an interval."""
        settled = _apply_releases(before, interval)
        if settled.pending is None and settled.workers != self.workers:
            settled = rescale_plan(settled, self.router(self.workers), interval, waits=self.keyed)
        if interval.tuples or interval.queues is not None:
            unrouted = tuple(rebalance for rebalance in settled.unrouted if not _is_in_effect(rebalance, before))
            settled = replace(settled, unrouted=unrouted)
            if settled.pending is None and settled.workers == before.workers:
                # The interval's times measure the plan under which its tuples were routed.
                return self._decide(settled, interval, fresh=settled.active == before.active)
        return settled

    def _decide(self, before: PlanState, interval: Interval, *, fresh: bool) -> PlanState:
        router = self.router(before.workers)
        controller = self.controller or self._restore_controller(router, before)
        if controller is None:
            return before
        queues = interval.queues
        # After a micro-batch, a scheme that moves keys by queues gets the workers' shares of the batch's work as
        # queues. A scheme that estimates waiting work (POSG) gets none, because no work waits at a batch's end: queues
        # of finished work would make the next batch as uneven, the other way round.
        if queues is None and router.migrates_keys and fresh:
            queues = estimate_backlog(interval.busy, interval.tuples)
        started = time.perf_counter()
        plan = controller.plan(interval.monitors, queues, interval.sources)
        seconds = time.perf_counter() - started
        after = before if self.controller else replace(before, controller=controller.save())
        if plan is None:
            return after
        if router.migrates_keys and interval.queues is None:
            values: Mapping[str, Any] = plan.values
            moved = int(values["moved"]) if "moved" in values else None
            uneven, size = measures.straggler_ratio(interval.busy), _table_size(router, plan)
            rebalance = Rebalance(plan.number, interval.number, seconds, size, uneven, 0 if self.moving else moved)
            after = replace(after, unrouted=(*after.unrouted, rebalance))
        return _add_plan(after, plan, self.workers, waits=self.moving)

    def _restore_controller(self, router: Grouping, state: PlanState) -> Controller | None:
        controller = router.controller()
        if controller is None:
            return None
        if state.controller:
            try:
                controller.load(state.controller)
            except Exception as error:  # noqa: BLE001  another version may raise any kind
                log.warning("the controller's state can't be read (%s): it starts cold", error)
                controller = self._restore_controller(router, replace(state, controller=b""))
        elif state.active is not None:
            # Routers that follow this plan accept only newer ones.
            controller.number = state.active.number
        return controller


def _apply_releases(before: PlanState, interval: Interval) -> PlanState:
    """Make the pending plan active if all workers have released the states that it takes from them.

    From then on, the state names its files. They aren't needed once a later plan is active, because a worker receives a
    plan's states before it releases any for the next one.
    """
    pending = before.pending
    if pending is None:
        return before
    migrations = interval.migrations
    wrote = [worker for worker, each in migrations.items() if each.wrote]
    files = {**before.pending_files, **{worker: interval.called.get(worker, interval.number) for worker in wrote}}
    released = before.released | {w for w, each in migrations.items() if each.released >= pending.number}
    new = [migrations[w] for w in released - before.released]
    unrouted = tuple(
        replace(
            rebalance,
            keys=(rebalance.keys or 0) + sum(migration.keys for migration in new),
            bytes=rebalance.bytes + sum(migration.bytes for migration in new),
        )
        if rebalance.plan == pending.number
        else rebalance
        for rebalance in before.unrouted
    )
    # The plan also waits for new workers without states, which learn the watermark in their first batch.
    if not released >= frozenset(range(max(before.workers, before.pending_workers))):
        return replace(before, released=released, unrouted=unrouted, pending_files=files)
    return replace(
        before, active=pending, workers=before.pending_workers, pending=None, released=frozenset(), unrouted=unrouted,
        files=files, pending_files={},
    )  # fmt: skip


def measure_effects(before: PlanState, interval: Interval) -> tuple[Rebalance, ...]:
    """The rebalances of which this interval was the first, with the balance of its workers' times."""
    if not interval.tuples:
        return ()
    batch, after = interval.number, measures.straggler_ratio(interval.busy)
    return tuple(
        replace(rebalance, batch=batch, after=after)
        for rebalance in before.unrouted
        if _is_in_effect(rebalance, before)
    )


def _is_in_effect(rebalance: Rebalance, state: PlanState) -> bool:
    return state.active is not None and rebalance.plan <= state.active.number


def _table_size(router: Grouping, plan: Plan) -> int:
    """Entries of the routing table, or tokens of the ring, that a router has under the plan."""
    router.adopt(plan)
    internals = router.internals()
    return int(internals.get("table", internals.get("tokens", 0)))


def estimate_backlog(busy: Sequence[float], tuples: int) -> list[float]:
    """Each worker's queue, in tuples: its share of the batch's ``tuples``, by busy time (``busy``, float[W], s).

    A micro-batch leaves no queues, but lasts as long as its slowest worker. So the workers' times show what queues
    would: which worker is behind, and how far. If all times are equal, each worker has a W-th of the batch. Without
    work, all queues are 0.

    >>> estimate_backlog([3.0, 1.0], 100)
    [75.0, 25.0]
    """
    times = np.asarray(busy, np.float64)
    total = times.sum()
    return (times / total * tuples if total else np.zeros(len(times))).tolist()


def rescale_plan(before: PlanState, router: Grouping, interval: Interval, *, waits: bool) -> PlanState:
    """The state after an interval without a pending plan, with a plan for the new router's number of workers."""
    newest = before.active.number if before.active is not None else 0
    plan, workers = Plan(newest + 1, newest, router.identity, {}), router.workers
    batch, uneven = interval.number, measures.straggler_ratio(interval.busy)
    rebalance = Rebalance(plan.number, batch, 0.0, 0, uneven, 0, workers_before=before.workers, workers=workers)
    after = replace(before, controller=b"", unrouted=(*before.unrouted, rebalance))
    return _add_plan(after, plan, workers, waits=waits)


def _add_plan(before: PlanState, plan: Plan, workers: int, *, waits: bool) -> PlanState:
    """The state with a new plan, which is pending first if it takes states from workers."""
    if waits:
        return replace(before, pending=plan, pending_workers=workers, pending_files={})
    return replace(before, active=plan, workers=workers, pending_workers=workers, files={})
