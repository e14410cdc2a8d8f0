"""Fields of messages that are read besides the key: the event's time, and what a work reads; and the reasons."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.apps.local_settings import settings
from unskew.apps.splitter.avro_decoder import AvroDecoder, make_columns
from unskew.apps.splitter.avro_limits import AvroSchema
from unskew.apps.splitter.field_columns import NOW, EventTime, FieldValue
from unskew.apps.splitter.formats import NO_SCHEMAS, SchemaSource, get_splitter, read_text_times
from unskew.apps.splitter.json_fields import MESSAGE, JsonFields
from unskew.apps.splitter.kafka_source import make_field_columns
from unskew.errors import UsageError
from unskew.operators import IntervalJoin, Statistics, TopK

DAY = 86_400_000  # ms
NOON = 1_795_867_200_000  # 2026-11-28T12:00:00Z
AT = EventTime("at", "ms", 3600.0)


def read_json(values, column=AT, now_ms=NOON, **fields):
    """Of each value of the field: its time (ms) if the message has a key, and the reason if it has none."""
    messages = pa.array([b'{"key":"k","at":%s}' % value.encode() for value in values], pa.binary())
    reader = JsonFields(("key",), columns=(column,), **fields)
    keys, times = reader.read(messages, now_ms)
    reasons = reader.reasons(messages, now_ms).to_pylist()
    ms = times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    assert keys.to_pylist() == [None if reason else "k" for reason in reasons]
    return [(reason or time) for time, reason in zip(ms, reasons, strict=True)]


def avro(schema, value):
    out = io.BytesIO()
    schemaless_writer(out, schema, value)
    return out.getvalue()


def read_avro(column, kind, value):
    """Keys, reasons and values of two messages: one that has the field, and one that isn't Avro."""

    def record(of):
        fields = [{"name": "key", "type": "string"}, {"name": column.path, "type": of}]
        return {"type": "record", "name": "R", "fields": fields}

    bare = kind["type"] if isinstance(kind, dict) else kind
    decoder = AvroDecoder("key", schema=AvroSchema.of(json.dumps(record(kind))), columns=(column,))
    read = decoder.read(avro(record(bare), {"key": "k", column.path: value}))
    return make_columns(decoder.columns, [read, (None, "not Avro", None)], NOON)


LATE = "which is not in the years 1970 to 9999"
VALUES = {
    '"2026-11-28T12:00:00Z"': NOON,
    '"2026-11-28T14:00:00+02:00"': NOON,
    '"2026-11-28 11:30:00-00:30"': NOON,
    '"2026-11-28T12:00:00.1Z"': NOON + 100,
    '"2026-11-28T12:00:00.123999Z"': NOON + 123,
    '"2026-11-28T12:00:00.123456789Z"': NOON + 123,
    '"2026-11-28T12:59:59.999999999+00:00"': NOON + 3_599_999,
    '"2026-11-28\\u005412:00:00Z"': NOON,
    '"1970-01-01T00:00:00Z"': 0,
    "0": 0,
    str(NOON): NOON,
    "1.7958672e12": NOON,
    '"2026-11-28T13:00:00.001Z"': "field 'at' is 2026-11-28T13:00:00.001Z, which is more than 3600 s ahead",
    str(NOON + 3_600_001): "field 'at' is 2026-11-28T13:00:00.001Z, which is more than 3600 s ahead",
    '"2026-11-28T12:00:00"': "field 'at' is '2026-11-28T12:00:00', which has no offset",
    '"2026-02-29T12:00:00Z"': "field 'at' is '2026-02-29T12:00:00Z', no time such as 2026-11-28T12:00:00Z",
    '"2026-11-28T24:00:00Z"': "field 'at' is '2026-11-28T24:00:00Z', no time such as 2026-11-28T12:00:00Z",
    '"2026-11-28T12:00:60Z"': "field 'at' is '2026-11-28T12:00:60Z', no time such as 2026-11-28T12:00:00Z",
    '"20261128T120000Z"': "field 'at' is '20261128T120000Z', no time such as 2026-11-28T12:00:00Z",
    '"2026-11-28"': "field 'at' is '2026-11-28', no time such as 2026-11-28T12:00:00Z",
    '"1795867200000"': "field 'at' is '1795867200000', no time such as 2026-11-28T12:00:00Z",
    '"x\\n2026-11-28T12:00:00Z"': "field 'at' is 'x\\n2026-11-28T12:00:00Z', no time such as 2026-11-28T12:00:00Z",
    '""': "field 'at' is '', no time such as 2026-11-28T12:00:00Z",
    '"1969-12-31T23:59:59.999Z"': f"field 'at' is '1969-12-31T23:59:59.999Z', {LATE}",
    '"0000-01-01T00:00:00Z"': f"field 'at' is '0000-01-01T00:00:00Z', {LATE}",
    '"9999-12-31T23:59:59-01:00"': f"field 'at' is '9999-12-31T23:59:59-01:00', {LATE}",
    "-1": f"field 'at' is -1 ms, {LATE}",
    "253402300800000": f"field 'at' is 2.53402e+14 ms, {LATE}",
    "9" * 400: f"field 'at' is inf ms, {LATE}",
    "1e400": f"field 'at' is inf ms, {LATE}",
    "null": "field 'at' is VOID, which is no time",
    "true": "field 'at' is BOOLEAN, which is no time",
    "[1]": "field 'at' is ARRAY<BIGINT>, which is no time",
}  # fmt: skip


