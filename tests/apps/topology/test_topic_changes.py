"""Topics that change: messages that are removed before they are counted, topics made again, and more partitions."""

from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.apps.conftest import count_by_key, countries, publish, read_results
from tests.waiting import awaited
from unskew.apps.aggregator.rejected_messages import read_rejected
from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.splitter.kafka_source import count_lost_messages
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.topics import count_partitions, first_offsets

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def remove(connection, topic, **before) -> None:
    """Remove the messages before these offsets of the partitions p0, p1, as retention does."""
    positions = [TopicPartition(topic, int(name[1:]), offset) for name, offset in before.items()]
    admin = AdminClient(connection.client())  # a name, so that it lives until the answers are here
    for removed in admin.delete_records(positions).values():
        removed.result()
    assert first_offsets(connection, topic) == {int(name[1:]): offset for name, offset in before.items()}


def test_what_is_gone(connection, topic):
    publish(connection, topic, 2, countries(["a"] * 20))
    remove(connection, topic, p0=7, p1=0)
    assert count_lost_messages(connection, topic, {"0": 3, "1": 0}) == {0: 4}
    assert count_lost_messages(connection, topic, {"0": 3, "1": 0}, {"0": 5, "1": 9}) == {0: 2}
    assert count_lost_messages(connection, topic, {"0": 8, "1": 10}) == {}
    assert count_lost_messages(connection, topic, {"0": 10, "1": 50}) == {1: 10}, "a topic that was made anew"


@pytest.mark.nightly(group="groupings")
def test_it_is_told_and_skipped_by_order(settings, drain, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 20))
    run = settings("SHUFFLE", window=0.5, run_time=600.0)
    drain(run)
    publish(connection, topic, 2, [*countries(["b"] * 30 + ["nothing"]), b"bad"])
    remove(connection, topic, p0=22, p1=14)
    with pytest.raises(EnvironmentFault) as error:
        StreamingJob(run, [])
    assert str(error.value) == (
        f"topic {topic} no longer has 16 messages that are not counted yet (partition 0: 12, partition 1: 4); "
        "--on-data-loss skip goes on without them"
    )
    patient = settings("SHUFFLE", window=0.5, run_time=600.0, on_data_loss="skip")
    _, reports = drain(patient)
    assert count_by_key(run) == Counter(a=20, b=14, nothing=1)
    totals = reports[-1].totals
    assert (totals.skipped, totals.rejected, totals.tuples) == (16, 1, 35)
    assert len(read_results(run, "rejected")) == 1


@pytest.mark.nightly(group="groupings")
def test_it_happens_under_a_run(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 10))
    removed = []

    def remove_once(report):
        if not removed:
            removed.append(report)
            publish(connection, topic, 2, countries(["b"] * 20))
            remove(connection, topic, p0=12, p1=5)

    run = StreamingJob(
        settings("SHUFFLE", max_tuples=10, window=0.5, run_time=600.0, until_drained=False), [remove_once]
    )
    with pytest.raises(EnvironmentFault, match=r"no longer has 7 messages that are not counted yet \(partition 0: 7\)"):
        run.run(spark)


def make_again(connection, topic, keys) -> None:
    """Delete the topic, and make it again with these messages."""
    admin = AdminClient(connection.client())
    admin.delete_topics([topic])[topic].result()
    awaited(lambda: count_partitions(connection, topic) is None, "the topic is gone")
    publish(connection, topic, 2, countries(keys))


@pytest.mark.ci
@pytest.mark.takes(30)
def test_a_topic_that_was_made_again_is_told_and_skipped_by_order(settings, drain, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 20))
    run = settings("SHUFFLE", run_time=600.0)
    drain(run)
    make_again(connection, topic, ["b"] * 20 + ["c"] * 30)  # it has outgrown the offsets
    with pytest.raises(EnvironmentFault) as error:
        StreamingJob(run, [])
    first, *rest = str(error.value).splitlines()
    assert first.startswith(f"topic {topic} was deleted and made again since the checkpoint {run.location} began (id ")
    assert first.endswith(
        ": begin with another --checkpoint; --on-data-loss skip goes on at the offsets of the old one"
    )
    assert not rest
    patient = settings("SHUFFLE", run_time=600.0, on_data_loss="skip")
    _, reports = drain(patient)
    assert count_by_key(run) == Counter(a=20, c=30)
    assert (reports[-1].totals.skipped, reports[-1].totals.tuples) == (20, 50)
    StreamingJob(run, [])  # this topic is known by now


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(30)
def test_it_is_made_again_under_a_run(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 20))
    made = []

    def again(report):
        if not made and report.totals.routed == 20:
            made.append(report)
            make_again(connection, topic, ["b"] * 50)

    run = StreamingJob(settings("SHUFFLE", run_time=600.0, until_drained=False), [again])
    with pytest.raises(EnvironmentFault, match=f"topic {topic} was deleted and made again since the checkpoint"):
        run.run(spark)
    assert made


def grow(connection, topic, partitions) -> None:
    admin = AdminClient(connection.client())  # a name, so that it lives until the answer is here
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
    awaited(lambda: count_partitions(connection, topic) == partitions, "the partitions are there")


def refill(connection, topic, partitions, keys) -> None:
    """Send messages to all partitions that there are now, one to each that will be rejected."""
    grow(connection, topic, partitions)
    publish(connection, topic, partitions, [*[b"{"] * partitions, *countries(keys)])


@pytest.mark.nightly(group="groupings")
def test_a_run_goes_on_with_more_sources(settings, spark, drain, connection, topic, caplog):
    publish(connection, topic, 2, countries(["a"] * 40))
    reports = []

    def grown(report):
        reports.append(report)
        if len(reports) == 1:
            refill(connection, topic, 3, ["b"] * 60)
        if report.totals.routed == 100:
            run.stop()

    run = StreamingJob(settings(until_drained=False), [grown])
    run.run(spark)
    assert {source for report in reports for source in report.internals} == {0, 1, 2}
    refill(connection, topic, 5, ["c"] * 50)
    given = settings()
    outcome, later = drain(given)
    assert outcome.drained
    assert {source for report in later for source in report.internals} == {0, 1, 2, 3, 4}
    assert f"topic {topic} has 5 partitions, 2 when the run began: it goes on with 5 sources" in caplog.text
    assert count_by_key(given) == Counter(a=40, b=60, c=50)
    assert later[-1].totals.rejected == 8
    assert len(dict(read_results(given, "rejected"))) == 8


def test_what_is_rejected_in_a_batch_from_before(settings, spark, connection, topic):
    """A batch that is run again has the partitions that there were when it was planned."""
    publish(connection, topic, 2, [b"{", *countries(["a"])])
    grow(connection, topic, 3)
    batch = Batch(1, 0, 0, 0, {topic: {"0": 0, "1": 0}}, {topic: {"0": 1, "1": 1}})
    [row] = read_rejected(spark, settings(), batch, {}).collect()
    assert row.key == f"{topic}-0-0"


def test_a_new_run_must_know_its_sources(settings, connection, topic):
    publish(connection, topic, 3, countries(["a"]))
    with pytest.raises(UsageError, match="has 3 partitions, not the 2 asked for"):
        StreamingJob(settings(), [])
