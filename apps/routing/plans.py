"""Plans beside a query's checkpoint: which keys go to which worker from some batch on, and the effect of each plan.

Version ``b`` of a query's ``PlanState`` holds at the start of batch ``b``. The driver writes it at the end of batch
``b - 1``, before that batch is committed, so no task of batch ``b`` can begin before it. A plan depends on measured
times and can't be made a second time, so a written version is never replaced.

Each batch has a version, even if no plan has changed. So a driver that is late, and has measured other times, can't add
one.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Self

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.grouping.feedback import Plan
from unskew.grouping.state import Value, pack, unpack


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One plan that moved keys.

    Attributes
    ----------
    plan : int
        The plan's number.
    made : int
        The batch after which it was made.
    planning_seconds : float
        The time that the controller took for it.
    table : int
        The number of entries of its routing table, or of tokens of its ring.
    before : float
        The slowest worker's time divided by the mean worker's in the batch ``made``.
    keys : int, optional
        The number of keys that moved. None: they weren't counted. That is so for a ring if no states move with keys.
    bytes : int
        The size of their states, if workers have states.
    batch : int
        The first batch with tuples that was routed by the plan. −1: there was none yet.
    after : float
        The slowest worker's time divided by the mean worker's in that batch.
    workers_before, workers : int
        W before and after, if the plan changes the number of workers. Else 0.

    """

    plan: int
    made: int
    planning_seconds: float
    table: int
    before: float
    keys: int | None = None
    bytes: int = 0
    batch: int = -1
    after: float = 0.0
    workers_before: int = 0
    workers: int = 0

    def __str__(self) -> str:
        """In words, for people.

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


_IDENTITY = "standing"  # as checkpoints have it, and so has "untold" below
_FILES = ("files", "pending_files")


@dataclass(frozen=True, slots=True)
class PlanState:
    """The plans of a query at the start of a batch.

    Attributes
    ----------
    workers : int
        W according to the active plan.
    active : Plan, optional
        The plan that the routers follow. None: they route without feedback.
    pending : Plan, optional
        A plan that no router follows yet. In their next batch, the workers release the states of the keys that leave
        them.
    pending_workers : int
        W once the pending plan is active. It equals ``workers`` if the number of workers stays.
    controller : bytes
        The controller's state.
    released : frozenset of int
        The workers that have released the states that the pending plan takes from them.
    unrouted : tuple of Rebalance
        The plans that move keys and by which no batch has been routed yet.
    files : dict or None
        If states move: sender → the batch in which it wrote the file of the states that it released for the active
        plan. None: an older version of this program made the plan, and didn't name its files.
    pending_files : dict or None
        The same for the pending plan, so far.

    """

    workers: int
    active: Plan | None = None
    pending: Plan | None = None
    pending_workers: int = 0
    controller: bytes = b""
    released: frozenset[int] = frozenset()
    unrouted: tuple[Rebalance, ...] = ()
    files: Mapping[int, int] | None = field(default_factory=dict)
    pending_files: Mapping[int, int] | None = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Let W stay where nothing else is given."""
        if not self.pending_workers:
            object.__setattr__(self, "pending_workers", self.workers)

    def save(self) -> bytes:
        """The state as bytes. Equal states give equal bytes."""
        values: dict[str, Value] = {
            "workers": self.workers,
            "active": self.active.save() if self.active else None,
            "pending": self.pending.save() if self.pending else None,
            "pending_workers": self.pending_workers,
            "controller": self.controller,
            "released": json.dumps(sorted(self.released)).encode(),
            "untold": json.dumps([asdict(rebalance) for rebalance in self.unrouted]).encode(),
            **{name: json.dumps(getattr(self, name), sort_keys=True).encode() for name in _FILES},
        }
        return pack(_IDENTITY, values)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """The state from the bytes of ``save``.

        Raises
        ------
        ValueError
            The bytes are not those of a saved state.

        """
        fields: dict[str, Any] = unpack(_IDENTITY, data)
        for name in ("active", "pending"):
            fields[name] = Plan.read(fields[name]) if fields[name] else None
        fields["released"] = frozenset(json.loads(fields["released"]))
        for name in _FILES:
            files = json.loads(fields.get(name, b"null"))
            fields[name] = None if files is None else {int(sender): batch for sender, batch in files.items()}
        fields["unrouted"] = tuple(Rebalance(**saved) for saved in json.loads(fields.pop("untold")))
        return cls(**fields)


class Plans:
    """The versions of one query's ``PlanState``.

    Parameters
    ----------
    checkpoint : str or Location
        The query's checkpoint location.

    """

    def __init__(self, checkpoint: Where) -> None:
        self._checkpoint = checkpoint
        self._versions = Versions(Location.of(checkpoint).below("unskew", "plans"))

    def at(self, batch: int) -> PlanState | None:
        """The state at the start of a batch. None: no plan was made before it."""
        found = self._versions.newest(batch)
        return _read(found[1]) if found else None

    def newest(self) -> PlanState | None:
        """The state that was written last. None: there is none."""
        from unskew.apps.checkpoint.checkpoint import Checkpoint  # it needs orjson, which `balance` does without

        found = self._versions.last(Checkpoint(self._checkpoint).planned())
        return _read(found[1]) if found else None

    def written(self, batch: int) -> PlanState | None:
        """The state that was written for the start of exactly this batch. None: there is none."""
        found = self._versions.at(batch)
        return _read(found) if found is not None else None

    def write(self, batch: int, state: PlanState) -> None:
        """Set the state at the start of a batch, unless one is already written for it."""
        self._versions.create(batch, state.save())


@lru_cache(maxsize=2)
def _read(data: bytes) -> PlanState:
    """Read a state once a process: a long table is the same for all tasks of a batch, and often for the next batch."""
    return PlanState.read(data)