def test_times_of_json():
    assert read_json(VALUES) == list(VALUES.values())
    assert [read_json([value])[0] for value in VALUES] == list(VALUES.values()), "no other message matters"
    often = [*VALUES] * 200
    assert read_json(often) == [*VALUES.values()] * 200, "messages that repeat each other are read once"


@pytest.mark.parametrize(
    ("unit", "number", "ms"),
    [
        ("s", "1795867200", NOON),
        ("s", "1795867200.123", NOON + 123),
        ("s", "1795867200.9999", NOON + 999),
        ("ms", "1795867200123.9", NOON + 123),
        ("us", "1795867200123999", NOON + 123),
        ("us", "1795867200123999.0", NOON + 123),
        ("ns", "1795867200123999999", NOON + 123),
    ],
)
def test_units_of_numbers(unit, number, ms):
    assert read_json([number, '"2026-11-28T12:00:00Z"'], EventTime("at", unit, 3600.0)) == [ms, NOON]


@given(
    st.integers(2 * DAY, 8000 * 365 * DAY), st.integers(0, 999), st.integers(-1439, 1439), st.sampled_from(["T", " "])
)
def test_texts_are_read_as_python_reads_them(expected, more, minutes, between):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=expected, microseconds=more)
    moment = moment.astimezone(timezone(timedelta(minutes=minutes)))
    assert read_json([json.dumps(moment.isoformat(between))], EventTime("at")) == [expected]


def test_a_field_that_is_missing_and_a_nested_one():
    reader = JsonFields(("key",), columns=(EventTime("user.at"),))
    reasons = {
        '{"key":"k","user":{"at":5}}': None,
        '{"user":{"at":5},"key":7}': "field 'key' is BIGINT, not STRING",
        '{"key":"k"}': "no field 'user.at'",
        '{"key":"k","user":"at"}': "no field 'user.at'",
        '{"key":"k","user":{"at":5},"user":{"at":6}}': "field 'user.at' is there twice",
    }
    messages = pa.array([message.encode() for message in reasons], pa.binary())
    assert reader.reasons(messages, NOON).to_pylist() == list(reasons.values())
    assert reader.read(messages, NOON)[0].to_pylist() == ["k", *[None] * 4]


