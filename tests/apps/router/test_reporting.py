"""A worker of `balanced_map` that is observed reports its tuples and keys in a last row of its own."""

import json

import numpy as np
import pyarrow as pa

from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker import usage_reports
from unskew.apps.worker.usage_reports import WorkerUsage, append_report, track_usage
from unskew.grouping.keys import encode_keys

RESULTS = pa.schema([pa.field("user", pa.string(), nullable=False), ("n", pa.int64())])


def packets(*users: list[str | None]) -> list[pa.RecordBatch]:
    """Packets for worker 2 of 3, one for each list, as routers cut them."""
    return [
        cut_packets(
            pa.record_batch({"user": pa.array(some, pa.string()).dictionary_encode(), "n": np.arange(len(some))}),
            np.full(len(some), 2, np.int32),
            3,
        )
        for some in users
    ]


def reported(work, arrived, names):
    worked = WorkerUsage()
    return append_report(track_usage(work, iter(arrived), names, "user", worked), worked, RESULTS)


def test_the_last_row_is_the_report():
    got = []

    def work(batches):
        for batch in batches:
            got.append(batch)
            yield batch.rename_columns(["who", "number"])

    arrived = packets(["a", "b", "a"], ["b", None])
    *results, last = reported(work, arrived, ["user", "n"])
    assert [batch.column("user").type for batch in got] == [pa.string()] * 2
    assert [batch.column("who").to_pylist() for batch in results] == [["a", "b", "a"], ["b", None]]
    assert all(batch.schema == last.schema for batch in results)
    assert all(batch.columns[-1].null_count == batch.num_rows for batch in results)
    *none, worker, report = (column.to_pylist() for column in last.columns)
    assert none == [[None], [None]]
    assert worker == [2]
    found = json.loads(report[0])
    assert (found["tuples"], found["keys"], found["states"]) == (5, 3, None)
    assert found["busy"] >= 0
    assert [*reported(iter, [], ["user", "n"])] == [], "a worker without tuples reports nothing"
    [last] = reported(lambda batches: iter([*batches][:0]), packets(["a"]), ["n"])
    assert (last.schema.names[:2], last.schema.field("user").nullable) == (["user", "n"], True)
    assert json.loads(last.columns[-1][0].as_py())["tuples"] == 1


def test_the_keys_of_several_packets_are_those_of_all_tuples():
    worked = WorkerUsage()
    users = [["a", "b", "a"], ["c", "b", None], ["a"]]
    [*_] = track_usage(iter, iter(packets(*users)), ["n"], "user", worked)
    whole = encode_keys(pa.array([user for some in users for user in some]))
    assert worked.keys.hashes[worked.keys.codes].tolist() == whole.hashes[whole.codes].tolist()
    assert len(worked.keys.hashes) == 4


def test_a_worker_that_waits_for_spark_is_not_busy(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(usage_reports.time, "perf_counter", lambda: clock[0])

    def arrived():
        for packet in packets(["a"], ["b"]):
            clock[0] += 100
            yield packet
        clock[0] += 100

    def work(batches):
        for batch in batches:
            clock[0] += 1
            yield batch
            clock[0] += 2

    worked = WorkerUsage()
    for _ in track_usage(work, arrived(), ["n"], "user", worked):
        clock[0] += 10  # Spark takes the results
    assert worked.busy == 6
