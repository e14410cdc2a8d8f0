"""The tuples that a run with ``--work-option errors=reject`` rejects: written beside the checkpoint, and bounded.

A work may fail on a tuple once, and not the next time. A task may run again, after an executor was lost or with its
batch. What the first attempt made may already be visible by then: a count in a window that closed, or a record of a
rejected message. So the first attempt of a worker that has executed all its tuples of a batch writes down on which of
them the work failed. It does so before it gives a row, and even if the work failed on none. Every later attempt rejects
the same tuples for the same reasons, without calling the work on them, and no others. If the work then fails on another
tuple, the query fails, and its next start tries the batch again. A tuple is therefore either counted or rejected.

The file of worker w is ``unskew/failures/w``, in a version for each batch. A later attempt finds the same tuples at the
same worker, because the routers' states are versioned, too.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.metrics.task_reports import Failures
from unskew.apps.operators.errors import StateFault
from unskew.errors import EnvironmentFault
from unskew.shown_keys import quote_key

#: How many tuples a worker may reject in a batch. All of them go through the driver.
MOST_FAILED = 10_000
#: How often its work may raise in a batch. To find k of n tuples takes about k · (2 + log2(n / k)) calls that raise.
MOST_RAISED = 16 * MOST_FAILED

#: A tuple: partition and offset of its message, and its key. A message may have a key several times.
TuplePosition: TypeAlias = tuple[int, int, str]


@dataclass
class FailedTuples:
    """The tuples of a worker's share of a batch on which the work failed."""

    #: list of (TuplePosition, str): The tuples, each with the reason.
    tuples: list[tuple[TuplePosition, str]] = field(default_factory=list)
    raised: int = 0  #: How often the work has raised so far, on one tuple or on several.

    @classmethod
    def of(cls, data: bytes) -> Self:
        """What ``data`` returned."""
        return cls([((partition, offset, key), why) for partition, offset, key, why in json.loads(data)])

    def data(self) -> bytes:
        """The JSON of a checkpoint, the same whatever order the tuples were in: [[partition, offset, key, reason]]."""
        return json.dumps(sorted([*place, why] for place, why in self.tuples)).encode()

    def messages(self) -> Failures:
        """The messages of the tuples, and why each is rejected."""
        return {place[:2]: why for place, why in sorted(self.tuples, reverse=True)}

    def positions(self) -> Mapping[TuplePosition, int]:
        """How many tuples have failed at each place. Tuples of a place are alike, so any of them may be meant."""
        return Counter(place for place, _ in self.tuples)

    def add(self, place: TuplePosition, reason: str) -> None:
        """Add a tuple.

        Raises ``StateFault`` if these are too many for an error that only some messages cause.
        """
        if len(self.tuples) >= MOST_FAILED:
            raise StateFault(
                f"the work failed on more than {MOST_FAILED:,} tuples of one worker in one batch, too many to reject, "
                f"at last on key {quote_key(place[2])} ({reason})"
            )
        self.tuples.append((place, f"work: {reason}"))


@dataclass(frozen=True)
class FailureLog:
    """The files of all workers in a query's checkpoint. Spark sends it to the tasks."""

    where: Where

    def read(self, worker: int, batch: int) -> FailedTuples | None:
        """What the first attempt of a worker that finished wrote in a batch. None: there was none."""
        found = self._versions(worker).at(batch)
        return None if found is None else FailedTuples.of(found)

    def write(self, worker: int, batch: int, failed: FailedTuples) -> None:
        """Write what an attempt found, if ``read`` has told it that it is the first one.

        Raises
        ------
        EnvironmentFault
            Another attempt ran at the same time, and wrote something else. The task's next attempt follows that one.

        """
        versions, data = self._versions(worker), failed.data()
        versions.create(batch, data)
        if versions.at(batch) != data:
            raise EnvironmentFault(f"another attempt of worker {worker} at batch {batch} has rejected other messages")

    def _versions(self, worker: int) -> Versions:
        return Versions(Location.of(self.where).below("unskew", "failures", str(worker)))
