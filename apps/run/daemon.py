"""Spark's Python daemon with our imports done: workers fork from it, so each starts in milliseconds, not seconds."""

import gc
import os

import numpy as np  # noqa: F401
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.ipc
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import unskew.apps.keyed.home
import unskew.apps.keyed.operators
import unskew.apps.keyed.worker
import unskew.apps.topology.closing
import unskew.apps.topology.routes
import unskew.apps.topology.worker  # noqa: F401
from unskew.apps.topology.fields import Fields
from unskew.grouping import warm

#: The variable that names the groupings (with commas) whose kernels should be there before the first task.
GROUPINGS = "UNSKEW_GROUPINGS"

if __name__ == "__main__":
    for grouping in filter(None, os.environ.get(GROUPINGS, "").split(",")):
        warm(grouping)
    Fields(("key",)).read(pa.array([b'{"key":""}']))
    # After every task a worker collects garbage, which walks all objects: some 70 ms with numba and pyarrow loaded.
    # What is here now is no garbage: leave it out.
    gc.collect()
    gc.freeze()
    manager()
