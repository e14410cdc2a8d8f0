"""Keyed operators whose workers sleep for their tuples' costs, so that ten of them wait side by side on any machine.

They are a module of their own, as they travel to Spark's Python workers by value.
"""

import time

import pyarrow as pa

from unskew.apps.operators.interface import Now
from unskew.apps.operators.lookup import Lookup
from unskew.operators import IntervalJoin

COST_MS = 2.0  # of a tuple, at each operator

_Updated = tuple[pa.RecordBatch | None, pa.RecordBatch]


class PacedJoin(IntervalJoin):
    """A join of which each tuple has a cost, ms."""

    cost_ms = COST_MS

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> _Updated:
        """As ``IntervalJoin`` does."""
        time.sleep(self.cost_ms * tuples.num_rows / 1000)
        return super().update(tuples, states, now)


class PacedLookup(Lookup):
    """A lookup of which each tuple has a cost."""

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> _Updated:
        """As ``Lookup`` does."""
        time.sleep(tuples.num_rows * COST_MS / 1000)
        return super().update(tuples, states, now)
