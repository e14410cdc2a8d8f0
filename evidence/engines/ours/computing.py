"""The work of the job ``cpu`` in ours: a function over a batch of tuples that computes for each of them.

    COST_MS=0.1 unskew topology … --work computing:count

After docs/topology.md ("Your own work"). Spark's Python processes have the driver's environment.
"""

import os
import time

import numpy as np
import pyarrow as pa

SECONDS = float(os.environ["COST_MS"]) / 1000


def count(tuples: pa.RecordBatch) -> pa.RecordBatch:
    for _ in range(tuples.num_rows):
        until = time.thread_time() + SECONDS
        while time.thread_time() < until:
            pass
    return pa.record_batch([tuples.column("key"), pa.array(np.ones(tuples.num_rows, np.int64))], ["key", "count"])
