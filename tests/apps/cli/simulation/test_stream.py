"""Where `unskew simulate` gets its keys from."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from unskew.apps.cli.simulation import cost_sample, input_stream
from unskew.apps.cli.simulation.input_stream import GENERATORS, StreamSpec
from unskew.errors import UsageError
from unskew.grouping import streams
from unskew.producers.readers.columns import ColumnDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog


def no_kafka():
    raise AssertionError("Kafka isn't asked for")


def test_every_generator_has_defaults_and_takes_parameters():
    for name, generator in GENERATORS.items():
        assert np.array_equal(StreamSpec(name, 1000, 3, no_kafka).read().keys, generator().take(0, 1000, seed=3))
    keys = StreamSpec("zipf:z=2.5,k=50", 1000, 1, no_kafka).read().keys
    assert np.array_equal(keys, streams.zipf(2.5, 50).take(0, 1000, seed=1))


def test_a_dataset():
    keys = StreamSpec("country_skew_r80", 2000, 0, no_kafka).read().keys
    assert len(keys) == 2000
    assert keys.value_counts().to_pylist()[0]["values"] is not None
    assert 0.7 < np.mean(np.array(keys.to_pylist()) == "Turkey") < 0.9


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_column_of_a_file(tmp_path, kind):
    table = pa.table({"user": ["b", "a", "b"], "time": [5, 3, 9], "other": [1, 2, 3]})
    path = tmp_path / f"events.{kind}"
    (pyarrow.parquet.write_table if kind == "parquet" else pyarrow.csv.write_csv)(table, path)
    stream = StreamSpec(f"{path}:user", 10, 0, no_kafka).read()
    assert stream.keys.to_pylist() == ["b", "a", "b"]
    assert stream.times.tolist() == [5, 5, 9]
    assert StreamSpec(f"{path}:other", 2, 0, no_kafka).read().keys.to_pylist() == ["1", "2"]


def write_text(path, table):
    pyarrow.csv.write_csv(table.cast(pa.schema([(name, pa.string()) for name in table.column_names])), path)


@pytest.mark.ci
@pytest.mark.parametrize(
    "keys",
    [
        ["01002", "1002", "NA", "null", "2024-01-01", "1.0", "1"],
        [*("7" for _ in range(300_000)), "guest-7"],  # text behind what a reader may infer types from
        pa.array([0, 1, 0], pa.date32()),
        pa.array([1, 2], pa.decimal128(9, 2)),
        [True, False, None],
        [1.5, 2.0, 1e300],
        pa.array([5, 5_000_001], pa.time64("us")),
        pa.array([0, 1], pa.timestamp("us", "UTC")),
    ],
    ids=lambda keys: f"{getattr(keys, 'type', None) or type(keys[0]).__name__} {len(keys)}",
)
def test_the_keys_are_those_that_produce_sends(tmp_path, keys):
    table = pa.table({"n": range(len(keys)), "k": keys})
    pyarrow.parquet.write_table(table, tmp_path / "file.parquet")
    write_text(tmp_path / "file.csv", table)
    sent = {}
    for kind in ("parquet", "csv"):
        path = f"{tmp_path}/file.{kind}"
        produced = [block.keys for block in ColumnDataset(find_inputs([path]), RejectLog(), "k").blocks()]
        sent[kind] = pa.chunked_array(produced).to_pylist()
        stream = StreamSpec(f"{path}:k", 10**6, 0, no_kafka)
        assert stream.read().keys.to_pylist() == sent[kind]
        assert [key for block in stream.blocks(70_000) for key in block.to_pylist()] == sent[kind]
        assert stream.rejects.total == table["k"].null_count
    assert sent["csv"] == sent["parquet"]


def test_a_histogram(tmp_path):
    path = tmp_path / "keys.csv"
    path.write_text("count,key\n3,a\n0,b\n1,c\n")
    keys = StreamSpec(f"counts:{path}", 10, 0, no_kafka).read().keys.to_pylist()
    assert sorted(keys) == ["a", "a", "a", "c"]
    path.write_text("key,count\n1,3000000\n2,0\n3,1000000\n")
    keys = StreamSpec(f"counts:{path}", 20_000, 0, no_kafka).read().keys.to_numpy()
    assert set(keys.tolist()) == {"1", "3"}
    assert (keys == "1").mean() == pytest.approx(0.75, abs=0.02)
    path.write_text("key,count\na,1\n,2\n")
    stream = StreamSpec(f"counts:{path}", 10, 0, no_kafka)
    assert stream.read().keys.to_pylist() == ["a"]
    assert [record.file for record in stream.rejects.samples] == [str(path)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("key,n\na,1\n", "has no column 'count'; valid: key, n"),
        ("key,count\na,-1\n", "not every count is a whole"),
        (f"key,count\na,{2**63 - 1}\nb,1\n", r"the counts' sum is 9.22e\+18; valid: less than 2\^62"),
    ],
)
def test_a_bad_histogram(tmp_path, text, says):
    path = tmp_path / "keys.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        StreamSpec(f"counts:{path}", 10, 0, no_kafka).read()


def test_recorded_timestamps(tmp_path):
    times = pa.array([0, 1_500_000, 2_000_000], pa.timestamp("us"))
    pyarrow.parquet.write_table(pa.table({"k": [1, 2, 3], "time": times}), tmp_path / "e.parquet")
    assert StreamSpec(f"{tmp_path}/e.parquet:k", 9, 0, no_kafka).read().times.tolist() == [0, 1500, 2000]


def test_a_column_that_there_is_not(tmp_path):
    pyarrow.parquet.write_table(pa.table({"user": ["a"]}), tmp_path / "e.parquet")
    with pytest.raises(UsageError, match="has no column 'key'; valid: user"):
        StreamSpec(f"{tmp_path}/e.parquet:key", 10, 0, no_kafka).read()
    (tmp_path / "a.csv").write_text("user,n\nx,1\n")
    with pytest.raises(UsageError, match="has no column 'u'; valid: user, n"):
        list(StreamSpec(f"{tmp_path}/a.csv:u", 10, 0, no_kafka).blocks(10))


@pytest.mark.parametrize("spec", ["zipf:z=1.2,k=50", "COUNTRY_SKEW_R80", "{}.csv:user", "{}.parquet:user", "counts:{}"])
def test_blocks_are_what_is_read_whole(spec, tmp_path):
    if spec.startswith("counts"):
        (tmp_path / "file").write_text("key,count\na,60000\nb,90000\n")
    elif "{}" in spec:
        table = pa.table({"other": np.zeros(80_000), "user": [f"u{i % 19}" for i in range(80_000)]})
        pyarrow.parquet.write_table(table, tmp_path / "file.parquet", row_group_size=30_000)
        pyarrow.csv.write_csv(table, tmp_path / "file.csv")
    for size in (1, 7, 1000, 70_000, 200_000):
        stream = StreamSpec(spec.format(tmp_path / "file"), 100 if size < 100 else 75_001, 0, no_kafka)
        whole = StreamSpec(stream.spec, stream.tuples, 0, no_kafka).read().keys
        blocks = list(stream.blocks(size))
        assert all(len(block) == size for block in blocks[:-1])
        assert 0 < len(blocks[-1]) <= size
        assert pa.chunked_array(blocks).to_pylist() == pa.array(whole).to_pylist()


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


def read_topic(monkeypatch, spec, *columns):
    """The sample of a topic, without a broker."""
    monkeypatch.setattr(input_stream, "TopicReader", Reader)
    settings = {"work": len, "work_columns": columns}
    return cost_sample.read_sample(StreamSpec(spec, 10, 0, lambda: None), settings)[1]


@pytest.mark.parametrize("spec", ["kafka:clicks", "kafka:clicks:user"])
def test_a_tuple_has_the_columns_of_its_own_message(monkeypatch, spec):
    rows = read_topic(monkeypatch, spec, "value", "partition", "offset", "timestamp").to_pylist()
    assert [row["timestamp"] for row in rows] == list(range(100))
    for row in rows:
        assert row["key"] == f"{row['partition']}/{row['offset']}"
        assert row["value"] == b'{"user":"%s"}' % row["key"].encode()


def test_mistakes_about_a_topic_are_named(monkeypatch):
    with pytest.raises(UsageError, match="a message has no column 'colour' here; valid: value, offset"):
        read_topic(monkeypatch, "kafka:clicks", "colour")
    for call in (lambda given: given.partitions(), lambda given: given.read()):
        with pytest.raises(UsageError, match="stream is 'kafka:'; valid: kafka:TOPIC or kafka:TOPIC:FIELD"):
            call(StreamSpec("kafka:", 10, 0, lambda: None))
    monkeypatch.setattr(Message, "key", lambda _: b"\xff")
    with pytest.raises(UsageError, match="stream 'kafka:clicks' has keys that are no text in UTF-8"):
        read_topic(monkeypatch, "kafka:clicks")
