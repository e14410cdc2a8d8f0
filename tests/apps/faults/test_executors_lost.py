"""What an executor loses in the middle of a batch is done again as it was done before."""

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.apps.conftest import count_by_key, countries, publish
from tests.apps.shuffles import lose_what_was_shuffled
from tests.harness.topology import START
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import make_packet_router
from unskew.spark.micro_batches import get_batch_number

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def waiting(folder: Path):
    """Work that goes on when what its batch has shuffled is lost; the tasks can't import the tests."""

    def work(tuples: pa.RecordBatch) -> pa.RecordBatch:
        (folder / f"{get_batch_number()}.waits").touch()
        while not (folder / f"{get_batch_number()}.lost").exists():
            time.sleep(0.01)
        return pa.record_batch([tuples.column("key"), pa.array([1] * tuples.num_rows)], ["key", "count"])

    return work


@pytest.mark.nightly(group="kills")
@pytest.mark.parametrize("grouping", ["SHUFFLE", "PLANNED"])
def test_what_a_batch_has_shuffled_is_lost_while_it_is_at_work(
    spark, settings, drain, connection, topic, tmp_path, grouping
):
    """As when an executor dies: of six workers four have their packets, for the others the routers do it again."""
    publish(connection, topic, 2, countries(["a", "b", "c"] * 400), ms=[START + i for i in range(1200)])
    over = threading.Event()

    def lose() -> None:
        while not over.wait(0.01):
            for mark in tmp_path.glob("*.waits"):
                if not mark.with_suffix(".lost").exists():
                    lose_what_was_shuffled(spark)
                    mark.with_suffix(".lost").touch()

    by_time = {"time": "event", "window": 0.1, "lateness": 0.0, "trigger": 0.0, "run_time": 600.0}
    a_task_a_worker = {"speed": "x1", "process_ms": 0.001}
    run = settings(grouping, workers=6, max_tuples=250, work=waiting(tmp_path), **by_time, **a_task_a_worker)
    loses = threading.Thread(target=lose)
    loses.start()
    try:
        _, reports = drain(run)
    finally:
        over.set()
        loses.join()
    assert len(list(tmp_path.glob("*.lost"))) > 3
    assert count_by_key(run) == dict.fromkeys("abc", 400)
    assert reports[-1].totals.tuples == reports[-1].totals.routed == 1200


def test_a_router_of_a_stream_without_a_batch_number_refuses(tmp_path):
    streaming = Routing("SHUFFLE", 3, str(tmp_path), streaming=True)
    with pytest.raises(RuntimeError, match="without the number of its batch"):
        streaming.open(0)
    assert Routing("SHUFFLE", 3, str(tmp_path)).open(0)._versions is None
    assert callable(make_packet_router(streaming, "key", None, None, ["key"]))
