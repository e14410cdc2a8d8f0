"""Whatever a producer writes, the run goes on, counts the good messages, and says what is wrong with the others."""

import io
import json
import sys
import time
from collections import Counter

import orjson
import pyarrow as pa
import pytest
from fastavro import schemaless_writer
from pyspark import cloudpickle

from tests.apps.conftest import LENIENT, count_by_key, countries, produce, publish, read_results
from tests.oracle.messages import read, reason_of
from tests.tiers import nightly
from unskew.apps.aggregator.publisher import ResultPublisher, list_result_topics
from unskew.apps.splitter.json_fields import LONGEST_KEY
from unskew.apps.worker.result_messages import LONGEST_RECORD
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.operators import PerKey

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the tasks can't import the tests

LARGE = 900_000
#: ms: no time, negative, seconds, microseconds and nanoseconds as ms, year 300000, the ends of int64.
TIMES = [
    *(-1, -(10**15), 1_700_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000),
    *(9_404_898_624_000_000, 2**63 - 1, -(2**63)),
]
COUNTRIES = [
    b"",
    None,
    b"\x00\xff" * (LARGE // 2),
    b"\x01" * LARGE,
    "ü".encode() * (LARGE // 2),
    b'{"country":"%s"}' % (b"k" * LARGE),
    b'{"country":"%s"}' % (b"\\u0001" * (LONGEST_KEY + 1)),
    b'{"country":"%s"}' % (b"\\u0001" * LONGEST_KEY),  # the longest key, in its longest spelling: a good one
    b"[" * 100_000,
    b'{"country":' * 50_000,
    b"\x00" * 100,
    b'{"country":"a\x00b"}',
    b'{"country":"a\\u0000b"}',
    b'{"country":"\\ud800"}',
    b'{"country":"\\udc00\\ud800"}',
    b'{"country":"\xed\xa0\x80"}',
    b'{"country":%s}' % (b"1" * LARGE),
    b'{"country":"Chad","n":1e999999999}',
    b'{"country":"Chad","n":%s}' % (b"9" * 5000),
    b'{"country":NaN}',
    b'{"country":"a","country":"b"}',
    orjson.dumps({"country": {f"name {i}": i for i in range(40_000)}}),
    b"\xef\xbb\xbf" + b'{"country":"a"}',
    b'{"country":""}',
]


def send(connection, topic, messages):
    """Write messages of (partition, value, ms; None: now), with and without Kafka's keys and headers."""
    ensure_topic(connection, topic, 2, LENIENT)
    headers = [("h", None), ("h", b"\xff" * 10_000), ("\x00", b"")]
    refused = []

    def note(error, _):
        if error:
            refused.append(error)

    made = []
    for i, (partition, value, ms) in enumerate(messages):
        of = {"key": [None, b"", b"\xff" * 1000][i % 3], "headers": None if i % 3 else headers, "on_delivery": note}
        made.append({"value": value, "partition": partition, "timestamp": ms or round(1000 * time.time()), **of})
    produce(connection, topic, 2, made)
    assert refused == []


def poisoned(good, bad):
    """Good messages with bad ones among them, in two partitions, and the place (partition, offset) of each bad one."""
    messages, places = [], {}
    offsets = [0, 0]
    for i, each in enumerate([*good, *bad]):
        messages.append((i % len(good) if len(bad) < len(good) else i, each, i >= len(good)))
    messages.sort(key=lambda message: message[0])
    written = []
    for i, (_, (value, ms), is_bad) in enumerate(messages):
        partition = i % 2
        written.append((partition, value, ms))
        if is_bad:
            places[partition, offsets[partition]] = value
        offsets[partition] += 1
    return written, places


def rejected(connection, run):
    """(partition, offset) → the record about the message that was rejected there."""
    found = read_results(run, "rejected")
    return {(value["partition"], value["offset"]): value for _, value in found}


@pytest.mark.ci
@pytest.mark.takes(40)
def test_messages_of_every_wrong_kind(settings, drain, connection, topic):
    good = [(message, None) for message in countries(["Chad", "Mali", "Niger"] * 40)]
    written, places = poisoned(good, [(value, None) for value in COUNTRIES])
    send(connection, topic, written)
    truth = Counter(key for _, value, _ in written if (key := read(value)[0]) is not None)
    wrong = {place: reason for place, value in places.items() if (reason := read(value)[1]) is not None}
    run = settings("KEY", max_tuples=50, run_time=600.0)
    _, reports = drain(run)
    found = rejected(connection, run)
    assert found.keys() == wrong.keys()
    for place, record in found.items():
        # a reason may be cut
        assert reason_of(record["reason"]) == wrong[place] or record["reason"].startswith("field 'country' is OBJECT<")
        size = len(places[place] or b"")
        assert record.get("valueLength", size) == size
        assert "valueLength" in record or len((record.get("value") or record.get("valueBase64") or "").encode()) >= size
    assert count_by_key(run) == truth
    assert reports[-1].totals.rejected == len(wrong)
    # and it goes on where it ended
    publish(connection, topic, 2, countries(["Togo"] * 10))
    _, reports = drain(run)
    assert count_by_key(run) == truth | Counter(Togo=10)
    assert reports[-1].totals.rejected == len(wrong)


FORMATS = {
    "text": ({"source_type": "COLUMN", "format": "text"}, b"good", [None, b"\xff" * LARGE, b"k" * LARGE]),
    "csv": (
        {"source_type": "COLUMN", "format": "csv", "key_field": "2"},
        b"1,good,2",
        [None, b"", b"," * LARGE, b'"' * LARGE, b'a,"' + b"k" * LARGE, b"a," + b"k" * LARGE, b"\xff,\xff", b"\x00"],
    ),
    "hashtags": (
        {"source_type": "TWITTER_ELECTION"},
        b'{"hashtags":["good"]}',
        [None, b"", b"[" * 100_000, b'{"hashtags":' * 50_000, b'{"hashtags":["%s"]}' % (b"k" * LARGE),
         b'{"hashtags":["a"],"n":%s}' % (b"9" * 5000), b'{"hashtags":["\\ud800"]}', b'{"hashtags":{"a":1}}',
         b'{"hashtags":["a"],"hashtags":["b"]}', orjson.dumps({"hashtags": [["good"]]}), b"\xff" * LARGE],
    ),
}  # fmt: skip


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(15)
@pytest.mark.parametrize("form", [*FORMATS, "avro"])
def test_every_format(form, settings, drain, connection, topic, tmp_path):
    if form == "avro":
        schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
        (tmp_path / "r.avsc").write_text(json.dumps(schema))
        more = {"source_type": "COLUMN", "format": "avro", "key_field": "id", "schema": str(tmp_path / "r.avsc")}
        large, fine = io.BytesIO(), io.BytesIO()
        schemaless_writer(large, schema, {"id": "k" * LARGE})
        schemaless_writer(fine, schema, {"id": "good"})
        good = fine.getvalue()
        bad = [None, b"", b"\xff" * LARGE, b"\x00" * LARGE, large.getvalue(), b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"]
    else:
        more, good, bad = FORMATS[form]
    written, places = poisoned([(good, None)] * 40, [(value, None) for value in bad])
    send(connection, topic, written)
    run = settings("KEY", max_tuples=20, run_time=600.0, **more)
    _, reports = drain(run)
    found = rejected(connection, run)
    counts = count_by_key(run)
    assert counts["good"] == 40
    assert reports[-1].totals.rejected == len(found)
    assert all(value["reason"] for value in found.values())
    # what isn't rejected has a key
    assert found.keys() <= places.keys()
    assert sum(counts.values()) >= 40 + len(places) - len(found)


def years():
    """A work for which the time has to be one that Python has."""

    def update(key, tuples, state):
        return [{"year": max(each["timestamp"].year for each in tuples)}], {"seen": True}

    state, result = (pa.schema([field]) for field in (("seen", pa.bool_()), ("year", pa.int64())))
    return PerKey(update, state=state, results=result, columns=("timestamp",))


@pytest.mark.takes(12)
@pytest.mark.parametrize(
    ("time_", "work"),
    [pytest.param("event", None, marks=pytest.mark.ci), *nightly("groupings", ("batch", None), ("batch", "timestamp"))],
)
def test_timestamps_that_are_none(time_, work, settings, drain, connection, topic):
    """They matter where windows are by the messages' own time, or where the work reads it."""
    now = round(1000 * time.time())
    good = [(message, now + i) for i, message in enumerate(countries(["Chad"] * 40))]
    written, places = poisoned(good, [(b'{"country":"Mali"}', ms) for ms in TIMES])
    send(connection, topic, written)
    more = {"work": years(), "ttl": 60.0} if work else {"lateness": 60.0}
    run = settings("KEY", time=time_, max_tuples=16, run_time=600.0, **more)
    _, reports = drain(run)
    counts = count_by_key(run)
    assert counts["Chad"] == 40
    totals = reports[-1].totals
    assert totals.rejected + totals.late + counts["Mali"] == len(TIMES)
    found = rejected(connection, run)
    reasons = {ms_of(written, place): value["reason"] for place, value in found.items()}
    assert found.keys() <= places.keys()
    outside = {ms for ms in TIMES if not 0 <= ms <= 253_402_300_799_999}
    if time_ == "batch" and not work:
        assert found == {}
        assert counts["Mali"] == len(TIMES)
    else:
        assert reasons.keys() == outside
        assert all("is not in the years 1970 to 9999" in reason for reason in reasons.values())


def ms_of(written, place):
    """The timestamp of the message at a place."""
    return [ms for partition, _, ms in written if partition == place[0]][place[1]]


def growing(key, tuples, state):
    """A result that outgrows a record."""
    n = (state or {"n": 0})["n"] + len(tuples)
    which, text = "x" * (LONGEST_KEY * 3 if key == "long" else 1), "y" * (2 * LARGE if n > 5 else n)
    return [{"which": which, "text": text}], {"n": n}


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(30)
def test_a_result_that_no_record_holds(settings, drain, connection, topic):
    results = pa.schema([("which", pa.string()), ("text", pa.string())])
    work = PerKey(growing, state=pa.schema([("n", pa.int64())]), results=results, identity=("which",))
    longest = "\x01" * LONGEST_KEY
    publish(connection, topic, 2, countries(["small"] * 3 + ["large"] * 3 + ["long"] * 2 + [longest]))
    run = settings("KEY", work=work, ttl=60.0, run_time=600.0)
    drain(run)
    publish(connection, topic, 2, countries(["large"] * 3))
    drain(run)
    found = read_results(run, "results")
    latest = {value["key"]: value for _, value in found}
    assert latest["small"]["fields"]["text"] == "yyy"
    assert latest["large"]["fields"] == {}
    assert latest["large"]["error"].endswith(f"bytes, not {LONGEST_RECORD} at most")
    assert len({key for key, value in found if value["key"] == "large"}) == 1
    assert latest[longest]["fields"]["text"] == "y"
    assert max(len(key) for key, value in found if value["key"] != longest) < LONGEST_KEY
    # a result of a later batch has a later one's name
    named = [value["batch"]["number"] for _, value in found if value["key"] == "large"]
    assert named == sorted(named)
    assert len(set(named)) > 1


@pytest.mark.nightly(group="groupings")
def test_topics_and_clients_that_take_less_are_refused_at_once(settings, connection, topic):
    run = settings("KEY")
    ensure_topic(connection, list_result_topics(run)["rejected"], 2, {"max.message.bytes": "500000"})
    with pytest.raises(EnvironmentFault, match=rf"{topic}-rejected: max.message.bytes is 500000; valid: at least"):
        ResultPublisher(run)
    small = Connection(connection.bootstrap_servers, {"message.max.bytes": "100000"})
    with pytest.raises(EnvironmentFault, match=r"message\.max\.bytes is 100000; valid: at least"):
        ResultPublisher(settings("KEY", connection=small, topic=f"{topic}-2"))
