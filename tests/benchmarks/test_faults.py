"""The pure parts of the campaign of faults: its plan, its messages, its check, its slopes."""

import random
from collections import Counter
from itertools import islice

import orjson
import pytest

from benchmarks.faults import fuzz
from benchmarks.faults.batches import BatchLog
from benchmarks.faults.course import Course, together
from benchmarks.faults.faults import FAULTS
from benchmarks.faults.oracle import REASONS, read, reason_of
from benchmarks.faults.plan import GROUPINGS, KINDS, plan, scene
from benchmarks.faults.samples import Sample, trends
from benchmarks.faults.truth import Published, Record, judge, missing, truth_of

WINDOW_MS = 1000
FUTURE_MS = 1_000_000
ROUND = sum(kind.times for kind in KINDS.values())


def test_a_seed_has_one_plan_and_another_another():
    first, same, other = (list(islice(plan(seed), 100)) for seed in (3, 3, 4))
    assert first == same != other


def test_each_round_has_all_kinds_those_first_that_end_the_driver():
    faults = [fault.kind for fault in islice(plan(1), 2 * ROUND)]
    for half in (faults[:ROUND], faults[ROUND:]):
        assert Counter(half) == {name: kind.times for name, kind in KINDS.items()}
        ending = [KINDS[name].ends for name in half]
        assert ending == sorted(ending, reverse=True)
    assert KINDS.keys() == FAULTS.keys()
    assert "disk" not in {fault.kind for fault in islice(plan(1, ("disk",)), 2 * ROUND)}


def test_neighbouring_seeds_have_all_scenes():
    assert len({scene(seed) for seed in range(5, 5 + 2 * len(GROUPINGS))}) == 2 * len(GROUPINGS)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"country":"a"}', ("a", None)),
        (b' {"x":[1,{"y":-1.5e3}], "country" : "\\u0041"} ', ("A", None)),
        (b'{"country":"\x01"}', (None, "not JSON")),
        (b'{"country":"a"} and so on', ("a", None)),
        (b'{"country":""}', ("", None)),
        (None, (None, "no value")),
        (b'{"country":"\xff"}', (None, "not UTF-8")),
        (b"", (None, "not JSON")),
        (b'{"x":1,"country":"\x01"}', (None, "not JSON")),
        (b'{"country":"a","country":"b"}', (None, "not JSON")),
        (b'{"country":"\\ud800"}', (None, "not JSON")),
        (b'{"country":NaN}', (None, "not JSON")),
        (b'{"country":"a","x":' + b"[" * 1500 + b"]" * 1500 + b"}", (None, "not JSON")),
        (b"12x", (None, "not JSON")),
        (b"nullx", (None, "not JSON")),
        (b"null", (None, "no field")),
        (b'["country"]', (None, "no field")),
        (b'{"country":123456789012345678901234567890}', (None, "field of another type")),
        (b'{"country":null}', (None, "field of another type")),
    ],
)
def test_the_oracle(value, found):
    assert read(value) == found
    assert read(value, future=True) == (None, found[1] or "from the future")


def test_published_reasons_are_told_apart():
    said = ["no value", "not UTF-8", "not JSON", "no field 'country'", "field 'country' is VOID, not STRING"]
    assert [reason_of(reason) for reason in said] == list(REASONS)[:5]
    assert reason_of("timestamp 2100-01-01T00:00:00.000Z is more than 3600 s ahead") == "from the future"
    assert reason_of("something else") == "something else"


def test_the_fuzzer_finds_every_reason_and_the_same_by_the_same_seed():
    one, same = ([fuzz.message(rng) for _ in range(3000)] for rng in (random.Random(7), random.Random(7)))
    assert one == same
    reasons = Counter(read(message)[1] for message in one)
    assert reasons.keys() == {None, *REASONS} - {"from the future"}
    assert 0.05 < reasons[None] / len(one) < 0.3


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
    return [Record(0, 0, place, orjson.dumps({"reason": reason}), 0) for place, reason in reasons.items()]


@pytest.fixture
def truth():
    return truth_of("t", messages(), WINDOW_MS, lambda record: record.time_ms, FUTURE_MS)


REJECTED = {"t-1-0": "not JSON", "t-1-1": "timestamp x is more than 3600 s ahead"}


def verdict(truth, counts, again=(), rejected=REJECTED):
    counted = Published.of([*results(counts), *again])
    return judge(truth, counted, Published.of(rejects(rejected)))


