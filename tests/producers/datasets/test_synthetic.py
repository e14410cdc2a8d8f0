"""The synthetic datasets' keys are those of the streams that ``tests/grouping/test_streams.py`` holds."""

import numpy as np
import pytest

from unskew.grouping import streams
from unskew.producers.datasets.registry import create_dataset

CASES = [
    ("ZIPF", {}, streams.zipf(1.0, 100_000)),
    ("ZIPF", {"z": 0.8, "keys": 1000}, streams.zipf(0.8, 1000)),
    ("POSG_ZIPF", {}, streams.zipf(1.0, 4096)),
    ("POSG_ZIPF", {"alpha": 3.0, "items": 100}, streams.zipf(3.0, 100)),
    ("POSG_UNIFORM", {}, streams.uniform(4096)),
    ("POSG_UNIFORM", {"items": 7}, streams.uniform(7)),
    ("DRIFTING_ZIPF", {}, streams.drifting(1.1, 10_000, 1_000_000, 10)),
    ("DRIFTING_ZIPF", {"z": 1.5, "keys": 100, "every": 9000, "step": 7}, streams.drifting(1.5, 100, 9000, 7)),
    ("LN1", {}, streams.lognormal(1.789, 2.366)),
    ("LN2", {}, streams.lognormal(2.245, 1.133)),
]


@pytest.mark.parametrize(("name", "options", "stream"), CASES)
def test_keys_are_those_of_the_stream(name, options, stream):
    blocks = create_dataset(name, **options, records=150_000, seed=5).blocks()
    keys = np.concatenate([np.array(block.keys.to_pylist(), np.int64) for block in blocks])
    assert (keys == stream.take(0, 150_000, 5)).all()
