"""Event time from a field of the messages: windows are right, whatever Kafka's timestamps say."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from fastavro import schemaless_writer

from tests.apps.conftest import count_by_key, count_by_window, publish, records, skewed, true_counts
from tests.apps.local_settings import settings as local_settings
from tests.harness.topology import START
from tests.tiers import nightly
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.errors import UsageError

MINUTE = 60_000  # ms
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def as_json(key, ms):
    """An order whose time is a text, with an offset of its own and more digits than milliseconds."""
    zone = timezone(timedelta(minutes=30 * (ms % 24)))
    placed = datetime.fromtimestamp(ms / 1000, UTC).replace(microsecond=1000 * (ms % 1000) + 999).astimezone(zone)
    return orjson.dumps({"order": ms, "customer": {"id": key}, "placed": placed.isoformat()})


def as_csv(key, ms):
    return f"{ms / 1000:.3f},{key}".encode()


def as_avro(key, ms):
    out = io.BytesIO()
    bare = {**ORDER, "fields": [ORDER["fields"][0], {"name": "placed", "type": "long"}]}
    schemaless_writer(out, bare, {"customer": key, "placed": 1000 * ms + 999})
    return out.getvalue()


FORMATS = {
    "json": (as_json, {"key_field": "customer.id", "time_field": "placed"}),
    "csv": (as_csv, {"key_field": "2", "time_field": "1", "time_unit": "s"}),
    "avro": (as_avro, {"key_field": "customer", "time_field": "placed"}),
}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("form", "grouping"),
    [
        ("json", "DYNAMIC_KEY"),  # which uses the tuples' times
        *nightly("groupings", ("json", "PLANNED"), ("csv", "PARTIAL_KEY"), ("avro", "DYNAMIC_KEY")),
    ],
)
def test_windows_go_by_the_field(form, grouping, settings, drain, connection, topic, tmp_path):
    """Orders of 100 minutes come out of order by up to eight minutes, and ten come much too late."""
    write, fields = FORMATS[form]
    keys = skewed(3_000)
    ms = [START + 2_000 * i - (1009 * i) % (8 * MINUTE) for i in range(len(keys))]
    late = [("late", START)] * 10
    publish(connection, topic, 2, [write(key, t) for key, t in [*zip(keys, ms, strict=True), *late]])
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    schema = {"schema": str(tmp_path / "order.avsc")} if form == "avro" else {}
    changes = {"window": 60.0, "lateness": 600.0, "max_tuples": 700, "format": form, **fields, **schema}
    run = settings(grouping, source_type="COLUMN", **changes)
    _, reports = drain(run)
    assert count_by_window(run) == true_counts(keys, ms, MINUTE)
    totals = reports[-1].totals
    assert (totals.late, totals.rejected, totals.tuples) == (len(late), 0, len(keys))


BAD = {
    b'{"key":"k"}': "no field 'at'",
    b'{"key":"k","at":null}': "field 'at' is VOID, which is no time",
    b'{"key":"k","at":"2026-11-28T12:00:00"}': "field 'at' is '2026-11-28T12:00:00', which has no offset",
    b'{"key":"k","at":-1}': "field 'at' is -1 ms, which is not in the years 1970 to 9999",
    b'{"key":"k","at":"2999-01-01T00:00:00Z"}': (
        "field 'at' is 2999-01-01T00:00:00.000Z, which is more than 3600 s ahead"
    ),
}


def test_a_message_without_a_valid_time_is_rejected(settings, drain, connection, topic):
    good = [b'{"key":"k","at":%d}' % (START + i) for i in range(40)]
    publish(connection, topic, 2, [*good[:20], *BAD, *good[20:]])
    run = settings("KEY", time_field="at", source_type="COLUMN")
    _, reports = drain(run)
    assert (count_by_key(run), reports[-1].totals.rejected) == ({"k": 40}, len(BAD))
    found = [value for _, value in records(connection, f"{topic}-rejected")]
    assert {value["value"].encode(): value["reason"] for value in found} == BAD


def test_a_field_that_no_message_has_is_refused(settings, drain, connection, topic):
    publish(connection, topic, 2, [b'{"country":"Chad","placed":%d}' % START] * 4)
    with pytest.raises(UsageError, match=r"time_field is 'place', but none of the 4 .* did you mean placed"):
        drain(settings("KEY", time_field="place"))


def test_a_time_field_is_event_time():
    assert local_settings().time == "batch"
    assert local_settings(time_field="at").time == "event"
    assert local_settings(time_field="at", time="event").time == "event"


def test_a_checkpoint_belongs_to_its_time_field(tmp_path):
    by_kafka, by_field = local_settings(time="event").identity, local_settings(time_field="at").identity
    for name, record, others in (
        ("kafka", by_kafka, [by_field]),
        ("field", by_field, [by_kafka, local_settings(time_field="at", time_unit="s").identity]),
    ):
        checkpoint = Checkpoint(str(tmp_path / name))
        checkpoint.claim(record)
        for other in others:
            with pytest.raises(UsageError, match=r"belongs to a run with time(Field|Unit) "):
                checkpoint.claim(other)
    Checkpoint(str(tmp_path / "field")).claim(local_settings(time_field="at", time_unit="ms").identity)
