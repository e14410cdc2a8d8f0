"""Workers and mergers by themselves, without Spark: of a DataFrame that isn't a stream, and observed ones."""

import json
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Tally, packets_of
from unskew.apps.library import static_keyed_map
from unskew.apps.library.static_keyed_map import AT_THE_END, END, execute_worker
from unskew.apps.metrics.balance_observation import Observation
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.merger import merge_fragments
from unskew.apps.worker.stateful.operator_output import REPORT, RESULTS, read_rows
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.worker import run_batch

WORKERS = 3
EARLY = -86_400_000  # a day before 1970


def rows_of(parcels):
    return [row for parcel in parcels if parcel.kind == RESULTS for row in read_rows(parcel.blob).to_pylist()]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("together", [1, 1 << 30])
@pytest.mark.parametrize("slide", [None, 250])
def test_all_states_end(monkeypatch, split, together, slide):
    """By event time, of any age, however many packets are executed at once: every window's tuples are counted."""
    monkeypatch.setattr(static_keyed_map, "_TOGETHER", together)
    rng = np.random.default_rng(3)
    packets, truth = defaultdict(list), Counter()
    for _ in range(4):
        keys, times = rng.integers(0, 20, 200), EARLY + rng.integers(0, 10_000, 200)
        columns = [pa.array([f"k{key}" for key in keys]).dictionary_encode(), pa.array(np.ones(200, np.int64))]
        rows = pa.record_batch([*columns, pa.array(times, pa.timestamp("ms", "UTC"))], ["key", "value", "time"])
        routed = rng.integers(0, WORKERS, 200) if split else keys % WORKERS
        for worker, of in enumerate(packets_of(rows, routed.astype(np.int32), WORKERS)):
            packets[worker] += of
        step = slide or 1000
        for back in range(0, 1000, step):
            starts = times // step * step - back
            truth.update((int(start), f"k{key}") for key, start in zip(keys, starts, strict=True))
    every = AT_THE_END if split else None
    config = KeyedOperatorConfig(Tally(), pa.string(), WORKERS, split, WORKERS, True, 1000, None, every, slide_ms=slide)
    parcels = [each for worker, of in packets.items() for each in execute_worker(config, worker, of, 0)]
    found = rows_of(parcels)
    if split:
        assert not found
        for merger in range(WORKERS):
            arrived = [each for each in parcels if each.merger == merger]
            found += rows_of(merge_fragments(config, MemoryStore(), merger, arrived, WorkerBatch(0, 0, END)))
    finished = {(row["__window"], row["__key"]): row["n"] for row in found if row["kind"] == "finished"}
    assert finished == truth


ROWS = pa.record_batch({"key": ["a", "b", None, "a", "c"], "value": [1] * 5})


def run_packets(worker, *, split=False, observe=None):
    """The parcels of a worker that gets its packets of a batch."""
    config = KeyedOperatorConfig(Tally(), pa.string(), 2, split, ttl_ms=60_000, observe=observe)
    packets = packets_of(ROWS, np.array([1, 1, 1, 1, 0], np.int32), 2)[worker]
    return [*run_batch(config, MemoryStore(), worker, packets, WorkerBatch(0, 1000, 1000), OperatorProgress())]


@pytest.mark.parametrize("split", [False, True])
def test_a_report_counts_what_came_and_what_is_kept(split):
    for worker, (tuples, keys) in enumerate([(1, 1), (4, 3)]):
        parcels = run_packets(worker, split=split, observe=Observation("unskew", "PARTIAL_KEY"))
        [report] = [json.loads(parcel.blob) for parcel in parcels if parcel.kind == REPORT]
        assert (report["tuples"], report["keys"], report["moved"]) == (tuples, keys, 0)
        assert report["states"] == keys
        assert report["size"] > 0


def test_without_an_observation_there_is_no_report():
    assert REPORT not in [parcel.kind for parcel in run_packets(1)]
