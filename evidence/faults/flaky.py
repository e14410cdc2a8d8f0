"""A work that fails at random, on other tuples each time that it runs; it is for `--work-option errors=reject`.

It has bad spells, as a service has that a work calls. In a spell it raises on some tuples. Which ones depends on their
offsets, on the spell and on the process: a call on fewer tuples fails on the same ones, but the next attempt at the
batch fails on others. Between the spells it only counts. So an attempt that must reject the tuples of the attempt
before it, and no others, succeeds sooner or later.

Spark's workers get this module by value, without the rest of the package.
"""

import os
import random
import time

import numpy as np
import pyarrow as pa

PERIOD, SPELL = 15.0, 3.0  # s from one spell to the next, and its length
_SHARE = 200  # of so many tuples it fails on one, on average
_MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd number whose multiples are spread evenly over 64 bits


def flaky(tuples: pa.RecordBatch) -> pa.RecordBatch:
    """Each tuple counts once. It needs the column ``offset``."""
    spell, since = divmod(time.time(), PERIOD)
    if since < SPELL:
        salt = np.uint64(random.Random(f"{spell} {os.getpid()}").getrandbits(64))
        mixed = (tuples.column("offset").to_numpy().astype(np.uint64) ^ salt) * _MIX
        if np.any((mixed >> np.uint64(32)) % np.uint64(_SHARE) == 0):
            raise RuntimeError("a bad spell")
    return pa.record_batch([tuples.column("key"), pa.array(np.ones(tuples.num_rows, np.int64))], ["key", "count"])
