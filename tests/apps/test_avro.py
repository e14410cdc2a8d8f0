"""A topic in Avro as a source type: by a schema registry, or by the schema of a file."""

import io
import json
import pickle

import pytest
from fastavro import schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.apps.conftest import by_key, final_counts, publish, records
from tests.apps.schema_registry import schema_registry
from unskew.apps.topology.avro import Decoder
from unskew.apps.topology.columns import Schemas
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.registry import Registry, of_file
from unskew.apps.topology.splitter import splitter
from unskew.errors import EnvironmentFault, UsageError

KEYS = ["string", "long", "double", "boolean", "null", "bytes", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": KEYS}, {"name": "name", "type": "string"}]}
CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "user", "type": ["null", USER]}, {"name": "at", "type": "long"}],
}


def encoded(record, schema=CLICK, number=None):
    out = io.BytesIO()
    schemaless_writer(out, schema, record)
    return (b"" if number is None else b"\x00" + number.to_bytes(4, "big")) + out.getvalue()


def click(key, number=None):
    return encoded({"user": {"id": key, "name": "n"}, "at": 7}, number=number)


NOT = "not Avro by {}"
KINDS = [
    (click("u1"), "u1", None),
    (click(""), "", None),
    (click("Türkiye"), "Türkiye", None),
    (click(7), "7", None),
    (click(7.5), "7.5", None),
    (click(True), "true", None),
    (click(None), None, "field 'user.id' is null, which is no key"),
    (click(b"u1"), None, "field 'user.id' is bytes, which is no key"),
    (encoded({"user": None, "at": 7}), None, "no field 'user.id'"),
    (click("u1")[:-1], None, NOT),
    (click("u1") + b"\x00", None, NOT + ": it is longer"),
    (b"", None, NOT),
    (b"\x02\x00\x04\xff\xff\x00\x00", None, NOT),
]


def split(spark, reader, messages):
    rows = spark.createDataFrame(list(enumerate(messages)), "i int, value binary").repartition(1)
    read = reader.split(rows, F.col("i"), reader.reason(F.col("value")).alias("reason")).collect()
    wanted = {row["i"] for row in rows.where(reader.rejects(F.col("value"))).select("i").collect()}
    assert wanted == {row["i"] for row in read if row["key"] is None}
    return {row["i"]: (row["key"], row["reason"]) for row in read}


@pytest.fixture
def avsc(tmp_path):
    (tmp_path / "click.avsc").write_text(json.dumps(CLICK))
    return str(tmp_path / "click.avsc")


@pytest.mark.spark
def test_every_kind_of_message_by_a_file(spark, avsc):
    reader = splitter("COLUMN", "user.id", "avro", schemas=Schemas(file=avsc))
    expected = [*KINDS, (None, None, "no value")]
    got = split(spark, reader, [message for message, _, _ in expected])
    assert got == {i: (key, why and why.format("the schema")) for i, (_, key, why) in enumerate(expected)}


@pytest.mark.spark
def test_every_kind_of_message_by_a_registry(spark):
    """Schema 2 is in no sample: a task meets it first. It refers to another subject's."""
    framed = [(b"\x00\x00\x00\x00\x01" + message, key, why and why.format("schema 1")) for message, key, why in KINDS]
    other = {"type": "record", "name": "Visit", "fields": [{"name": "user", "type": "User"}]}
    visit = {"type": "record", "name": "Visit", "fields": [{"name": "user", "type": USER}]}
    expected = [
        *framed,
        (encoded({"user": {"id": "u2", "name": "n"}}, visit, 2), "u2", None),
        (click("u1", 3), None, "schema 3 is JSON, not AVRO"),
        (click("u1", 4), None, "no schema 4 in the registry"),
        (b"\x01" + click("u1", 1)[1:], None, "no schema's number before it"),
        (b"\x00\x00", None, "no schema's number before it"),
        (None, None, "no value"),
    ]
    with schema_registry("me:s3cret word") as (registry, url):
        registry.put(1, CLICK)
        registry.put(2, other, references=[{"name": "User", "subject": "a/b", "version": 1}])
        registry.subjects["a%2Fb", "1"] = {"schema": json.dumps(USER)}
        registry.put(3, {}, schemaType="JSON")
        address = url.replace("http://", "http://me:s3cret%20word@")
        reader = splitter("COLUMN", "user.id", "avro", [click("u1", 1)], Schemas(registry=address))
        assert registry.asked == ["/schemas/ids/1"]
        got = split(spark, reader, [message for message, _, _ in expected])
        assert got == {i: (key, why) for i, (_, key, why) in enumerate(expected)}
        assert registry.asked.count("/schemas/ids/1") == 1, "what the driver fetched travels to the tasks"


