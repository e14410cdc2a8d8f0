"""What a campaign's contestants must give, and how they are started: without Spark and Kafka."""

import orjson
import pyarrow as pa

from evidence.faults import flaky
from evidence.faults.contestants import judge_kept, judge_once, kept, summaries
from tests.oracle.truth import Published, Record, Truth, Verdict, failures, judge, truth_of
from unskew.apps.operators.loader import import_object
from unskew.apps.worker.worker import apply_function

WINDOW, NEXT = "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:10.000Z"


def published(key, batch, count, least, most, window=WINDOW):
    """A record of a summary. Its batch has another time than its number suggests, as after a step of the clock."""
    named = {"generation": 0, "number": batch, "time": 1_000_000 - batch}
    fields = {"count": count, "sum": 0.0, "min": float(least), "max": float(most)}
    value = {"key": key, "batch": named, "tags": {"key": key, "window": window}, "fields": fields}
    return Record(0, batch, f"{window}/{key}", orjson.dumps(value), 0)


def truth():
    found = Truth()
    for window, key, offset in [(WINDOW, "a", 3), (WINDOW, "a", 9), (WINDOW, "b", 4), (NEXT, "a", 11)]:
        found.counts[window, key] += 1
        found.ids.add((window, key, offset))
    return found


RIGHT = [published("a", 2, 2, 3, 9), published("b", 2, 1, 4, 4), published("a", 3, 1, 11, 11, NEXT)]


def test_the_summary_of_the_latest_batch_is_the_one_that_must_be_right():
    expected = summaries(truth())
    assert expected == {(WINDOW, "a"): (2, 3, 9), (WINDOW, "b"): (1, 4, 4), (NEXT, "a"): (1, 11, 11)}
    assert kept([published("a", 1, 1, 3, 3), *RIGHT]) == expected
    judge_kept(verdict := Verdict(), expected, kept(RIGHT))
    assert verdict.exact


def test_where_results_are_published_exactly_once_a_second_record_is_one_too_many():
    judge_once(once := Verdict(), [Published.of(RIGHT), Published.of(RIGHT[:1])])
    assert once.exact
    judge_once(twice := Verdict(), [Published.of(RIGHT), Published.of([*RIGHT, RIGHT[0]])])
    assert (twice.doubled, twice.exact) == (1, False)


def test_a_summary_that_is_stale_missing_or_too_many_is_altered():
    expected = summaries(truth())
    for wrong in ([*RIGHT, published("a", 4, 1, 3, 3)], RIGHT[1:], [*RIGHT, published("c", 2, 1, 1, 1)]):
        judge_kept(verdict := Verdict(), expected, kept(wrong))
        assert (verdict.altered, len(verdict.differences)) == (1, 1)
    judge_kept(verdict := Verdict(), expected, kept(RIGHT[:2]), before=NEXT)
    assert verdict.exact, "the last window was open"


MESSAGES = [Record(0, offset, "", b'{"country":"a"}', 0) for offset in range(3)] + [Record(0, 3, "", b"{", 0)]
RAISED = "work: flaky.py:33 in flaky: RuntimeError: a bad spell"


def judged(counted, reasons):
    """What comes of three valid messages and a malformed one, if a run counts so many and rejects for these reasons."""
    start = "1970-01-01T00:00:00.000Z"
    count = {"tags": {"window": start, "key": "a"}, "fields": {"count": counted}}
    rejected = [Record(0, 0, f"t-0-{at}", orjson.dumps({"reason": reason}), 0) for at, reason in reasons.items()]
    expected = truth_of("t", MESSAGES, 10_000, lambda record: record.time_ms, 1 << 62, failures(rejected))
    return judge(expected, Published.of([Record(0, 0, "a", orjson.dumps(count), 0)]), Published.of(rejected))


def test_a_message_on_which_the_work_fails_is_counted_or_rejected():
    assert judged(3, {3: "not JSON"}).exact
    verdict = judged(2, {1: RAISED, 3: "not JSON"})
    assert verdict.exact
    assert verdict.rejected == {RAISED: 1, "not JSON": 1}
    both, neither = judged(3, {1: RAISED, 3: "not JSON"}), judged(2, {3: "not JSON"})
    assert (both.doubled, both.lost, neither.doubled, neither.lost) == (1, 0, 0, 1)
    assert judged(3, {3: RAISED}).rejected_wrongly == 2, "it is malformed: no work has seen it"
    assert judged(3, {1: "not JSON", 3: "not JSON"}).rejected_wrongly == 1


def test_a_flaky_work_fails_on_other_tuples_each_time(monkeypatch):
    tuples = pa.record_batch([pa.array(["a"] * 20_000), pa.array(range(20_000))], ["key", "offset"])

    def failing(now):
        monkeypatch.setattr(flaky.time, "time", lambda: now)
        found = list(apply_function(import_object("evidence.faults.flaky:flaky"), tuples))
        failed = {part["offset"][0].as_py() for part, result in found if isinstance(result, Exception)}
        counts = sum(result.counts["count"].to_pylist()[0] for _, result in found if not isinstance(result, Exception))
        assert counts == 20_000 - len(failed)
        return failed

    first, second = failing(0.0), failing(flaky.PERIOD + flaky.SPELL / 2)
    assert 50 < len(first) < 200
    assert first != second
    assert not failing(flaky.SPELL)
