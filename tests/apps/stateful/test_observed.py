"""A worker that is observed yields a report among its parcels."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Tally, packets_of
from unskew.apps.metrics.balance_observation import Observation
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.operator_output import REPORT
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.worker import run_batch

ROWS = pa.record_batch({"key": ["a", "b", None, "a", "c"], "value": [1] * 5})
ROUTED = np.array([1, 1, 1, 1, 0], np.int32)


@pytest.mark.parametrize("split", [False, True])
def test_a_report_counts_what_came_and_what_is_kept(split):
    config = KeyedOperatorConfig(
        Tally(), pa.string(), 2, split, ttl_ms=60_000, observe=Observation("unskew", "PARTIAL_KEY")
    )
    packets = packets_of(ROWS, ROUTED, 2)
    for worker, (tuples, keys) in enumerate([(1, 1), (4, 3)]):
        store = MemoryStore()
        parcels = run_batch(config, store, worker, packets[worker], WorkerBatch(0, 1000, 1000), OperatorProgress())
        [report] = [json.loads(parcel.blob) for parcel in parcels if parcel.kind == REPORT]
        assert (report["tuples"], report["keys"], report["moved"]) == (tuples, keys, 0)
        assert report["states"] == keys
        assert report["size"] > 0


def test_without_an_observation_there_is_no_report():
    config = KeyedOperatorConfig(Tally(), pa.string(), 2, split=False, ttl_ms=60_000)
    parcels = run_batch(
        config, MemoryStore(), 1, packets_of(ROWS, ROUTED, 2)[1], WorkerBatch(0, 1000, 1000), OperatorProgress()
    )
    assert REPORT not in [parcel.kind for parcel in parcels]
