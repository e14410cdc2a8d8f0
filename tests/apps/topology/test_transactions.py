"""Transactions: what is committed counts, what is aborted or still open doesn't, and no run waits for their ends."""

from collections import Counter

import pytest
from confluent_kafka import Producer

from evidence.speed.measuring import messages
from tests.apps.conftest import count_by_key, countries, read_results
from tests.oracle.truth import topic_records
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.metrics.query_progress import compute_lags
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader, newest_messages
from unskew.kafka.topics import end_offsets, ensure_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMITTED = [*countries(["kept"] * 497), b"bad", *countries(["late"] * 2)]
ABORTED = [*countries(["gone"] * 498), b"worse", b"worst"]


def transaction(connection, topic, values):
    """A producer with these messages in an open transaction, on two partitions in turns."""
    producer = Producer(connection.client(**{"transactional.id": f"{topic}-{values[0]!r}", "log_level": 0}))
    producer.init_transactions()
    producer.begin_transaction()
    for i, value in enumerate(values):
        producer.produce(topic, value, partition=i % 2)
    producer.flush()
    return producer


@pytest.fixture
def published(connection, topic):
    """500 messages are committed and 500 aborted, so that two ends of transactions are the last of each partition."""
    ensure_topic(connection, topic, 2)
    transaction(connection, topic, COMMITTED).commit_transaction()
    transaction(connection, topic, ABORTED).abort_transaction()


@pytest.mark.takes(20)
def test_aborted_messages_do_not_count_and_drained_comes(settings, spark, connection, topic, published):
    run = settings("PARTIAL_KEY", run_time=600.0)
    reports, progresses = [], []
    outcome = StreamingJob(run, [reports.append], [progresses.append]).run(spark)
    assert outcome.drained
    assert count_by_key(run) == Counter(kept=497, late=2)
    totals = reports[-1].totals
    assert (totals.routed, totals.rejected, totals.skipped) == (499, 1, 0)
    assert [value["value"] for _, value in read_results(run, "rejected")] == ["bad"]
    assert sum(compute_lags(progresses[-1]).values()) == 0


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(20)
def test_an_open_transaction_is_not_waited_for(settings, drain, connection, topic, published):
    still = transaction(connection, topic, countries(["open"] * 10))
    run = settings("KEY", run_time=600.0)
    drain(run)
    assert count_by_key(run) == Counter(kept=497, late=2)
    assert (
        sum(end_offsets(connection, topic, committed=False).values()) - sum(end_offsets(connection, topic).values())
        == 10
    )
    still.commit_transaction()
    drain(run)
    assert count_by_key(run) == Counter(kept=497, late=2, open=10)


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(20)
def test_who_wants_them_gets_all(settings, drain, connection, topic, published):
    still = transaction(connection, topic, countries(["open"] * 10))
    every = Connection(connection.bootstrap_servers, {"isolation.level": "read_uncommitted"})
    _, reports = drain(settings("KEY", connection=every, run_time=600.0))
    assert (reports[-1].totals.routed, reports[-1].totals.rejected) == (1007, 3)
    run = settings("KEY", run_time=600.0)
    with pytest.raises(EnvironmentFault, match=r"has counted messages of a transaction in topic .* still open: start"):
        StreamingJob(run, [])
    still.commit_transaction()
    _, reports = drain(run)
    assert (reports[-1].totals.routed, reports[-1].totals.rejected) == (1007, 3)


def test_all_other_readers_come_to_the_end(connection, topic, published):
    assert sorted(message.value() for message in newest_messages(connection, topic, 2000)) == sorted(COMMITTED)
    assert len(list(topic_records(connection, topic))) == len(messages(connection, topic)) == 500
    keys = StreamSpec(f"kafka:{topic}:country", 2000, 0, lambda: connection).read().keys
    assert Counter(keys.to_pylist()) == {"kept": 497, "late": 2, None: 1}
    with TopicReader(connection, topic) as reader:
        assert len(list(reader.to_end())) == 500
