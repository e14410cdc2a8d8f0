"""The prototype's operator: a tuple costs by its key's class, and by its instance, which changes in mid-stream."""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from unskew.grouping import encode
from unskew.grouping.costs import class_costs


@dataclass(frozen=True)
class Drifting:
    """Busy for each tuple, and says for how long.

    Parameters
    ----------
    unit : float
        Of a cost, ms.
    costs : tuple of float
        Of the classes of keys.
    change : int
        The offset from which ``after`` holds instead of ``before``: factors of the instances.

    """

    unit: float
    costs: tuple[float, ...]
    change: int
    before: tuple[float, ...]
    after: tuple[float, ...]

    def __call__(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Sleep; a result a tuple with its ``cost``, ms."""
        context = TaskContext.get()
        assert context is not None
        instance = context.partitionId()
        late = tuples.column("offset").to_numpy() >= self.change
        factor = np.where(late, self.after[instance], self.before[instance])
        cost = self.unit * factor * class_costs(encode(tuples.column("key")), self.costs)
        time.sleep(float(cost.sum()) / 1000)
        ones = pa.array(np.ones(len(cost), np.int64))
        return pa.record_batch([tuples.column("key"), ones, pa.array(cost)], ["key", "count", "cost"])
