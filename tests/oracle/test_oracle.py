"""The oracle by itself: what must become of each message, the fuzzer, and the check of what was published."""

import random
from collections import Counter
from itertools import islice

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tests.oracle.messages import LARGEST, REASONS, fuzzed, large, largest, read, reason_of
from tests.oracle.rows import Row, beyond_cap, judge_rows, place, placed, remembered, rows_of, shared_place, written
from tests.oracle.truth import Published, Record, judge, missing, noting, topic_records, truth_of
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic

WINDOW_MS = 1000
FUTURE_MS = 1_000_000


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"country":"a"}', ("a", None)),
        (b' {"x":[1,{"y":-1.5e3}], "country" : "\\u0041"} ', ("A", None)),
        (b'{"country":"\x01"}', (None, "not JSON")),
        (b'{"country":"a"} and so on', (None, "more than an object")),
        (b' {"country":"a"}\n', ("a", None)),
        (b"1 2", (None, "not JSON")),
        (b'{"country":""}', ("", None)),
        (None, (None, "no value")),
        (b'{"country":"\xff"}', (None, "not UTF-8")),
        (b"", (None, "not JSON")),
        (b'{"x":1,"country":"\x01"}', (None, "not JSON")),
        (b'{"country":"a","country":"b"}', (None, "field twice")),
        (b'{"country":"a","x":1,"x":2}', ("a", None)),
        (b'{"country":"\\ud800"}', (None, "not JSON")),
        (b'{"country":NaN}', (None, "not JSON")),
        (b'{"country":"a","x":' + b"[" * 1500 + b"]" * 1500 + b"}", (None, "not JSON")),
        (b"12x", (None, "not JSON")),
        (b"nullx", (None, "not JSON")),
        (b"null", (None, "no field")),
        (b'["country"]', (None, "no field")),
        (b'{"country":123456789012345678901234567890}', (None, "field of another type")),
        (b'{"country":null}', (None, "field of another type")),
        (b'{"country":"%s"}' % (b"k" * 65_536), ("k" * 65_536, None)),
        (b'{"country":"%s"}' % ("é".encode() * 32_769), (None, "key too long")),
    ],
)
def test_the_oracle(value, found):
    assert read(value) == found
    assert read(value, future=True) == (None, found[1] or "from the future")


def test_published_reasons_are_told_apart():
    published = [
        "no value",
        "not UTF-8",
        "not JSON",
        "not one JSON object: more follows it",
        "no field 'country'",
        "field 'country' is there twice",
        "field 'country' is VOID, not STRING",
    ]
    published.append("the key has 65538 bytes, not 65536 at most")
    assert [reason_of(reason) for reason in published] == list(REASONS)[:8]
    assert reason_of("timestamp 2100-01-01T00:00:00.000Z is more than 3600 s ahead") == "from the future"
    assert reason_of("something else") == "something else"


def test_the_fuzzer_finds_every_reason_and_the_same_by_the_same_seed():
    one, same = ([fuzzed(rng) for _ in range(3000)] for rng in (random.Random(7), random.Random(7)))
    assert one == same
    reasons = Counter(read(message)[1] for message in one)
    assert reasons.keys() == {None, *REASONS} - {"from the future", "key too long"}
    assert 0.05 < reasons[None] / len(one) < 0.3


def test_large_messages_are_as_large_as_a_broker_takes():
    rng = random.Random(7)
    assert len(large(rng, 40_000)) == 40_000
    assert read(large(rng, 40_000))[1] is None
    found = [largest(rng) for _ in range(40)]
    assert max(map(len, found)) == LARGEST
    assert {read(value)[1] for value in found} == {None, *REASONS} - {
        "no value",
        "more than an object",
        "field twice",
        "from the future",
    }


def messages():
    keys = ["a", "a", "b", "a", "b", "c"]
    records = [Record(0, i, f"1-{i}", b'{"country":"%s"}' % key.encode(), 400 * i) for i, key in enumerate(keys)]
    return [*records, Record(1, 0, "1-6", b"{", 0), Record(1, 1, "1-7", b'{"country":"d"}', FUTURE_MS)]


