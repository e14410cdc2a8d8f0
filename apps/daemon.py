"""Spark's Python daemon with our imports done: workers fork from it, so each starts in milliseconds, not seconds."""

import numpy as np  # noqa: F401
import pyarrow as pa  # noqa: F401
import pyarrow.compute
import pyarrow.fs
import pyarrow.ipc  # noqa: F401
from pyspark.daemon import manager

import apps.router
import apps.worker  # noqa: F401

if __name__ == "__main__":
    manager()
