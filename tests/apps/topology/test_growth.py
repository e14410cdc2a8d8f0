"""A topic that gets more partitions, while a run reads it and between two runs."""

from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.aggregator.rejected_messages import read_rejected
from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.errors import UsageError
from unskew.kafka.topics import count_partitions

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def grow(connection, topic, partitions) -> None:
    admin = AdminClient(connection.client())  # a name, so that it lives until the answer is here
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
    while count_partitions(connection, topic) != partitions:
        pass


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
    counts = by_key(final_counts(connection, list_result_topics(given)["aggregator"]))
    assert counts == Counter(a=40, b=60, c=50)
    assert later[-1].totals.rejected == 8
    assert len(dict(records(connection, list_result_topics(given)["rejected"]))) == 8


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