def test_the_router_gets_keys_counts_and_times_instead_of_messages():
    reader = JsonFields(("bid", "auction"), "n", scalars=True, optional=True, columns=(EventTime("bid.at", "s", 10.0),))
    assert reader.gives == ("key", "count", "time")
    assert reader.unread(["offset", "time", "count", "key"]) == [MESSAGE, NOW, "offset"]
    bid = b'{"bid":{"auction":%d,"at":%d},"n":3}'
    messages = [bid % (7, 1_795_867_205), b'{"bid":null}', bid % (8, 1_795_867_211), b"?"]
    given = pa.record_batch(
        [pa.array(range(4)), pa.array([NOON] * 4), pa.array(messages, pa.binary())], ["offset", NOW, MESSAGE]
    )
    found = reader(given)
    assert found.schema.names == ["offset", "key", "count", "time"]
    assert found.column("offset").to_pylist() == [0, 2, 3]
    assert found.column("key").to_pylist() == ["7", None, None]
    assert found.column("time")[0].as_py() == datetime(2026, 11, 28, 12, 0, 5, tzinfo=UTC)
    assert reader(given.slice(0, 0)).num_rows == 0


LOCAL = "field 'at' is local-timestamp-{}, which has no offset"
TIMES = [
    ("long", NOON, NOON),
    ("double", NOON + 0.5, NOON),
    ("string", "2026-11-28T12:00:00+00:00", NOON),
    ({"type": "long", "logicalType": "timestamp-millis"}, NOON, NOON),
    ({"type": "long", "logicalType": "timestamp-micros"}, 1000 * NOON + 999, NOON),
    ({"type": "long", "logicalType": "timestamp-micros"}, -1, f"field 'at' is -1 us, {LATE}"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, NOON, LOCAL.format("millis")),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, NOON, LOCAL.format("micros")),
    ({"type": "int", "logicalType": "date"}, 20_000, "field 'at' is date, which is no time"),
    (["null", "long"], None, "field 'at' is null, which is no time"),
    ("boolean", True, "field 'at' is bool, which is no time"),
    ("bytes", b"7", "field 'at' is bytes, which is no time"),
    ("string", "yesterday", "field 'at' is 'yesterday', no time such as 2026-11-28T12:00:00Z"),
    ("long", NOON + 3_600_001, "field 'at' is 2026-11-28T13:00:00.001Z, which is more than 3600 s ahead"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), TIMES)
def test_times_of_avro(kind, value, expected):
    keys, reasons, times = read_avro(AT, kind, value)
    reason = expected if isinstance(expected, str) else None
    assert (keys.to_pylist(), reasons.to_pylist()) == ([None if reason else "k", None], [reason, "not Avro"])
    if reason is None:
        assert times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist() == [expected, None]


def test_times_of_csv():
    expected = {
        str(NOON): NOON,
        f"{NOON}.9": NOON,
        "2026-11-28T12:00:00Z": NOON,
        "-1": f"field '2' is -1 ms, {LATE}",
        "1e12": "field '2' is '1e12', no time such as 2026-11-28T12:00:00Z",
        "nan": "field '2' is 'nan', no time such as 2026-11-28T12:00:00Z",
        "": "field '2' is '', no time such as 2026-11-28T12:00:00Z",
        None: "nothing in column 2",
    }
    read = read_text_times(EventTime("2", "ms", 3600.0), pa.array(expected, pa.string()), NOON)
    times, reasons = read.flatten()
    ms = times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    assert [reason or time for time, reason in zip(ms, reasons.to_pylist(), strict=True)] == list(expected.values())


@pytest.mark.parametrize(
    ("source_type", "form", "path", "message"),
    [
        ("COLUMN", None, "a..b", "time_field is 'a..b'; valid: a field of the messages, as at, user.at"),
        ("COLUMN", "csv", "at", "time_field is 'at'; valid with format csv: the column's number, from 1 to 999"),
        ("COLUMN", "text", "at", "time_field is 'at'; valid with format text: none, its messages have no fields"),
        ("TWITTER_ELECTION", None, "at", "valid with sourceType TWITTER_ELECTION: none"),
        ("NEXMARK", None, "", "time_field is ''"),
    ],
)
def test_what_cannot_have_a_time_is_refused(source_type, form, path, message):
    key = {None: "key", "csv": "1", "text": None}[form] if source_type == "COLUMN" else None
    with pytest.raises(UsageError) as error:
        get_splitter(source_type, key, form, columns=(EventTime(path),))
    assert message in str(error.value)


