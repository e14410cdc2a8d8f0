"""Spark's Python daemon with our imports. Workers fork from it, so each starts in milliseconds, not seconds.

Spark starts it by this module's name (``spark.python.daemon.module``).
"""
# ruff: noqa: E402  Another version of Python may lack the imports. The error must name the version, not a module.

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

#: The variable with the groupings, separated by commas, whose kernels are compiled before the first task.
GROUPINGS = "UNSKEW_GROUPINGS"

# pyarrow imports pandas, if installed, for its first array, which takes 0.2 s and 32 MB in each worker, unless it is
# done here. The other two are Spark's imports for states. They may be missing or of an incompatible version. Only a
# worker that needs them should fail.
with suppress(Exception):
    import pandas as pd  # noqa: F401
    import pyarrow.pandas_compat  # noqa: F401
    import pyspark.sql.streaming.proto.StateMessage_pb2
    import pyspark.testing.utils  # noqa: F401

if GROUPINGS in os.environ:  # a topology: a user's session may lack these modules' imports
    import unskew.apps.aggregator.aggregator
    import unskew.apps.splitter.json_fields
    import unskew.apps.worker.worker  # noqa: F401

if __name__ == "__main__":
    for grouping in filter(None, os.environ.get(GROUPINGS, "").split(",")):
        warm_kernels(grouping)
    # After every task a worker collects garbage, which with numba and pyarrow loaded takes some 70 ms, unless the
    # objects that exist now are left out.
    gc.collect()
    gc.freeze()
    import_daemon()()