def results(counts):
    """Aggregator records of these counts."""
    for number, ((window, key), count) in enumerate(counts.items()):
        value = {"tags": {"window": window, "key": key}, "fields": {"count": count}}
        yield Record(0, number, f"{window}/{key}", orjson.dumps(value), 0)


def rejects(reasons):
    return [Record(0, 0, message, orjson.dumps({"reason": reason}), 0) for message, reason in reasons.items()]


@pytest.fixture
def truth():
    return truth_of("t", messages(), WINDOW_MS, lambda record: record.time_ms, FUTURE_MS)


REJECTED = {"t-1-0": "not JSON", "t-1-1": "timestamp x is more than 3600 s ahead"}


def verdict(truth, counts, again=(), rejected=REJECTED):
    counted = Published.of([*results(counts), *again])
    return judge(truth, counted, Published.of(rejects(rejected)))


def test_what_is_exact(truth):
    assert truth.counts == {
        ("1970-01-01T00:00:00.000Z", "a"): 2,
        ("1970-01-01T00:00:00.000Z", "b"): 1,
        ("1970-01-01T00:00:01.000Z", "a"): 1,
        ("1970-01-01T00:00:01.000Z", "b"): 1,
        ("1970-01-01T00:00:02.000Z", "c"): 1,
    }
    first = dict(islice(truth.counts.items(), 1))
    found = verdict(truth, truth.counts, again=results(first))
    assert found.exact
    assert (found.tuples, found.windows, found.windows_again) == (6, 3, 1)
    assert found.rejected == {"not JSON": 1, "from the future": 1}


FIRST, LAST = ("1970-01-01T00:00:00.000Z", "a"), ("1970-01-01T00:00:02.000Z", "c")
NOBODYS = (LAST[0], "z")


@pytest.mark.parametrize(
    ("changed", "earlier", "wrong"),
    [
        ({FIRST: 1}, {}, {"lost": 1}),
        ({FIRST: 3}, {}, {"doubled": 1}),
        ({LAST: None, NOBODYS: 1}, {}, {"lost": 1, "doubled": 1}),
        ({}, {FIRST: 7}, {"altered": 1}),
    ],
    ids=["too few", "too many", "a window that was lost and one that nobody sent", "published again, another value"],
)
def test_wrong_counts(truth, changed, earlier, wrong):
    counts = {cell: count for cell, count in (truth.counts | changed).items() if count}
    published = Published.of([*results(earlier), *results(counts)])
    found = judge(truth, published, Published.of(rejects(REJECTED)))
    assert {kind: getattr(found, kind) for kind in ("lost", "doubled", "altered") if getattr(found, kind)} == wrong
    assert not found.exact


@pytest.mark.parametrize(
    "rejected",
    [{"t-1-0": "not JSON"}, REJECTED | {"t-0-0": "not JSON"}, REJECTED | {"t-1-0": "no value"}],
    ids=["one less", "one more", "another reason"],
)
def test_a_rejected_message_that_is_wrong(truth, rejected):
    found = verdict(truth, truth.counts, rejected=rejected)
    assert found.rejected_wrongly
    assert not found.exact


def test_a_message_that_no_batch_took():
    truth = truth_of("t", messages(), WINDOW_MS, lambda record: None if record.offset == 2 else 0, FUTURE_MS)
    assert judge(truth, Published.of(results(truth.counts)), Published.of(rejects(REJECTED))).lost == 1


def test_a_topic_that_was_deleted_may_lack_its_open_windows_but_have_nothing_too_many(truth):
    counts = {cell: count for cell, count in truth.counts.items() if cell[0] < "1970-01-01T00:00:01.000Z"}
    counts["1970-01-01T00:00:01.000Z", "b"] = 1
    published, rejected = Published.of(results(counts)), Published.of(rejects(REJECTED))
    found = judge(truth, published, rejected, abandoned=True)
    assert (found.exact, found.abandoned, found.tuples) == (True, 2, 4)
    assert not judge(truth, published, rejected).exact
    counts["1970-01-01T00:00:01.000Z", "b"] = 2
    found = judge(truth, Published.of(results(counts)), rejected, abandoned=True)
    assert (found.doubled, found.exact) == (1, False)