def test_every_source_of_json_may_have_its_time_in_a_field():
    for name in ("COUNTRY_SKEW_R80", "NEXMARK", "WIKIPEDIA_PAGEVIEWS_BY_LANG", "COLUMN"):
        split = get_splitter(name, columns=(AT,))
        assert split.fields is not None
        assert split.fields.columns == split.columns == (AT,)


_FIELDS = [{"name": "key", "type": "string"}, {"name": "at", "type": ["string", "long"]}]
ORDER = {"type": "record", "name": "Order", "fields": _FIELDS}
MESSAGES = {
    "json": (b'{"key":"k","at":%d}' % NOON, b'{"key":"k","at":"late"}', b'{"key":"k","at":%d}' % (NOON + 2 * DAY)),
    "csv": (b"k,%d" % NOON, b"k,late", b"k,%d" % (NOON + 2 * DAY)),
    "avro": tuple(avro(ORDER, {"key": "k", "at": at}) for at in (NOON, "late", NOON + 2 * DAY)),
}


@pytest.mark.parametrize("form", MESSAGES)
def test_times_through_spark(spark, form, tmp_path):
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    schemas = SchemaSource(str(tmp_path / "order.avsc")) if form == "avro" else NO_SCHEMAS
    key, at = ("1", "2") if form == "csv" else ("key", "at")
    split = get_splitter("COLUMN", key, form, schemas=schemas, columns=(EventTime(at, "ms", 3600.0),))
    rows = spark.createDataFrame([*enumerate([*MESSAGES[form], None])], "i int, value binary").repartition(1)
    rows = rows.withColumn("partition", F.lit(0)).withColumn(NOW, F.lit(NOON).cast("long"))
    tuples = split.split(rows, F.col("i"))
    found = tuples.select("i", "key", F.unix_millis("time").alias("ms")).orderBy("i").collect()
    assert [tuple(row) for row in found] == [(0, "k", NOON), *((i, None, None) for i in (1, 2, 3))]
    why = [row["why"] for row in rows.select("i", split.why(F.col("value")).alias("why")).orderBy("i").collect()]
    assert why == [
        None,
        f"field '{at}' is 'late', no time such as 2026-11-28T12:00:00Z",
        f"field '{at}' is 2026-11-30T12:00:00.000Z, which is more than 3600 s ahead",
        "no value",
    ]
    plan = str(split.open(rows, F.col("i"))._jdf.queryExecution().executedPlan())
    assert plan.count("ArrowEvalPython") == (form != "json"), "a message is read once, and in the router if it is JSON"


DOUBLE, INT64, STRING = (FieldValue("x", kind) for kind in (pa.float64(), pa.int64(), pa.string()))
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}

JSON = [
    (DOUBLE, "1.5", 1.5),
    (DOUBLE, "7", 7.0),
    (DOUBLE, "12345678901234567890123", 1.2345678901234568e22),
    (DOUBLE, "1e400", float("inf")),
    (DOUBLE, '"1.5"', "field 'x' is STRING, not double"),
    (DOUBLE, "true", "field 'x' is BOOLEAN, not double"),
    (DOUBLE, "null", "field 'x' is VOID, not double"),
    (INT64, "-9223372036854775808", -(2**63)),
    (INT64, "9223372036854775808", "field 'x' is DECIMAL(19,0), not int64"),
    (INT64, "1.0", "field 'x' is DECIMAL(1,0), not int64"),
    (INT64, "true", "field 'x' is BOOLEAN, not int64"),
    (STRING, '"a:\\u00e9"', "a:\u00e9"),
    (STRING, '""', ""),
    (STRING, "7", "7"),
    (STRING, "1.5", "1.5"),
    (STRING, "false", "false"),
    (STRING, "null", "field 'x' is VOID, not string"),
    (STRING, '{"a":1}', "field 'x' is OBJECT<a: BIGINT>, not string"),
]


