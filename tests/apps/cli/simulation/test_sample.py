"""The sample of a topic, without a broker."""

import pytest

from unskew.apps.cli.simulation import cost_sample, input_stream
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.errors import UsageError


class Message:
    def __init__(self, partition, offset, time):
        self._partition, self._offset, self._time = partition, offset, time

    def key(self):
        return f"{self._partition}/{self._offset}".encode()

    def value(self):
        return b'{"user":"%s"}' % self.key()

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset

    def timestamp(self):
        return 1, self._time


class Reader:
    """One partition comes after the other, though their times alternate."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def to_end(self):
        return iter([Message(partition, at, 2 * at + partition) for partition in range(2) for at in range(50)])


@pytest.fixture(autouse=True)
def topic(monkeypatch):
    monkeypatch.setattr(input_stream, "TopicReader", Reader)


@pytest.mark.parametrize("spec", ["kafka:clicks", "kafka:clicks:user"])
def test_a_tuple_has_the_columns_of_its_own_message(spec):
    settings = {"work": len, "work_columns": ("value", "partition", "offset", "timestamp")}
    _, tuples = cost_sample.read_sample(StreamSpec(spec, 10, 0, lambda: None), settings)
    rows = tuples.to_pylist()
    assert [row["timestamp"] for row in rows] == list(range(100))
    for row in rows:
        assert row["key"] == f"{row['partition']}/{row['offset']}"
        assert row["value"] == b'{"user":"%s"}' % row["key"].encode()


def test_mistakes_are_named():
    with pytest.raises(UsageError, match="a message has no column 'colour' here; valid: value, offset"):
        cost_sample.read_sample(
            StreamSpec("kafka:clicks", 10, 0, lambda: None), {"work": len, "work_columns": ("colour",)}
        )
    for call in (lambda given: given.partitions(), lambda given: given.read()):
        with pytest.raises(UsageError, match="stream is 'kafka:'; valid: kafka:TOPIC or kafka:TOPIC:FIELD"):
            call(StreamSpec("kafka:", 10, 0, lambda: None))


def test_keys_that_are_no_text_are_named(monkeypatch):
    monkeypatch.setattr(Message, "key", lambda _: b"\xff")
    with pytest.raises(UsageError, match="stream 'kafka:clicks' has keys that are no text in UTF-8"):
        cost_sample.read_sample(StreamSpec("kafka:clicks", 10, 0, lambda: None), {"work": len, "work_columns": ()})
