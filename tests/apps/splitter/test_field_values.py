"""Fields of messages that a work reads, as numbers or texts; and the reasons where there is no such value."""

import io
import json

import pyarrow as pa
import pytest
from fastavro import schemaless_writer

from tests.apps.local_settings import settings
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.splitter.avro_decoder import AvroDecoder, make_columns
from unskew.apps.splitter.avro_limits import AvroSchema
from unskew.apps.splitter.field_columns import EventTime, FieldValue
from unskew.apps.splitter.json_fields import JsonFields
from unskew.apps.splitter.kafka_source import make_field_columns
from unskew.errors import UsageError
from unskew.operators import IntervalJoin, Statistics, TopK

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
    def record(of):
        fields = [{"name": "key", "type": "string"}, {"name": "x", "type": of}]
        return {"type": "record", "name": "R", "fields": fields}

    out = io.BytesIO()
    schemaless_writer(out, record(kind["type"] if isinstance(kind, dict) else kind), {"key": "k", "x": value})
    decoder = AvroDecoder("key", schema=AvroSchema.of(json.dumps(record(kind))), columns=(column,))
    keys, reasons, values = make_columns(decoder.columns, [decoder.read(out.getvalue())], 0)
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source_type": "TWITTER_ELECTION"}, "is 'amount'; valid with sourceType TWITTER_ELECTION: value, topic"),
        ({"source_type": "COLUMN", "format": "text"}, "is 'amount'; valid with format text: value, topic"),
        ({"source_type": "COLUMN", "format": "csv", "key_field": "1"}, "valid with format csv: value, topic"),
    ],
)  # fmt: skip
def test_a_column_that_messages_cannot_have_is_refused(given, message):
    with pytest.raises(UsageError) as error:
        Dataflow.of(settings(work=Statistics("amount"), **given))
    assert message in str(error.value)
