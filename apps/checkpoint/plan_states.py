"""Plans beside a query's checkpoint: the plan states of its batches.

Version ``b`` of a query's ``PlanState`` holds at the start of batch ``b``. The driver writes it at the end of batch
``b - 1``, before that batch is committed, so no task of batch ``b`` can begin before it. A plan depends on measured
times and can't be made a second time, so a written version is never replaced.

Each batch has a version, even if no plan has changed. So a driver that is late, and has measured other times, can't add
one.
"""

from dataclasses import dataclass
from functools import lru_cache

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.grouping.feedback_loop import PlanState


@dataclass(frozen=True)
class PlanStateLog:
    """The versions of one query's ``PlanState``. Spark sends it to the tasks."""

    checkpoint: Where

    @property
    def _versions(self) -> Versions:
        return Versions(Location.of(self.checkpoint).below("unskew", "plans"))

    def at(self, batch: int) -> PlanState | None:
        """The state at the start of a batch. None: no plan was made before it."""
        found = self._versions.newest(batch)
        return _parse_state(found[1]) if found else None

    def newest(self) -> PlanState | None:
        """The state that was written last. None: there is none."""
        from unskew.apps.checkpoint.checkpoint import Checkpoint  # it needs orjson, which `balance` does without

        found = self._versions.last(Checkpoint(self.checkpoint).newest_batch())
        return _parse_state(found[1]) if found else None

    def written_for(self, batch: int) -> PlanState | None:
        """The state that was written for the start of exactly this batch. None: there is none."""
        found = self._versions.at(batch)
        return _parse_state(found) if found is not None else None

    def write(self, batch: int, state: PlanState) -> bool:
        """Set the state at the start of a batch, unless one is already written for it. Returns whether it was set."""
        return self._versions.create(batch, state.save())


@lru_cache(maxsize=2)
def _parse_state(data: bytes) -> PlanState:
    """Read a state once a process: a long table is the same for all tasks of a batch, and often for the next batch."""
    return PlanState.read(data)
