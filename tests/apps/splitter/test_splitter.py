"""A source type's messages: the key of each, or why it is rejected; also of a user's own topic, COLUMN."""

import subprocess
import sys

import orjson
import pytest

from tests.apps.conftest import count_by_key, publish, records
from tests.apps.splitter.outcomes import make_rows, read_outcomes
from unskew.apps.splitter.formats import get_splitter
from unskew.apps.splitter.json_fields import LONGEST_KEY
from unskew.errors import UsageError

FRAME = b"\x00\x00\x00\x01\x02"

#: Source type, field and format → messages, with the key of each or the reason against it.
KINDS = {
    ("COUNTRY_SKEW_R80", None, None): [
        (b'{"country":"C\\u00f4te d\'Ivoire"}', "Côte d'Ivoire", None),
        (b'{"country":7}', None, "field 'country' is BIGINT, not STRING"),
        (b'{"country":null}', None, "field 'country' is VOID, not STRING"),
        (b'{"country":["Turkey"]}', None, "field 'country' is ARRAY<STRING>, not STRING"),
        (b'{"country":"%s"}' % (b"x" * 65_536), "x" * 65_536, None),
        (b'{"country":"%s"}' % (b"\\u0041" * 65_537), None, "the key has 65537 bytes, not 65536 at most"),
        (('{"country":"%s"}' % ("ü" * 32_769)).encode(), None, "the key has 65538 bytes, not 65536 at most"),
    ],
    ("COLUMN", "user.id", "json"): [
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
    ("COLUMN", "2", "csv"): [
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
    ("COLUMN", None, "text"): [
        (b"any text", "any text", None),
        (b"", "", None),
        (b"\xff", None, "not UTF-8"),
        (None, None, "no value"),
    ],
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[2] or kind[0])
def test_every_kind_of_message(spark, kind):
    found = read_outcomes(spark, get_splitter(*kind), [message for message, _, _ in KINDS[kind]])
    for (message, *expected), outcome in zip(KINDS[kind], found, strict=True):
        assert outcome == tuple(expected), message


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (get_splitter("COLUMN", "key"), '{"key": "KEY"}'),
        (get_splitter("TWITTER_ELECTION"), '{"hashtags": ["a", "KEY", "b"]}'),
        (get_splitter("COLUMN", None, "text"), "KEY"),
        (get_splitter("COLUMN", "2", "csv"), "a,KEY,b"),
    ],
)
def test_every_format_rejects_a_key_that_is_too_long(spark, split, message):
    longest = "é" * (LONGEST_KEY // 2)
    messages = [message.replace("KEY", key).encode() for key in (longest, longest + "x")]
    *good, bad = read_outcomes(spark, split, messages)
    assert (longest, None) in good
    assert {reason for _, reason in good} == {None}
    assert bad == (None, f"the key has {LONGEST_KEY + 1} bytes, not {LONGEST_KEY} at most")


def test_spark_parses_a_message_once_or_not_at_all(spark):
    for name, times in {"TWITTER_ELECTION": 1, "COUNTRY_SKEW_R80": 0}.items():
        rows = get_splitter(name).split(make_rows(spark, [b""]))
        assert str(rows._jdf.queryExecution().optimizedPlan()).count("parseJson") == times


@pytest.mark.nightly(group="groupings")
def test_a_topic_of_ones_own(settings, drain, connection, topic):
    values = [orjson.dumps({"user": {"id": i % 3}, "text": "x" * i}) for i in range(60)]
    publish(connection, topic, 2, [*values, b"{}"])
    run = settings("PARTIAL_KEY", source_type="COLUMN", key_field="user.id")
    _, reports = drain(run)
    assert count_by_key(run) == dict.fromkeys("012", 20)
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


def test_settings_are_checked_before_spark_is_there(tmp_path):
    """Another process: in this one it may be there."""
    (tmp_path / "x.avsc").write_text('{"type": "record", "name": "X", "fields": [{"name": "x", "type": "string"}]}')
    program = f"""
from unskew.apps.splitter.formats import SchemaSource, get_splitter
from unskew.producers.datasets.registry import DATASETS
[get_splitter(name) for name in (*DATASETS, "COLUMN")]
get_splitter("COLUMN", "x", "avro", schemas=SchemaSource({str(tmp_path / "x.avsc")!r}))
[get_splitter("COLUMN", field, form) for form, field in dict(json="x", csv="1", text=None).items()]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
