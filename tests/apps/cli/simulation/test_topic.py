"""The keys of a real topic."""

import orjson
import pytest

from tests.apps.conftest import produce, publish
from tests.commands import unskew
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.errors import UsageError


@pytest.fixture
def filled(connection, topic):
    values = [b"no json" if i == 7 else orjson.dumps({"country": f"c{i % 5}"}) for i in range(300)]
    messages = (
        {"value": value, "key": f"k{i % 4}", "partition": i % 3, "timestamp": 1_000_000 + i}
        for i, value in enumerate(values)
    )
    produce(connection, topic, 3, messages)
    return connection, topic


def test_message_keys_in_the_order_of_time(filled):
    connection, topic = filled
    stream = StreamSpec(f"kafka:{topic}", 1000, 0, lambda: connection).read()
    assert stream.keys.to_pylist() == [f"k{i % 4}".encode() for i in range(300)]
    assert stream.times.tolist() == [1_000_000 + i for i in range(300)]
    assert StreamSpec(f"kafka:{topic}", 1000, 0, lambda: connection).partitions() == {0: 100, 1: 100, 2: 100}


def test_a_field_of_the_messages(filled):
    connection, topic = filled
    keys = StreamSpec(f"kafka:{topic}:country", 1000, 0, lambda: connection).read().keys.to_pylist()
    assert keys == [None if i == 7 else f"c{i % 5}" for i in range(300)]


def test_a_nested_field_as_the_topology_reads_it(connection, topic):
    values = [{"user": {"id": key}} for key in ("a", 7, True, None, [1])] + [{"user": 3}, {"user.id": "b"}]
    publish(connection, topic, 1, [*map(orjson.dumps, values), None], ms=[*range(1000, 1008)])
    keys = StreamSpec(f"kafka:{topic}:user.id", 1000, 0, lambda: connection).read().keys.to_pylist()
    assert keys == ["a", "7", "true", *[None] * 5]


def test_no_more_than_wanted(filled):
    connection, topic = filled
    assert len(StreamSpec(f"kafka:{topic}", 50, 0, lambda: connection).read().keys) == 50


def test_no_such_field_or_topic(filled):
    connection, topic = filled
    with pytest.raises(UsageError, match="has a field 'nation'"):
        StreamSpec(f"kafka:{topic}:nation", 1000, 0, lambda: connection).read()
    with pytest.raises(UsageError, match="missing-topic"):
        StreamSpec("kafka:missing-topic", 1000, 0, lambda: connection).read()


#: What each of a topic's partitions has → the line's end. The first has one that stands out, the second has too few.
UNEVEN = [([10] * 3 + [170] + [10] * 4, "8 partitions, the largest has 5.67 times the mean; hot: 3")]
UNEVEN += [([10, 30], "2 partitions, the largest has 1.50 times the mean")]


@pytest.mark.parametrize("more", [(), ("--cost", 1)], ids=["loads", "minutes"])
@pytest.mark.parametrize(("messages", "says"), UNEVEN, ids=["hot", "size skew alone"])
def test_the_command_says_how_uneven_the_partitions_are(connection, topic, messages, says, more):
    sizes = enumerate(messages)
    rows = ({"value": b"{}", "key": f"k{i % 7}", "partition": number} for number, n in sizes for i in range(n))
    produce(connection, topic, len(messages), rows)
    given = (f"kafka:{topic}", "--groupings", "KEY,SHUFFLE", "--workers", 2, *more)
    done = unskew("simulate", *given, "--bootstrap-servers", connection.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("Kafka: ")] == [f"Kafka: {says}"]
    assert f", S = {len(messages)}, W = 2" in done.stdout, "a source for each partition"
