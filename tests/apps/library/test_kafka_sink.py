"""`kafka_sink`: whatever runs again, a plain `read_committed` consumer sees each record of a query once."""

import re
import shutil
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.apps.conftest import publish
from unskew import balance, kafka_sink
from unskew.apps.aggregator import exactly_once as writing_module
from unskew.apps.aggregator.exactly_once import TransactionalPartitions, TransactionalWriteTask
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.library.kafka_sink import (
    KafkaBatchWriter,
    _make_writers,
    choose_dividing_columns,
    load_or_create_writers,
    make_records,
    require_allowed,
    select_columns,
)
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import count_partitions, end_offsets, ensure_topic
from unskew.kafka.transactions import BatchId, TransactionalWriter, read_last_batch_ids
from unskew.spark.compat import explain_import

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def values(connection, topic):
    """All values of a topic, as a consumer reads them that knows nothing of us."""
    with TopicReader(connection, topic) as reader:
        return Counter((message.value() or b"").decode() for message in reader.to_end())


# Without Spark and Kafka.


class Frame:
    """What the checks ask of a DataFrame, without Spark."""

    isStreaming = True  # noqa: N815
    sparkSession = None  # noqa: N815

    def __init__(self, **columns):
        self.columns = list(columns)
        self._kinds = columns

    def select(self, name):
        return SimpleNamespace(schema=StructType([StructField(name, self._kinds[name])]))


def test_the_columns_are_those_of_spark_s_sink():
    plain = Frame(value=StringType(), key=BinaryType(), at=TimestampType(), topic=StringType())
    assert select_columns(plain) == ("key", "value")
    assert select_columns(Frame(headers=HEADERS, partition=IntegerType(), value=BinaryType())) == (
        "value",
        "partition",
        "headers",
    )


def refusal(df, topic="t", bootstrap_servers="nowhere:1", checkpoint="checkpoint", **more):
    with pytest.raises(UsageError) as error:
        kafka_sink(df, topic, bootstrap_servers, checkpoint, **more)
    return str(error.value)


def test_other_columns_and_arguments_are_refused(subtests):
    headers = "column 'headers' is array<string>; valid: array<struct<key:string,value:binary>>"
    for columns, message in (
        ({"key": StringType(), "id": LongType()}, "there is no column 'value'; valid: key, id"),
        ({"value": LongType()}, "column 'value' is bigint; valid: string, binary"),
        ({"value": StringType(), "key": LongType()}, "column 'key' is bigint; valid: string, binary"),
        ({"value": StringType(), "partition": LongType()}, "column 'partition' is bigint; valid: int"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, headers),
    ):
        with subtests.test(message):
            assert refusal(Frame(**columns)) == message
    frame = Frame(value=StringType())
    for of, message in (
        ({"topic": ""}, "the topic is ''; valid: 1 to 221 of the characters"),
        ({"topic": "a b"}, "the topic is 'a b'; valid"),
        ({"topic": ".."}, "the topic is '..'; valid"),
        ({"topic": "t" * 222}, "valid: 1 to 221 of"),
        ({"parts": 0}, "parts is 0; valid: 1 or more"),
        ({"parts": -1}, "parts is -1; valid: 1 or more"),
        ({"repeatable": True, "checkpoint": None}, "checkpoint is None; valid: the query's checkpointLocation"),
    ):
        with subtests.test(message):
            assert message in refusal(frame, **of)
    frame.isStreaming = False
    assert "kafka_sink takes a stream; valid for a static DataFrame: df.write" in refusal(frame)
    frame.isStreaming = True
    frame.sparkSession = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert "kafka_sink needs a session without Spark Connect" in refusal(frame)


def test_what_the_tasks_do_reaches_them(monkeypatch):
    """As Spark pickles it."""
    taken = []
    monkeypatch.setattr(
        TransactionalWriter, "begin", lambda part, topic, number: bool(taken.append((part._name, topic, number)))
    )
    monkeypatch.setattr(writing_module, "get_partition", lambda: 2)
    made = TransactionalPartitions(Connection("nowhere:1"), "n", (("records", 3),))
    writing = TransactionalWriteTask(partial(made.writer, "records"), "t", BatchId(4, 5), make_records)
    there = cloudpickle.loads(cloudpickle.dumps(explain_import(writing.__call__)))
    assert list(there(iter([pa.record_batch({"key": [b"k"], "value": [b"v"]})]))) == []
    assert taken == [("n-records-2", "t", BatchId(4, 5))]
    assert there.__name__ == "unskew"