def test_what_is_exact(truth):
    assert truth.counts == {
        ("1970-01-01T00:00:00.000Z", "a"): 2, ("1970-01-01T00:00:00.000Z", "b"): 1,
        ("1970-01-01T00:00:01.000Z", "a"): 1, ("1970-01-01T00:00:01.000Z", "b"): 1,
        ("1970-01-01T00:00:02.000Z", "c"): 1,
    }  # fmt: skip
    first = dict(islice(truth.counts.items(), 1))
    found = verdict(truth, truth.counts, again=results(first))
    assert found.exact
    assert (found.tuples, found.windows, found.windows_again) == (6, 3, 1)
    assert found.rejected == {"not JSON": 1, "from the future": 1}


@pytest.mark.parametrize(("by", "wrong"), [(-1, "lost"), (1, "doubled")])
def test_one_tuple_too_few_or_too_many(truth, by, wrong):
    place = next(iter(truth.counts))
    found = verdict(truth, truth.counts | {place: truth.counts[place] + by})
    assert not found.exact
    assert getattr(found, wrong) == 1


def test_a_window_that_was_lost_and_one_that_nobody_sent(truth):
    counts = dict(truth.counts)
    del counts["1970-01-01T00:00:02.000Z", "c"]
    counts["1970-01-01T00:00:02.000Z", "z"] = 1
    found = verdict(truth, counts)
    assert (found.lost, found.doubled, found.exact) == (1, 1, False)


def test_a_window_published_again_with_another_value(truth):
    place = next(iter(truth.counts))
    earlier = Published.of([*results({place: 7}), *results(truth.counts)])
    found = judge(truth, earlier, Published.of(rejects(REJECTED)))
    assert (found.altered, found.lost, found.doubled, found.exact) == (1, 0, 0, False)


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


def test_what_was_acknowledged_and_isnt_there(tmp_path):
    notes = tmp_path / "acknowledged-1"
    notes.write_text("1-0 0 0\n1-6 1 0\n1-9 0 9\n1-3 0 4\n1-1 0")  # the fourth is elsewhere, the last one was cut
    assert missing([notes], messages()) == 2


def test_batches_are_read_from_the_checkpoint(tmp_path):
    log = BatchLog(tmp_path, "t")
    for folder in ("offsets", "commits", "unskew/clock"):
        (tmp_path / folder).mkdir(parents=True)
    for batch, ends in enumerate([{"0": 3}, {"0": 3}, {"0": 5, "1": 2}]):
        metadata = orjson.dumps({"batchTimestampMs": 100 * batch}).decode()
        offsets = orjson.dumps({"t": ends}).decode()
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{metadata}\n{offsets}\n7")
    (tmp_path / "unskew" / "clock" / f"{2:012d}").write_bytes(b"5000")
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).touch()
    log.follow()
    assert log.committed == 2
    assert log.time_of(0, 3) is None
    (tmp_path / "commits" / "2").touch()
    log.follow()
    times = [log.time_of(0, 0), log.time_of(0, 2), log.time_of(0, 3), log.time_of(0, 5), log.time_of(1, 1)]
    assert times == [0, 0, 5200, None, 5200]


def test_a_slope_is_that_within_the_parts():
    """Two parts, the second far above the first: what a restart changes is no slope."""
    first = [Sample(at, "JVM", 1, "MiB", 100 + at / 3600) for at in range(0, 700, 10)]
    second = [Sample(at, "JVM", 2, "MiB", 900 + at / 3600) for at in range(800, 1500, 10)]
    short = [Sample(at, "JVM", 3, "MiB", at) for at in range(2000, 2150, 10)]
    found = trends([*first, *second, *short])["JVM", "MiB"]
    assert found.parts == 2
    assert found.slope == pytest.approx(1.0)
    assert found.longest == 510


def test_runs_are_kept_and_put_together(tmp_path):
    course = Course(["1: KEY, batch time"], 60.0, Counter(jvm=2), {"jvm": [1.5, 2.5]}, batches=7, ends=Counter(x=1))
    course.verdict.rejected["not JSON"] = course.verdict.lost = 3
    course.samples = [Sample(float(at), "JVM", 5, "MiB", 10.0 + at) for at in range(0, 400, 10)]
    course.save(tmp_path)
    assert Course.load(tmp_path) == course
    both = together([course, Course.load(tmp_path)])
    assert both.recoveries == {"jvm": [1.5, 2.5, 1.5, 2.5]}
    assert (both.inflicted, both.batches, both.verdict.lost) == ({"jvm": 4}, 14, 6)
    assert both.verdict.rejected == {"not JSON": 6}
    assert trends(both.samples)["JVM", "MiB"].parts == 2
