"""Executors that die anywhere in a batch: what is done again must be what was done before."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from pyspark import StorageLevel

from tests.apps.conftest import by_key, countries, final_counts, publish
from tests.apps.process import START, broker, check, launch, truth  # noqa: F401  fixtures
from tests.apps.test_cluster import cluster, options  # noqa: F401  fixtures
from unskew.apps.topology import observer
from unskew.apps.topology.publisher import Publisher, result_topics
from unskew.apps.topology.router import Routing, route_packets

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KILLS = 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_executors_are_killed_at_any_moment(broker, topic, tmp_path, truth, launch, options, cluster):
    # round robin: a source that forgot its turn would send nearly all its tuples elsewhere
    topology = launch("SHUFFLE", *options, "--max-tuples", "500", mode="CLUSTER")
    rng = random.Random(10)
    hit = set()
    while topology.process.poll() is None and len(hit) < KILLS:
        time.sleep(rng.random())
        running = cluster.executors()
        batch = newest(tmp_path / "checkpoint" / "offsets")
        # the other executor still has its half of what was kept
        if len(running) == 2 and batch > 0 and batch not in hit:
            os.kill(rng.choice(running), signal.SIGKILL)
            hit.add(batch)
    assert len(hit) == KILLS, topology.output.read_text()
    topology.process.send_signal(signal.SIGTERM)  # the rest in larger batches
    assert topology.process.wait(300) == 0
    launch("SHUFFLE", *options, mode="CLUSTER").finish()
    check(broker, topic, "sg", truth)


def newest(log: Path) -> int:
    return max((int(f.name) for f in log.glob("[0-9]*")), default=-1)


def test_half_of_what_a_batch_keeps_is_lost_before_it_is_written(
    spark, settings, drain, connection, topic, monkeypatch
):
    """As when an executor dies then: one of two partitions is done again, from the router on."""
    publish(connection, topic, 2, countries(["a", "b", "c"] * 400), ms=[START + i for i in range(1200)])
    write, observe, lost = Publisher.write, observer.observe, []
    written = threading.Event()

    def late(publisher, records, role):
        try:
            lost.append(lose_one_partition(spark))
            write(publisher, records, role)
        finally:
            written.set()

    def afterwards(*given):
        written.wait()  # else the observer's job might do again what was lost
        written.clear()
        return observe(*given)

    monkeypatch.setattr(Publisher, "write", late)
    monkeypatch.setattr(observer, "observe", afterwards)
    run = settings("SHUFFLE", max_tuples=130, time="event", window=0.1, lateness=0.0, trigger=0.0, run_time=600.0)
    _, reports = drain(run)
    assert sum(lost) > 4
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == dict.fromkeys("abc", 400)
    assert reports[-1].totals.tuples == 1200


def lose_one_partition(spark) -> int:
    """Forget a partition of all that is kept in memory, and all that was shuffled; how much was there."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    environment = jvm.org.apache.spark.SparkEnv.get()
    tracker, lost = environment.mapOutputTracker(), 0
    for number in context.getPersistentRDDs().keySet().toArray():
        environment.blockManager().removeBlock(jvm.org.apache.spark.storage.RDDBlockId(number, 0), True)
        lost += 1
    for shuffle in range(10_000):
        if tracker.containsShuffle(shuffle):
            tracker.unregisterAllMapAndMergeOutput(shuffle)
    return lost


def test_all_that_a_batch_runs_knows_its_batch(settings, drain, connection, topic, monkeypatch):
    """Else a job that has to do the router's work again would do it without the router's state."""
    publish(connection, topic, 2, countries(["a", "b", "c"] * 100))
    write, seen = Publisher.write, []

    def watched(publisher, records, role):
        seen.append(records.sparkSession.sparkContext.getLocalProperty("streaming.sql.batchId"))
        write(publisher, records, role)

    monkeypatch.setattr(Publisher, "write", watched)
    run = settings("SHUFFLE", max_tuples=100, window=0.5, run_time=600.0)
    _, reports = drain(run)
    assert seen == [str(report.batch.number) for report in reports if report.windows]
    assert sum(by_key(final_counts(connection, result_topics(run)["aggregator"])).values()) == 300


def test_what_a_batch_keeps_is_kept_once(spark, settings, drain, connection, topic, monkeypatch):
    """The kills above prove something only if no executor has what another one loses."""
    publish(connection, topic, 2, countries(["a"] * 10))
    kept = []
    write = Publisher.write

    def watched(publisher, records, role):
        kept.extend(info.storageLevel().replication() for info in spark.sparkContext._jsc.sc().getRDDStorageInfo())
        write(publisher, records, role)

    monkeypatch.setattr(Publisher, "write", watched)
    drain(settings("SHUFFLE", window=0.5, run_time=600.0))
    assert kept
    assert set(kept) == {StorageLevel.MEMORY_AND_DISK_DESER.replication} == {1}


def test_a_router_of_a_stream_without_a_batch_number_refuses(tmp_path):
    streaming = Routing("SHUFFLE", 3, str(tmp_path), streaming=True)
    with pytest.raises(RuntimeError, match="without the number of its batch"):
        streaming.open(0)
    assert Routing("SHUFFLE", 3, str(tmp_path)).open(0)._versions is None
    assert callable(route_packets(streaming, "key", None, None, ["key"]))