def test_records_are_made_of_rows():
    plain = pa.record_batch({"key": [b"a", None], "value": [b"1", None]})
    assert make_records(plain) == [{"key": b"a", "value": b"1"}, {"key": None, "value": None}]
    headers = [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None]
    more = pa.record_batch({"key": [b"a", None], "value": [b"1", b"2"], "partition": [3, None], "headers": headers})
    assert make_records(more) == [
        {"key": b"a", "value": b"1", "partition": 3, "headers": [("h", b"x"), ("h", None)]},
        {"key": None, "value": b"2", "partition": -1, "headers": None},
    ]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    nameless = pa.record_batch({"key": [b"a"], "value": [b"1"], "headers": pa.array([[{"value": b"x"}]], kind)})
    with pytest.raises(UsageError, match="a header whose key is null"):
        make_records(nameless)


def test_a_broker_that_refuses_is_an_error_in_one_line():
    found = {"id": "1", "parts": 3}
    part = _make_writers(Connection("nowhere:1"), "t", found).writer("records", 2)
    error = str(part._fault(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)))
    assert error.startswith("the broker at nowhere:1 refuses the transactional id t-unskew-commits-1-records-2 (")
    assert "grant WRITE and DESCRIBE on it, and READ and WRITE on topic t-unskew-commits-1; Spark's own sink" in error
    assert "--delivery" not in error
    assert "\n" not in error


def planned(folder, *batches):
    """A checkpoint in which Spark has noted batches, (number, ms), of a source that isn't Kafka."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    for number, ms in batches:
        text = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{ms},"conf":{{}}}}\n{number}'
        (folder / "offsets" / str(number)).write_text(text)
    return Checkpoint(str(folder))


def test_the_time_of_a_plan_is_read_whatever_the_source(tmp_path):
    assert planned(tmp_path, (0, 1000), (1, 2000)).planned_ms(1) == 2000


# With Kafka alone: tasks as Spark would run them.


def write(made, topic, number, rows, monkeypatch):
    """Write a batch of rows by part, as its tasks do."""
    for part, of in enumerate(rows):
        monkeypatch.setattr(writing_module, "get_partition", lambda part=part: part)
        batch = pa.record_batch({"key": pa.array(of, pa.binary()), "value": pa.array(of, pa.binary())})
        assert (
            list(TransactionalWriteTask(partial(made.writer, "records"), topic, number, make_records)(iter([batch])))
            == []
        )


def test_a_batch_that_runs_again_writes_only_the_parts_that_it_lacks(connection, topic, tmp_path, monkeypatch):
    ensure_topic(connection, topic, 2)
    made = load_or_create_writers(Checkpoint(str(tmp_path)), connection, topic, 3, 16)
    require_allowed(made)
    assert count_partitions(connection, made.topic) == 4
    rows = [[b"a", b"b"], [], [b"c"]]
    write(made, topic, BatchId(0, 0), rows[:1], monkeypatch)  # and then the driver dies
    for _ in range(2):
        monkeypatch.setattr(TransactionalWriter, "_kept", type(TransactionalWriter._kept)())  # as in another process
        write(made, topic, BatchId(0, 0), rows, monkeypatch)
    write(made, topic, BatchId(1, 1), [[b"d"], [b"e"], []], monkeypatch)
    assert values(connection, topic) == Counter("abcde")
    numbers = read_last_batch_ids(connection, made.topic, range(4))
    assert numbers == {0: BatchId(1, 1), 1: BatchId(1, 1), 2: BatchId(0, 0)}


def test_who_only_defines_a_sink_disturbs_no_query(connection, topic, tmp_path):
    ensure_topic(connection, topic, 1)
    checkpoint = Checkpoint(str(tmp_path))
    made = load_or_create_writers(checkpoint, connection, topic, None, 2)
    require_allowed(made)
    part = made.writer("records", 0)
    assert part.begin(topic, BatchId(0, 0))
    part.put([{"key": b"k", "value": b"v"}])
    monitored = load_or_create_writers(checkpoint, connection, topic, None, 5)
    require_allowed(monitored)
    part.finish()
    assert monitored == made
    assert values(connection, topic) == Counter("v")


def test_a_checkpoint_keeps_its_number_of_parts(connection, topic, tmp_path):
    checkpoint = planned(tmp_path, (0, 1000))
    made = load_or_create_writers(checkpoint, connection, topic, None, 2)
    assert (made.of("records"), load_or_create_writers(checkpoint, connection, topic, 2, 16)) == (2, made)
    with pytest.raises(UsageError, match=rf"parts is 3, but the checkpoint {tmp_path} has 2, .*; valid: 2, or another"):
        load_or_create_writers(checkpoint, connection, topic, 3, 16)


def test_a_checkpoint_that_was_set_back_gets_other_parts(connection, topic, tmp_path, monkeypatch, caplog):
    ensure_topic(connection, topic, 1)
    checkpoint = planned(tmp_path, (0, 1000), (1, 2000))
    made = load_or_create_writers(checkpoint, connection, topic, 1, 16)
    require_allowed(made)
    write(made, topic, BatchId(1, 2000), [[b"a"]], monkeypatch)
    assert load_or_create_writers(checkpoint, connection, topic, 1, 16) == made
    (tmp_path / "offsets" / "1").unlink()
    other = load_or_create_writers(Checkpoint(str(tmp_path)), connection, topic, 1, 16)
    assert other.topic != made.topic
    assert "which was set back" in caplog.text
    planned(tmp_path, (1, 3000))
    with pytest.raises(EnvironmentFault, match="the checkpoint was set back; start again"):
        write(made, topic, BatchId(1, 3000), [[b"b"]], monkeypatch)  # it was set back during the run


# With Spark.


def stream(spark, connection, topic, most=100):
    """A topic's messages as records: their values, and keys of which some are null."""
    options = connection.spark() | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
    messages = spark.readStream.format("kafka").options(**options, subscribe=topic).load()
    key = F.expr("if(offset % 10 = 0, null, concat('k', offset % 7))")
    return messages.select(key.alias("key"), F.col("value").cast("string").alias("value"))


