"""What an operator gives beyond the bytes that Spark takes at once: all of it arrives, and its files don't stay."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Tally, packets_of
from unskew.apps.checkpoint import folders
from unskew.apps.checkpoint.overflow import Overflow, fetch_blob
from unskew.apps.worker.stateful import tasks
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, MergePeriod
from unskew.apps.worker.stateful.operator import PARCELS, MergerOperator, WorkerOperator
from unskew.apps.worker.stateful.operator_output import COUNTS, FRAGMENTS, HEARTBEAT, OUT, RESULTS, read_rows
from unskew.errors import EnvironmentFault
from unskew.spark.compat import convert_schema_to_arrow

WORKERS, TOKENS, WINDOW, FAR = 3, [7, 8, 9], 40, 1000


def test_blobs_up_to_the_bound_and_then_files(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE", 0.0)
    where, blobs = str(tmp_path), [b"a" * 40, b"b" * 60, b"c" * 10, b""]
    overflow = Overflow(where, 100)
    given = [overflow.put("merger-3", 5, number, blob) for number, blob in enumerate(blobs)]
    assert given == [blobs[0], blobs[1], b"file:merger-3/5/2", b""]
    assert [fetch_blob(blob, where) for blob in given] == blobs
    overflow.forget("merger-3", 5)
    assert fetch_blob(given[2], where) == blobs[2], "a replay of the batch may still read it"
    overflow.forget("merger-33", 9)
    overflow.forget("merger-3", 6)
    with pytest.raises(
        EnvironmentFault, match=r"what merger-3 gave in batch 5 is not in .*/unskew/overflow/merger-3/5/2"
    ):
        fetch_blob(given[2], where)


class Handle:
    """Spark's handle, and the state of each group."""

    def __init__(self):
        self.group = None
        self.blobs = defaultdict(dict)

    def getMapState(self, *_):  # noqa: N802
        return self

    def getValue(self, address):  # noqa: N802
        return self.blobs[self.group].get(address)

    def updateValue(self, address, value):  # noqa: N802
        self.blobs[self.group][address] = value

    def removeKey(self, address):  # noqa: N802
        self.blobs[self.group].pop(address, None)

    def registerTimer(self, ms):  # noqa: N802
        pass


def timers(ms):
    return SimpleNamespace(getCurrentWatermarkInMs=lambda: ms, getCurrentProcessingTimeInMs=lambda: ms)


@pytest.fixture
def batches(monkeypatch):
    """Two batches of workers and mergers: what each call gave, and what left the dataflow. The second has timers only.

    ``keep`` says whether mergers keep states from batch to batch.
    """

    def run(checkpoint, most, *, keep):
        windows = {"event": True, "window_ms": WINDOW, "counted_ms": WINDOW}
        windows["merge_every"] = MergePeriod(batches=1) if keep else None
        config = KeyedOperatorConfig(
            Tally(), pa.string(), WORKERS, True, 2, checkpoint=checkpoint, most=most, **windows
        )
        worker, merger, calls = WorkerOperator(config, TOKENS), MergerOperator(config, TOKENS), []
        found = defaultdict(list)
        at_workers, at_mergers = Handle(), Handle()
        keys = [f"key {i % 50}" for i in range(300)]
        columns = [pa.array(keys), pa.array(range(300)), pa.array([5] * 300, pa.timestamp("ms", "UTC"))]
        tuples = pa.record_batch(columns, ["key", "value", "time"])
        packets = packets_of(tuples, np.arange(300, dtype=np.int32) % WORKERS, WORKERS)
        for number, watermark in enumerate([0, FAR]):
            monkeypatch.setattr(tasks, "get_batch_number", lambda number=number: number)
            worker.init(at_workers)
            merger.init(at_mergers)
            given, out = [], []
            for w, token in enumerate(TOKENS):
                at_workers.group = token
                if number:
                    given.append([*worker.handleExpiredTimer((token,), timers(watermark), None)])
                else:
                    [packet] = packets[w]
                    row = {"worker": w, "source": 0, "number": 0, "packet": packet, "batch_ms": 5}
                    given.append([*worker.handleInputRows((token,), iter([row]), timers(watermark))])
            together = [row for each in given for row in each]
            calls += [together] if number else given
            rows = [row.asDict() for row in together]
            for token in TOKENS[:2]:
                at_mergers.group = token
                own = [row for row in rows if row["token"] == token]
                if keep:
                    calls.append([*merger.handleInputRows((token,), iter(own), timers(watermark))])
                    out += calls[-1]
                else:
                    schema = convert_schema_to_arrow(PARCELS)
                    made = tasks.make_stateless_merger(config)(iter([pa.RecordBatch.from_pylist(own, schema)]))
                    out += [row for batch in made for row in batch.to_pylist()]
            for row in out:
                assert row["kind"] in OUT
                found[row["kind"]] += read_rows(fetch_blob(row["blob"], checkpoint)).to_pylist()
        return calls, {kind: sorted(rows, key=repr) for kind, rows in found.items()}

    return run


@pytest.mark.parametrize("most", [1000, 5000])  # bytes: less than a worker gives in a call, and less than all timers
@pytest.mark.parametrize("keep", [True, False])
def test_a_worker_and_a_merger_give_any_number_of_bytes(batches, tmp_path, keep, most):
    _, expected = batches(str(tmp_path / "large"), 1 << 30, keep=keep)
    assert not (tmp_path / "large").exists()
    assert [len(expected[kind]) for kind in (RESULTS, COUNTS)] == [100, 150]
    small = tmp_path / "small"
    calls, found = batches(str(small), most, keep=keep)
    assert found == expected
    for call in calls:
        # without the names of files, and what heartbeats say
        blobs = [row["blob"] for row in call if row["kind"] != HEARTBEAT and not row["blob"].startswith(b"file:")]
        assert sum(map(len, blobs)) <= most
    files = [(row["kind"], row["blob"]) for call in calls for row in call if row["blob"].startswith(b"file:")]
    kinds, batch = {kind for kind, _ in files}, {blob.split(b"/")[1] for _, blob in files}
    assert COUNTS in kinds
    if most == 1000:
        assert kinds == ({RESULTS, COUNTS, FRAGMENTS} if keep else {COUNTS, FRAGMENTS})
        assert batch == ({b"0", b"1"} if keep else {b"1"})
    assert {path.name for path in small.glob("unskew/overflow/*/*")} == {"1"}, "those of batch 0 are gone"
