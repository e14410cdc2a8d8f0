"""A grouping chooses the partitions, and a consumer group shares the load as it does."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.producers.topic_contents import contents
from unskew.errors import UsageError
from unskew.grouping import create as grouping
from unskew.kafka.topics import end_offsets, ensure_topic
from unskew.producers.datasets.interface import Block
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.partitioning import Partitioner, RoundRobinPlacement
from unskew.producers.publish import publish_dataset
from unskew.producers.resumption import UploadJournal


def keys_of(dataset):
    parts = [block.first_keys() for block in dataset.blocks()]
    return pa.concat_arrays([p.dictionary_decode() if isinstance(p, pa.DictionaryArray) else p for p in parts])


def chosen(partitioner, dataset):
    position, parts = 0, []
    for block in dataset.blocks():
        parts.append(partitioner.choose(block, position))
        position += len(block)
    return np.concatenate(parts)


@pytest.mark.parametrize("name", ["COUNTRY_SKEW_R80", "TWITTER_ELECTION", "WIKIPEDIA_CLICKSTREAM"])
def test_the_partition_is_the_grouping_s_worker(name):
    dataset = create_dataset(name, records=70_000)
    keys = keys_of(dataset)
    for scheme in ("KEY", "PARTIAL_KEY", "W_CHOICES", "SHUFFLE"):
        assert np.array_equal(chosen(Partitioner(scheme, 7), dataset), grouping(scheme, 7).route(keys))


def test_schemes_that_go_by_time_are_given_the_records_own():
    dataset = create_dataset("TWITTER_TICKER", records=70_000)
    partitions = chosen(Partitioner("DYNAMIC_KEY", 5), dataset)
    times = np.concatenate([block.times for block in dataset.blocks()])
    assert np.array_equal(partitions, grouping("DYNAMIC_KEY", 5).route(keys_of(dataset), times))
    with pytest.raises(UsageError, match="these records have none"):
        chosen(Partitioner("DYNAMIC_KEY", 5), create_dataset("ZIPF", records=5))


def test_schemes_that_go_by_cost_are_given_the_counts():
    dataset = create_dataset("WIKIPEDIA_CLICKSTREAM", records=1000)
    partitions = chosen(Partitioner("FULL_KNOWLEDGE", 3), dataset)
    counts = np.concatenate([block.counts for block in dataset.blocks()]).astype(float)
    assert np.array_equal(partitions, grouping("FULL_KNOWLEDGE", 3).route(keys_of(dataset), costs=counts))


def test_the_first_of_several_keys_counts():
    block = Block(pa.array([b"0", b"1", b"2"]), pa.array(["a", "b", "c"]), np.array([0, 2, 2], np.int32))
    assert block.first_keys().to_pylist() == ["a", None, "b"]


def test_one_key_at_a_time_is_routed_as_many_are():
    keys = keys_of(create_dataset("COUNTRY_SKEW_R80", records=2000)).to_pylist()
    for scheme in ("KEY", "PARTIAL_KEY", "BOUNDED_LOAD", "SHUFFLE"):
        one, many = Partitioner(scheme, partitions=7), Partitioner(scheme, partitions=7)
        assert [one(key) for key in keys[:1000]] == many.route(keys[:1000]).tolist()
        assert [one.partition(key.encode()) for key in keys[1000:2000]] == many.route(keys[1000:2000]).tolist()
        assert type(one(keys[0])) is int


def test_threads_share_one():
    p = Partitioner("SHUFFLE", partitions=4)
    with ThreadPoolExecutor(4) as pool:
        chosen = list(pool.map(lambda _: p("key"), range(4000)))
    assert np.bincount(chosen).tolist() == [1000] * 4


def test_schemes_get_the_clock_or_the_given_time():
    given, ours = (Partitioner("DYNAMIC_KEY", partitions=3) for _ in range(2))
    for time in range(0, 50_000, 1000):
        assert given.partition("tr", time=time) == ours.route(["tr"], time)[0]
    assert 0 <= given("tr") < 3


def test_what_it_refuses():
    with pytest.raises(UsageError, match="valid: str, bytes, integers of 64 bits, None"):
        Partitioner("KEY", partitions=2).partition(1.5)
    with pytest.raises(UsageError, match="did not recognize"):
        Partitioner("KEY", partitions=2)(object())
    with pytest.raises(UsageError, match="int64 can't hold; valid: str"):
        Partitioner("KEY", partitions=2)(2**64)
    with pytest.raises(ValueError, match="unknown grouping 'KEYS'; did you mean KEY"):
        Partitioner("KEYS", partitions=2)
    with pytest.raises(ValueError, match="MIXED needs feedback"):
        Partitioner("MIXED", partitions=2)
    with pytest.raises(ValueError, match="is 0; valid: an integer of at least 1"):
        Partitioner("KEY", partitions=0)


def test_records_carry_their_keys(connection, topic):
    ensure_topic(connection, topic, 3)
    dataset = create_dataset("COUNTRY_SKEW_R40", records=5000)
    publish_dataset(connection, topic, dataset, placement=Partitioner("KEY", 3))
    expected = grouping("KEY", 3).route(keys_of(dataset))
    consumer = Consumer(connection.client(**{"group.id": topic}))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    seen = {}
    while len(seen.setdefault("all", [])) < 5000:
        seen["all"] += consumer.consume(1000, timeout=5)
    consumer.close()
    for message in seen["all"]:
        assert message.value() == b'{"country":"' + message.key() + b'"}'
    assert sorted(end_offsets(connection, topic).values()) == sorted(np.bincount(expected, minlength=3).tolist())


def test_an_upload_by_a_grouping_can_be_resumed(connection, topic, tmp_path):
    ensure_topic(connection, topic, 4)
    dataset = create_dataset("COUNTRY_SKEW_R80", records=200_000, seed=3)
    for resume, limit in ((False, 80_000), (True, 10**9)):
        sent = [0]
        publish_dataset(
            connection,
            topic,
            dataset,
            placement=Partitioner("PARTIAL_KEY", 4),
            journal=UploadJournal(topic, dataset, tmp_path),
            resume=resume,
            progress=lambda records, _, sent=sent: sent.__setitem__(0, records),
            stopped=lambda sent=sent, limit=limit: sent[0] >= limit,
        )
    partitions = grouping("PARTIAL_KEY", 4).route(keys_of(dataset))
    messages = [message for block in dataset.blocks() for message in block.messages.to_pylist()]
    expected = {p: [messages[at] for at in np.flatnonzero(partitions == p)] for p in range(4)}
    assert contents(connection, topic) == expected


def test_another_number_of_partitions_is_refused(connection, topic):
    ensure_topic(connection, topic, 2)
    with pytest.raises(UsageError, match="has 2 partitions, not 3"):
        publish_dataset(connection, topic, create_dataset("ZIPF", records=1), placement=RoundRobinPlacement(3))


@pytest.mark.kafka
@pytest.mark.nightly(group="documents")
def test_the_example_of_a_consumer_group_runs(capsys):
    path = Path(__file__).parents[2] / "examples" / "balanced_consumers.py"
    spec = importlib.util.spec_from_file_location("balanced_consumers", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(["KEY", "PARTIAL_KEY"])
    shown = capsys.readouterr().out
    assert "PARTIAL_KEY" in shown
    assert "1.01" in shown
