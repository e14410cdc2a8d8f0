"""The prototype's operator: a tuple's cost depends on its key's class and on its instance, and changes in mid-stream.

It is a module of its own, as it travels to Spark's Python workers by value.
"""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from unskew.grouping import encode_keys
from unskew.grouping.streams import class_costs


@dataclass(frozen=True)
class Drifting:
    """Sleeps for each tuple's cost, and gives that cost as the result.

    ``unit``: The unit of a cost, ms. ``costs``: The cost of each class of keys, in units. ``change``: The offset from
    which the factors ``after`` hold instead of ``before``. ``before``, ``after``: The factor of each instance.
    """

    unit: float
    costs: tuple[float, ...]
    change: int
    before: tuple[float, ...]
    after: tuple[float, ...]

    def __call__(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Sleep for the tuples' costs; a result for each tuple has its ``cost``, ms."""
        context = TaskContext.get()
        assert context is not None
        instance = context.partitionId()
        late = tuples.column("offset").to_numpy() >= self.change
        factor = np.where(late, self.after[instance], self.before[instance])
        cost = self.unit * factor * class_costs(encode_keys(tuples.column("key")), self.costs)
        time.sleep(float(cost.sum()) / 1000)
        ones = pa.array(np.ones(len(cost), np.int64))
        return pa.record_batch([tuples.column("key"), ones, pa.array(cost)], ["key", "count", "cost"])