def told(ids):
    for number, (window, key, offset) in enumerate(ids):
        value = {"key": key, "tags": {"window": window}, "fields": {"id": offset}}
        yield Record(0, number, f"{window}/{key}/{offset}", orjson.dumps(value), 0)


def test_the_ids_that_a_work_told(truth):
    def judged(ids):
        return judge(truth, Published.of(results(truth.counts)), Published.of(rejects(REJECTED)), (), Published.of(ids))

    ids = sorted(truth.ids)
    assert judged(told(ids)).exact
    assert (judged(told(ids)).ids, judged(told(ids[1:])).lost) == (6, 1)
    assert judged(told([*ids, ("1970-01-01T00:00:00.000Z", "a", 99)])).doubled == 1


def test_the_rows_of_a_query(tmp_path):
    records = [
        Record(1, offset, f"1-{offset}", value, 0) for offset, value in enumerate([b"a", b"a", b"a", b"b", None])
    ]
    assert placed(records)[Row(place(1, 2), b"a")] == 1
    assert placed(records).total() == 5
    ids = {(shared_place(1, offset), value) for offset, value in ((0, b"a"), (1, b"a"), (3, b"b"), (4, None))}
    assert remembered(records) == Counter(Row(*each) for each in ids)
    rows = [*remembered(records)]
    table = pa.table({"id": [row.id for row in rows], "key": pa.array([row.key for row in rows], pa.binary())})
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name, parts in (("0", [0]), ("9.compact", [0, 1]), ("10", [2, 3])):
        paths = [tmp_path / f"{part} part.parquet" for part in parts]
        for part, path in zip(parts, paths, strict=True):
            pq.write_table(table.slice(part, 1), path)
        entries = [orjson.dumps({"path": path.as_uri(), "action": "add"}).decode() for path in paths]
        (log / name).write_text("\n".join(["v1", *entries]))
    pq.write_table(table, tmp_path / "of a batch that failed.parquet")
    found = rows_of(written(tmp_path))
    assert judge_rows(remembered(records), found).exact
    found[rows[0]] += 1
    del found[rows[1]]
    verdict = judge_rows(remembered(records), found)
    assert (verdict.lost, verdict.doubled) == (1, 1)


def test_a_worker_beyond_its_cap_is_found():
    """Of batch 0 a worker of four may have 5 of 20 rows, and of batch 1 two of 6."""
    ids = [place(0, offset) for offset in range(20)] + [place(1, offset) for offset in range(6)]
    workers = [0, 1, 2, 3] * 5 + [0, 0, 1, 1, 2, 2]
    tables = [pa.table({"id": ids[begin : begin + 9], "worker": workers[begin : begin + 9]}) for begin in (0, 9, 18)]
    assert beyond_cap(tables, lambda partition, _offset: partition, 4) == []
    tables.append(pa.table({"id": [place(1, 9)], "worker": [0]}))
    assert beyond_cap(tables, lambda partition, _offset: partition, 4) == [((1, 0), 3, 2)]


def test_what_was_acknowledged_and_isnt_there(tmp_path):
    notes = tmp_path / "acknowledged-1"
    notes.write_text("1-0 0 0\n1-6 1 0\n1-9 0 9\n1-3 0 4\n1-1 0")  # the fourth is elsewhere, the last one was cut
    there: dict[tuple[int, int], str] = {}
    assert [*noting(messages(), there)] == messages()
    assert missing([notes], there) == 2


def test_a_topic_is_read_without_what_was_aborted(kafka, topic):
    """Also where its last records are marks of a transaction's end."""
    connection = Connection(kafka.bootstrap_servers)
    ensure_topic(connection, topic, 1)
    producer = Producer(connection.client(**{"transactional.id": topic}))
    producer.init_transactions(60)
    for value, commit in ((b"1", True), (b"2", False), (b"3", True), (b"4", False)):
        producer.begin_transaction()
        producer.produce(topic, value, b"key", partition=0)
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    assert [(record.offset, record.value) for record in topic_records(connection, topic)] == [(0, b"1"), (4, b"3")]