def test_a_key_that_may_differ_is_refused(spark):
    rate = spark.readStream.format("rate").load()
    for key, doubtful in (
        ("uuid()", "uuid"),
        ("cast(rand() AS string)", "rand"),
        ("cast(monotonically_increasing_id() AS string)", "monotonically_increasing_id"),
    ):
        said = refusal(rate.selectExpr(f"{key} AS key", "'v' AS value"))
        assert re.search(rf"the key depends on {doubtful}\(.*, which may differ when a batch runs again", said)
        assert f"the value depends on {doubtful}" in refusal(rate.selectExpr(f"{key} AS value"))
        differing = rate.selectExpr("cast(value AS string) AS key", f"{key} AS value")
        assert choose_dividing_columns(differing, ("key", "value")) == ("key",)
    rows = rate.selectExpr("cast(value AS string) AS key", "value AS n")
    for made in (
        rows.where("rand() < 0.5"),
        rows.sample(0.5),
        rows.withColumn("key", F.udf(lambda n: f"{n}").asNondeterministic()("n")),
        rows.groupBy("n").agg(F.first("key").alias("key")),
    ):
        with pytest.raises(UsageError, match="the key depends on"):
            choose_dividing_columns(made, ("key",))


def test_workers_of_plans_that_are_not_written_are_refused(spark, tmp_path):
    """Another driver may plan the batch otherwise."""
    rate = spark.readStream.format("rate").load()
    rows = rate.selectExpr("cast(value % 9 AS string) AS key")
    for checkpoint in (None, str(tmp_path)):
        placed = balance(rows, "key", 4, "PLANNED", checkpoint).selectExpr(
            "cast(worker AS string) AS key", "key AS value"
        )
        if checkpoint is None:
            assert "the key depends on PLANNED_without_checkpoint(" in refusal(placed)
        else:
            assert choose_dividing_columns(placed, ("key", "value")) == ("key", "value")


def test_rows_that_are_the_same_again_are_taken(spark):
    rate = spark.readStream.format("rate").load()
    rows = rate.selectExpr("cast(value % 9 AS string) AS key", "current_timestamp() AS at", "value AS n")
    both = "key", "value"
    timed = rows.select(F.col("at").cast("string").alias("key"), F.col("key").alias("value"))  # the batch's time
    assert choose_dividing_columns(timed, both) == both
    listed = rows.groupBy("key").agg(F.concat_ws(",", F.collect_list("key")).alias("value"))
    assert choose_dividing_columns(listed, both) == ("key",)
    halves = rows.groupBy("key").agg(
        F.sum(F.col("n") / 2).cast("string").alias("value")
    )  # in another order, other bits
    assert choose_dividing_columns(halves, both) == ("key",)
    assert choose_dividing_columns(rows.groupBy("key").agg(F.sum("n").cast("string").alias("value")), both) == both
    placed = balance(rows, "key", 4, "PARTIAL_KEY").selectExpr("cast(worker AS string) AS key", "key AS value")
    assert choose_dividing_columns(placed, both) == both
    assert choose_dividing_columns(rows.selectExpr("key AS value"), ("value",)) == ("value",)
    assert choose_dividing_columns(rows.selectExpr("uuid() AS key", "key AS value"), both, repeatable=True) == both


class Died(Exception):
    """As a driver that is killed when it has written a batch, before Spark notes that."""