@pytest.mark.parametrize(("column", "spelled", "expected"), JSON)
def test_values_of_json(column, spelled, expected):
    reader = JsonFields(("key",), columns=(column,))
    messages = [
        b'{"key":"k","x":%s}' % spelled.encode(),
        b'{"key":"k"}',
        b'{"key":"k","\\u0078":%s}' % spelled.encode(),
    ]
    array = pa.array(messages, pa.binary())
    keys, values = reader.read(array)
    reason = expected if spelled != f'"{expected}"' and str(expected).startswith("field ") else None
    assert reader.reasons(array).to_pylist() == [reason, "no field 'x'", reason]
    assert keys.to_pylist() == [None if reason else "k", None, None if reason else "k"]
    assert values.type == column.type
    assert values.to_pylist() == ([None] * 3 if reason else [expected, None, expected])


AVRO = [
    (DOUBLE, "double", 1.5, 1.5),
    (DOUBLE, "long", 7, 7.0),
    (DOUBLE, DECIMAL, b"\x04\xd2", 12.34),
    (DOUBLE, "string", "7", "field 'x' is str, not double"),
    (INT64, "long", -(2**63), -(2**63)),
    (INT64, "double", 1.0, "field 'x' is float, not int64"),
    (INT64, {"type": "int", "logicalType": "date"}, 7, "field 'x' is date, not int64"),
    (STRING, "string", "a", "a"),
    (STRING, DECIMAL, b"\x04\xd2", "12.34"),
    (STRING, "bytes", b"a", "field 'x' is bytes, not string"),
    (STRING, ["null", "string"], None, "field 'x' is null, not string"),
]


@pytest.mark.parametrize(("column", "kind", "value", "expected"), AVRO)
def test_values_of_avro(column, kind, value, expected):
    keys, reasons, values = read_avro(column, kind, value)
    reason = expected if isinstance(expected, str) and expected.startswith("field ") else None
    found = [array[0].as_py() for array in (keys, reasons, values)]
    assert found == ([None, reason, None] if reason else ["k", None, expected])
    assert values.type == column.type


def test_several_columns_are_read_together():
    columns = (EventTime("at"), FieldValue("amount", pa.float64()), FieldValue("user.name"))
    reader = JsonFields(("user", "id"), columns=columns)
    messages = [
        b'{"user":{"id":"a","name":"n"},"at":5,"amount":1.5}',
        b'{"user":{"id":"a","name":"n"},"at":5,"amount":"much"}',
        b'{"user":{"id":"a","name":"n"},"at":"late","amount":1.5}',
    ]
    array = pa.array(messages, pa.binary())
    keys, _, amounts, names = reader.read(array, 10)
    assert reader.gives == ("key", "time", "amount", "user.name")
    assert (keys.to_pylist(), amounts[0].as_py(), names[0].as_py()) == (["a", None, None], 1.5, "n")
    assert reader.reasons(array, 10).to_pylist() == [
        *(None, "field 'amount' is STRING, not double"),
        "field 'at' is 'late', no time such as 2026-11-28T12:00:00Z",
    ]


def test_an_operator_says_of_which_type_its_columns_are():
    def columns(**changes):
        return {each.name: str(each.type) for each in make_field_columns(settings(**changes))}

    assert columns(work=Statistics("amount")) == {"amount": "double"}
    assert columns(work=Statistics("offset")) == {}
    assert columns(work=TopK("user.page"), time_field="at") == {"time": "timestamp[us, tz=UTC]", "user.page": "string"}
    assert columns(work=len, work_columns=("offset", "user.page")) == {"user.page": "string"}
    join = IntervalJoin("1 s", left="price double, size int32", side="click")
    assert columns(work=join) == {"id": "int64", "price": "double", "size": "int64", "click": "string"}
