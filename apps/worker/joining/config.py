"""The configuration of a join's workers, which Spark sends to tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from unskew.apps.checkpoint.location import Where
from unskew.apps.checkpoint.overflow import MOST
from unskew.apps.metrics.balance_observation import Observation
from unskew.apps.router.router import Routing
from unskew.apps.worker.joining.row_table import make_row_schema
from unskew.apps.worker.stateful.config import describe_schema, require_state_partitions
from unskew.grouping.split_join.plan import LEFT

#: Which of n pairs count: (n left rows, n right rows) → bool[n].
Condition: TypeAlias = Callable[[pa.RecordBatch, pa.RecordBatch], pa.Array]

_SLICES = 8  # of a row's retention
_LEAST_SLICE_US = 1_000_000


@dataclass(frozen=True)
class JoinConfig:
    """The configuration of all workers of a join."""

    key: pa.DataType  #: The keys' type.
    #: The columns of the left and right rows in their packets, after the key and the time.
    columns: tuple[pa.Schema, pa.Schema]
    #: The user's names of these columns, without the key's columns if they come at the end.
    names: tuple[list[str], list[str]]
    #: The bounds of a right row's time: from the left one's less ``before_us`` to the left one's plus ``after_us``.
    before_us: int
    after_us: int
    routing: Routing  #: The join's routing: W, the seed, the checkpoint, the plans, and where the tasks report.
    where: Condition | None = None  #: Which pairs count. None: all.
    outer: tuple[bool, bool] = (False, False)  #: Whether left and right rows without a partner are published, too.
    #: The number of the state's partitions for which workers' tokens were chosen, and which the query must have.
    partitions: int | None = None
    #: The most bytes that Spark's operator returns through Spark per call. The rest goes to files next to the
    #: checkpoint.
    most: int = MOST
    observe: Observation | None = None  #: The observation in which Spark collects the workers' reports.

    # As in ``KeyedOperatorConfig``: rows have event times, and nothing is merged.
    event: bool = True
    split: bool = False
    mergers_keep: bool = False

    @property
    def workers(self) -> int:
        """W."""
        return self.routing.workers

    @property
    def mergers(self) -> int:
        """W: a worker's pairs have its token."""
        return self.routing.workers

    @property
    def checkpoint(self) -> Where | None:
        """The query's checkpoint location, which each task must see."""
        return self.routing.checkpoint

    def row_schema(self, side: int) -> pa.Schema:
        """The columns of a side's rows at the workers."""
        return make_row_schema(self.key, self.columns[side], outer=self.outer[side])

    def reach(self, side: int) -> tuple[int, int]:
        """How long before and after a row of this side a partner may be (µs)."""
        return (self.before_us, self.after_us) if side == LEFT else (self.after_us, self.before_us)

    @property
    def slice_us(self) -> int:
        """The length of the slices of time in which rows are kept (µs)."""
        return max((self.before_us + self.after_us) // _SLICES, _LEAST_SLICE_US)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The fields by which a checkpoint recognises its run."""
        return {
            "work": "balanced_join",
            "state": [describe_schema(schema) for schema in self.columns],
            "parameters": {"before_us": self.before_us, "after_us": self.after_us, "outer": [*self.outer]},
            "keyType": str(self.key),
            "numWorkers": self.workers,
        }

    def require_state_partitions(self) -> None:
        """Raise ``UsageError`` unless the calling task's query has the state partitions that this config expects."""
        require_state_partitions(self.checkpoint, self.partitions)
