"""A user's own topic as a source type: COLUMN with a field and a format."""

import orjson
import pytest
from pyspark.sql import functions as F

from tests.apps.conftest import by_key, final_counts, publish, records
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.splitter.formats import get_splitter
from unskew.errors import UsageError

FRAME = b"\x00\x00\x00\x01\x02"

KINDS = {
    ("json", "user.id"): [
        (b'{"user": {"id": "u1", "name": "x"}, "n": 1}', "u1", None),
        (FRAME + b'{"user":{"id":"framed"}}', "framed", None),
        (b'{"user":{"id":"{"}}', "{", None),
        (b'{"user":{"id":""}}', "", None),
        (b'{"user":{"id":7}}', "7", None),
        (b'{"user":{"id":7.5}}', "7.5", None),
        (b'{"user":{"id":true}}', "true", None),
        (b'{"user":{"id":null}}', None, "field 'user.id' is VOID, which is no key"),
        (b'{"user":{"id":["u1"]}}', None, "field 'user.id' is ARRAY<STRING>, which is no key"),
        (b'{"user":{"id":{"a":1}}}', None, "field 'user.id' is OBJECT<a: BIGINT>, which is no key"),
        (b'{"user":"u1"}', None, "no field 'user.id'"),
        (b'{"user.id":"u1"}', None, "no field 'user.id'"),
        (b'{"user":{"id":"u1"}', None, "not JSON"),
        (b'{"user":{"id":"\xff"}}', None, "not UTF-8"),
        (None, None, "no value"),
    ],
    ("csv", "2"): [
        (b"1,Chad,x", "Chad", None),
        (b'1,"say ""hi"", twice",x', 'say "hi", twice', None),
        ("1,Türkiye".encode(), "Türkiye", None),
        (b"1", None, "nothing in column 2"),
        (b"1,,x", None, "nothing in column 2"),
        (b'1,"two\nlines",x\r\n', "two\nlines", None),
        (b"1,a\n2,b\n", None, "not one CSV record: more follows it"),
        (b"1,\xff", None, "not UTF-8"),
        (None, None, "no value"),
    ],
    ("text", None): [
        (b"any text", "any text", None),
        (b"", "", None),
        (b"\xff", None, "not UTF-8"),
        (None, None, "no value"),
    ],
}


@pytest.mark.parametrize(("form", "field"), KINDS)
def test_every_kind_of_message(spark, form, field):
    split, expected = get_splitter("COLUMN", field, form), KINDS[form, field]
    messages = spark.createDataFrame([(i, m) for i, (m, _, _) in enumerate(expected)], "i int, value binary")
    rows = split.split(messages.repartition(1), F.col("i"), split.reason(F.col("value")).alias("reason"))
    got = {row["i"]: (row["key"], row["reason"]) for row in rows.collect()}
    assert got == {i: (key, reason) for i, (_, key, reason) in enumerate(expected)}


@pytest.mark.nightly(group="groupings")
def test_a_topic_of_ones_own(settings, drain, connection, topic):
    values = [orjson.dumps({"user": {"id": i % 3}, "text": "x" * i}) for i in range(60)]
    publish(connection, topic, 2, [*values, b"{}"])
    run = settings("PARTIAL_KEY", source_type="COLUMN", key_field="user.id")
    _, reports = drain(run)
    assert by_key(final_counts(connection, list_result_topics(run)["aggregator"])) == dict.fromkeys("012", 20)
    assert reports[-1].totals.rejected == 1
    assert [value["reason"] for _, value in records(connection, f"{topic}-rejected")] == ["no field 'user.id'"]


@pytest.mark.parametrize(
    ("source_type", "field", "form", "message"),
    [
        ("COLUMN", "x", "xml", "unknown format 'xml'; valid: json, avro, csv, text"),
        ("COLUMN", "x", "avro", "schema is missing; valid with format avro: a file, a registry's URL (or $SCHEMA"),
        ("COLUMN", None, "json", "key_field is None; valid with format json: a field, as user, user.id"),
        ("COLUMN", "a..b", None, "key_field is 'a..b'"),
        ("COLUMN", "user", "csv", "key_field is 'user'; valid with format csv: the column's number"),
        ("COLUMN", "1", "text", "valid with format text: none"),
        ("TWITTER_TICKER", "x", None, "key_field is for sourceType COLUMN, not TWITTER_TICKER"),
    ],
)
def test_what_cannot_be_a_key_is_refused(source_type, field, form, message, monkeypatch):
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    with pytest.raises(UsageError) as error:
        get_splitter(source_type, field, form)
    assert message in str(error.value)
