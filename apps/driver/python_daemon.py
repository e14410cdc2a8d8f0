"""Spark's Python daemon with our imports done. Workers fork from it, so each starts in milliseconds, not seconds.

Spark starts it by this module's name (``spark.python.daemon.module``).
"""
# ruff: noqa: E402  Another version of Python may lack what is imported. The error must name the version, not a module.

import gc
import os
from contextlib import suppress

from unskew.apps.driver.python_version import require_same_version

require_same_version()

import numpy as np  # noqa: F401
import pyarrow.compute
import pyarrow.fs
import pyarrow.ipc
import pyspark.worker

import unskew.apps.router.tuple_packets
import unskew.apps.worker.stateful.operator
import unskew.apps.worker.stateful.tasks
from unskew.grouping import warm_kernels
from unskew.spark.compat import import_daemon

#: The variable that names the groupings (with commas) whose kernels are compiled before the first task.
GROUPINGS = "UNSKEW_GROUPINGS"

# pyarrow imports pandas, if there is one, where it makes an array. That takes 0.2 s and 32 MB of each worker, unless it
# is done here. The other two are what Spark imports for states. They may be missing, or of a version that doesn't fit
# another package. Only a worker that needs them should fail.
with suppress(Exception):
    import pandas as pd  # noqa: F401
    import pyarrow.pandas_compat  # noqa: F401
    import pyspark.sql.streaming.proto.StateMessage_pb2
    import pyspark.testing.utils  # noqa: F401

if GROUPINGS in os.environ:  # a topology: a user's own session may lack what these modules import
    import unskew.apps.aggregator.aggregator
    import unskew.apps.splitter.json_fields
    import unskew.apps.worker.worker  # noqa: F401

if __name__ == "__main__":
    for grouping in filter(None, os.environ.get(GROUPINGS, "").split(",")):
        warm_kernels(grouping)
    # After every task a worker collects garbage, which walks all objects: some 70 ms with numba and pyarrow loaded.
    # The objects that exist now are no garbage: the walk leaves them out.
    gc.collect()
    gc.freeze()
    import_daemon()()