def drained(df, topic, connection, checkpoint, **more):
    """Start a query, and wait until it has read all."""
    writer = kafka_sink(df, topic, connection.bootstrap_servers, str(checkpoint), **more)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.slow
def test_each_record_is_there_once_though_batches_run_again(spark, connection, topic, tmp_path, monkeypatch):
    sent = [str(n).encode() for n in range(1_000)]
    publish(connection, topic, 2, [*sent])
    to = f"{topic}-out"
    ensure_topic(connection, to, 3)
    once, calls = KafkaBatchWriter.__call__, []

    def twice(sink, batch, number):
        """Each part of each batch runs again, and after each third batch the driver dies."""
        once(sink, batch, number)
        once(sink, batch, number)
        calls.append(number)
        if len(calls) % 3 == 0:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(KafkaBatchWriter, "__call__", twice)
        for _ in range(2):
            with pytest.raises(Exception, match="Died"):
                drained(stream(spark, connection, topic), to, connection, tmp_path / "checkpoint")
    assert len(calls) == 6
    assert len(set(calls)) == 5  # one has run again after its driver's death
    drained(stream(spark, connection, topic), to, connection, tmp_path / "checkpoint")
    assert values(connection, to) == Counter(value.decode() for value in sent)
    ends = [end_offsets(connection, to, committed=committed) for committed in (True, False)]
    assert ends[0] == ends[1], "a transaction is open"


@pytest.mark.nightly(group="groupings")
@pytest.mark.slow
def test_keys_headers_and_partitions_arrive_as_by_spark_s_sink(spark, connection, topic, tmp_path):
    publish(connection, topic, 1, [b"0", b"1", None])
    rows = stream(spark, connection, topic).select(
        F.concat(F.lit("k"), "value").alias("key"),
        F.col("value").cast("binary").alias("value"),
        F.expr("if(value = '0', 2, null)").alias("partition"),
        F.expr("if(value = '1', array(named_struct('key', 'h', 'value', value)), null)")
        .cast("array<struct<key:string,value:binary>>")
        .alias("headers"),
    )
    found = {}
    for sink in ("ours", "spark's"):
        to = f"{topic}-{'a' if sink == 'ours' else 'b'}"
        ensure_topic(connection, to, 3)
        if sink == "ours":
            drained(rows, to, connection, tmp_path / "a")
        else:
            kafka = rows.writeStream.format("kafka").options(**connection.spark(), topic=to)
            kafka.option("checkpointLocation", str(tmp_path / "b")).trigger(
                availableNow=True
            ).start().awaitTermination()
        with TopicReader(connection, to) as reader:
            messages = list(reader.to_end())
        # Records without a key may go anywhere.
        of = [(m.key(), m.value(), m.headers() or None, m.key() and m.partition()) for m in messages]
        found[sink] = sorted(of, key=repr)
    assert found["ours"] == found["spark's"]
    assert (b"k0", b"0", None, 2) in found["ours"]
    assert any(headers == [("h", b"1")] for _, _, headers, _ in found["ours"])


@pytest.mark.nightly(group="groupings")
@pytest.mark.slow
def test_a_checkpoint_that_was_set_back_loses_nothing(spark, connection, topic, tmp_path, caplog):
    to, there, copy = f"{topic}-out", tmp_path / "checkpoint", tmp_path / "copy"
    ensure_topic(connection, to, 2)
    for part in (b"a", b"b", b"c"):
        publish(connection, topic, 1, [part] * 10)
        drained(stream(spark, connection, topic), to, connection, there)
        if part == b"a":
            shutil.copytree(there, copy)
        if part == b"b":
            shutil.rmtree(there)
            shutil.move(copy, there)
    assert "which was set back" in caplog.text
    assert values(connection, to) == {"a": 10, "b": 20, "c": 10}


@pytest.mark.nightly(group="groupings")
@pytest.mark.slow
def test_another_checkpoint_location_is_refused_before_anything_is_written(spark, connection, topic, tmp_path):
    publish(connection, topic, 1, [b"a"])
    to = f"{topic}-out"
    ensure_topic(connection, to, 1)
    writer = kafka_sink(stream(spark, connection, topic), to, connection.bootstrap_servers, str(tmp_path / "a"))
    query = writer.option("checkpointLocation", str(tmp_path / "b")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="is not that of the query"):
        query.awaitTermination()
    assert values(connection, to) == {}


def test_a_topic_that_is_not_there_is_refused(spark, connection, topic, tmp_path):
    rate = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS value")
    with pytest.raises(UsageError, match=f"there is no topic {topic} at .*: make it first"):
        kafka_sink(rate, topic, connection.bootstrap_servers, str(tmp_path))
