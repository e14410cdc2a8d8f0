"""A dataset into a real broker, and what comes out."""

from collections import Counter

import orjson
import pytest

from tests.producers.topic_contents import contents, expected
from unskew.errors import UsageError
from unskew.kafka.topics import end_offsets, ensure_topic
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.pace import Rate
from unskew.producers.publish import publish_dataset


@pytest.mark.parametrize(("records", "partitions"), [(0, 3), (1, 3), (7, 5), (200_003, 3), (70_000, 1)])
def test_every_record_once_in_order_and_evenly(connection, topic, records, partitions):
    dataset = create_dataset("COUNTRY_SKEW_R80", records=records, seed=11)
    ensure_topic(connection, topic, partitions)
    summary = publish_dataset(connection, topic, dataset)
    arrived = contents(connection, topic)
    assert arrived == expected(dataset, partitions)
    sizes = [len(values) for values in arrived.values()]
    assert max(sizes) - min(sizes) <= 1

    assert (summary.records, summary.failed, summary.interrupted) == (records, 0, False)
    everything = [value for values in arrived.values() for value in values]
    assert summary.size == sum(map(len, everything))
    assert summary.keys.tuples() == Counter(orjson.loads(value)["country"] for value in everything)


def test_a_rate_is_kept(connection, topic):
    dataset = create_dataset("COUNTRY_SKEW_R50", records=2000)
    ensure_topic(connection, topic, 2)
    seen = []
    summary = publish_dataset(
        connection, topic, dataset, pace=Rate(4000), progress=lambda records, size: seen.append((records, size))
    )
    # pieces of a 20th of a second: the last one is sent after (2000 - 200) / 4000 s, and never earlier
    assert summary.seconds >= 0.45
    assert seen[-1] == (2000, summary.size)
    assert [records for records, _ in seen] == list(range(200, 2001, 200))


def test_the_user_may_stop_it(connection, topic):
    ensure_topic(connection, topic, 3)
    dataset = create_dataset("COUNTRY_SKEW_R50", records=10**9)
    sent = []
    summary = publish_dataset(
        connection,
        topic,
        dataset,
        progress=lambda records, size: sent.append(records),
        stopped=lambda: bool(sent) and sent[-1] >= 100_000,
    )
    assert summary.interrupted
    assert summary.records == sent[-1] < 1_000_000
    assert sum(end_offsets(connection, topic).values()) == summary.records


def test_a_missing_topic_is_said_at_once(connection, topic):
    with pytest.raises(UsageError, match=f"no topic {topic}"):
        publish_dataset(connection, topic, create_dataset("COUNTRY_SKEW_R0", records=1))