@given(st.binary(max_size=40) | st.text(max_size=9).map(click) | st.integers(0, 2**60).map(click), st.integers(0, 50))
@example(click("a" * 100), 3)
def test_no_bytes_are_more_than_a_reason(message, cut):
    decoder = Decoder("user.id", schema=CLICK)
    for each in message, message[:cut], message[cut:]:
        key, reason = decoder.told(each)
        assert (key is None) != (reason is None)


def test_a_password_is_not_told():
    registry = Registry.at("https://me:s3cret@registry:8081/api/")
    assert registry.url == "https://registry:8081/api"
    assert "s3cret" not in repr(registry) + repr(Schemas(registry="https://me:s3cret@registry:8081"))
    assert pickle.loads(pickle.dumps(registry)) == registry
    with pytest.raises(UsageError, match="is 'registry:8081'") as error:
        Registry.at("ftp://me:s3cret@registry:8081")
    assert "s3cret" not in str(error.value)


def test_a_registry_that_does_not_answer_rejects_nothing():
    with schema_registry("me:s3cret") as (registry, url):
        registry.put(1, CLICK)
        reader = Decoder("user.id", registry=Registry.at(url.replace("//", "//me:wrong@")))
        with pytest.raises(EnvironmentFault, match=f"{url} answers 401 to /schemas/ids/1"):
            reader.key(click("u1", 1))
        reader = Decoder("user.id", registry=Registry.at(url.replace("//", "//me:s3cret@")))
        registry.down = True
        with pytest.raises(EnvironmentFault, match="503"):
            reader.key(click("u1", 1))
        registry.down = False
        assert [reader.key(click(f"u{i}", 1)) for i in range(3)] == ["u0", "u1", "u2"]
        assert len(registry.asked) == 3, "a schema is fetched once"
    with pytest.raises(EnvironmentFault, match="doesn't answer"):
        Decoder("user.id", registry=Registry.at(url)).key(click("u1", 99))


def test_a_registry_of_the_environment_is_for_avro_alone(monkeypatch, avsc):
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://me:s3cret@registry:8081")
    assert Schemas().decoder("x", []).registry == Registry.at("http://me:s3cret@registry:8081")
    assert Schemas(file=avsc).decoder("x", []).registry is None
    splitter("COUNTRY_SKEW_R80")
    for schemas in Schemas(file=avsc, registry="http://registry"), Schemas(file=avsc):
        with pytest.raises(UsageError, match="not both" if schemas.registry else "not json"):
            splitter("COLUMN", "x", "avro" if schemas.registry else "json", schemas=schemas)


@pytest.mark.parametrize("text", ["", "{", '{"type": "recor"}'])
def test_what_is_no_schema_is_refused(tmp_path, text):
    (tmp_path / "x.avsc").write_text(text)
    with pytest.raises(UsageError, match=r"--schema .*x\.avsc is no Avro schema: "):
        of_file(str(tmp_path / "x.avsc"))


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_in_avro(settings, drain, connection, topic):
    with schema_registry() as (registry, url):
        registry.put(1, CLICK)
        publish(connection, topic, 2, [*(click(f"u{i % 3}", 1) for i in range(60)), b"broken", click("u1", 9)])
        run = settings("PARTIAL_KEY", source_type="COLUMN", key_field="user.id", format="avro", schema_registry=url)
        _, reports = drain(run)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {"u0": 20, "u1": 20, "u2": 20}
    assert reports[-1].totals.rejected == 2
    told = {value["reason"] for _, value in records(connection, f"{topic}-rejected")}
    assert told == {"no schema's number before it", "no schema 9 in the registry"}
