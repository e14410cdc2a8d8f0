"""The user's work raises: one line that names the key and the user's own line, or the message is rejected."""

import inspect
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.conftest import by_key, count_by_key, countries, final_counts, publish, read_results, records
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.operators.errors import StateFault
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker import failures as failures_
from unskew.apps.worker import worker
from unskew.apps.worker.failures import FailureLog
from unskew.apps.worker.worker import POSITION, Worker, apply_function
from unskew.errors import EnvironmentFault


def make():
    """A function that goes to the tasks as it is: they can't import the tests."""

    def picky(tuples: pa.RecordBatch) -> pa.RecordBatch:
        assert set(tuples.schema.names) <= {"key", "time"}
        for key in tuples.column("key").to_pylist():
            if key.startswith("bad"):
                raise KeyError(f"no\n{key}")
        return pa.record_batch([tuples.column("key"), pa.array([1] * tuples.num_rows)], ["key", "count"])

    return picky


picky = make()
LINE = inspect.getsourcelines(picky)[1] + 4


def test_the_tuples_that_fail_are_found():
    batch = pa.record_batch([pa.array(["a", "bad1", "a", "b", "bad2", "c"])], ["key"])
    found = list(apply_function(picky, batch))
    assert sum(part.num_rows for part, _ in found) == 6
    failed = [(part.column("key")[0].as_py(), str(error)) for part, error in found if isinstance(error, Exception)]
    assert failed == [("bad1", "'no\\nbad1'"), ("bad2", "'no\\nbad2'")]


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize("time", ["batch", "event"])
def test_the_run_fails_in_one_line_or_rejects_the_message(settings, spark, drain, connection, topic, time):
    stamps = [1_700_000_000_000 + i for i in range(41)]
    publish(connection, topic, 2, countries(["a", "b"] * 10 + ["bad"] + ["a", "b"] * 10), ms=stamps)
    run = settings("KEY", work=picky, window=0.5, run_time=600.0, time=time)
    with pytest.raises(EnvironmentFault) as error:
        StreamingJob(run, []).run(spark)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"the work failed on key 'bad' ({__file__}:{LINE} in picky: KeyError: ")
    assert line.endswith("nothing is lost: mend it and start again, or give --work-option errors=reject")
    patient = settings("KEY", work=picky, window=0.5, run_time=600.0, time=time, work_errors="reject")
    _, reports = drain(patient)
    assert count_by_key(run) == {"a": 20, "b": 20}
    totals = reports[-1].totals
    assert (totals.rejected, totals.tuples, totals.routed) == (1, 40, 40)
    [(key, value)] = read_results(run, "rejected")
    assert key == f"{topic}-0-10"
    assert value["reason"].startswith(f"work: {__file__}:{LINE} in picky: KeyError: ")


def tuples_of(keys, first=0):
    """A packet of one worker, with positions: all of one Kafka partition, from this offset on."""
    n = len(keys)
    columns = [pa.array(keys), pa.array([0] * n, pa.int32()), pa.array(range(first, first + n), pa.int64())]
    return cut_packets(pa.record_batch(columns, ["key", *POSITION]), np.zeros(n, np.int32), 1)


class Heard:
    """The reports of a batch, on the driver."""

    def send(self, batch, number, report):
        self.failures = report.failures


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """An attempt of a worker's task at a batch, with a work that fails on these keys, or on lists of keys.

    It returns the counts, the messages that failed, and the keys that were executed.
    """
    monkeypatch.setattr(worker, "get_batch_number", lambda: 7)
    log = FailureLog(str(tmp_path))

    def run(bad, *packets, log=log):
        fails = bad if callable(bad) else lambda keys: set(keys) & set(bad)
        called = []

        def work(tuples):
            called.append(tuples.column("key").to_pylist())
            if fails(called[-1]):
                raise KeyError(f"error {len(called)}")
            return pa.record_batch([tuples.column("key"), pa.array([1] * tuples.num_rows)], ["key", "count"])

        heard = Heard()
        made = Worker(work, reports=heard, work_errors="reject", failure_log=log)(iter(packets))
        counts = {row["key"]: row["count"] for batch in made for row in batch.to_pylist()}
        return counts, heard.failures, called

    return run


def test_a_later_attempt_rejects_what_the_first_rejected(attempt):
    packets = tuples_of(["a", "b", "a"]), tuples_of(["b", "c"], 3)
    counts, failures, _ = attempt("b", *packets)
    assert counts == {"a": 2, "c": 1}
    assert set(failures) == {(0, 1), (0, 3)}
    again = attempt("", *packets)
    assert again[:2] == (counts, failures), "and for the same reasons"
    assert again[2] == [["a", "a"], ["c"]], "the work isn't called on them"
    assert attempt("", *reversed(packets))[:2] == (counts, failures)


def test_a_tuple_that_the_first_attempt_counted_is_not_rejected(attempt):
    counts, failures, _ = attempt("", tuples_of(["a", "b"]))
    assert (counts, failures) == ({"a": 1, "b": 1}, {})
    with pytest.raises(StateFault, match=r"failed on key 'b' .*KeyError.*, but didn't when the batch ran before"):
        attempt("b", tuples_of(["a", "b"]))
    assert attempt("", tuples_of(["a", "b"]))[0] == counts


def test_an_attempt_that_ended_in_between_decides_nothing(attempt):
    def dies():
        yield tuples_of(["a", "b"])
        raise OSError

    with pytest.raises(OSError):
        attempt("b", *dies())
    assert attempt("", tuples_of(["a", "b"]))[:2] == ({"a": 1, "b": 1}, {})


def test_of_two_attempts_at_the_same_time_one_goes_on(attempt, tmp_path):
    class Late(FailureLog):
        """It looked before the other attempt had written."""

        def read(self, worker, batch):
            return None

    attempt("b", tuples_of(["a", "b"]))
    with pytest.raises(EnvironmentFault, match="another attempt of worker 0 at batch 7 has rejected other messages"):
        attempt("a", tuples_of(["a", "b"]), log=Late(str(tmp_path)))
    counts, _, _ = attempt("", tuples_of(["a", "b"]), log=Late(str(tmp_path / "other")))
    assert counts == {"a": 1, "b": 1}


def test_of_two_tuples_that_are_alike_each_attempt_rejects_one(attempt):
    """A message has a key twice, and the work fails on one of the two."""
    twice = pa.record_batch(
        [pa.array(["a", "a"]), pa.array([0, 0], pa.int32()), pa.array([5, 5], pa.int64())], ["key", *POSITION]
    )
    packet = cut_packets(twice, np.zeros(2, np.int32), 1)
    raises = iter([True, True])
    counts, failures, _ = attempt(lambda keys: next(raises, False), packet)
    assert (counts, list(failures)) == ({"a": 1}, [(0, 5)])
    assert attempt("", packet)[:2] == (counts, failures)


def test_failures_are_bounded(attempt, monkeypatch):
    monkeypatch.setattr(failures_, "MOST_FAILED", 3)
    _, failures, _ = attempt("b", tuples_of([*"abbba"]))
    assert len(failures) == 3
    monkeypatch.setattr(worker, "get_batch_number", lambda: 8)
    calls = []
    with pytest.raises(StateFault, match=r"on more than 3 tuples of one worker in one batch.*on key 'b' \(.*KeyError"):
        attempt(lambda keys: calls.append(keys) or True, tuples_of(["b"] * 1000, 5))
    assert len(calls) < 30, "of 1999"


def test_calls_are_bounded(attempt, monkeypatch):
    """The work fails on any two tuples, and on none alone."""
    monkeypatch.setattr(worker, "MOST_RAISED", 20)
    calls = []
    with pytest.raises(StateFault, match=r"raised more than 20 times in one batch of a worker, at last: .*KeyError"):
        attempt(lambda keys: calls.append(keys) or len(keys) > 1, tuples_of(["a"] * 1000))
    assert len(calls) <= 2 * 21


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(20)
@pytest.mark.parametrize("fails", ["before", "afterwards"])
@pytest.mark.parametrize("time", ["batch", "event"])
def test_a_message_is_counted_or_rejected_and_never_both(
    settings, spark, die_uncommitted, drain, connection, topic, tmp_path, fails, time
):
    """The work fails for a while, and the driver dies after it has published a batch, but before the commit."""
    trouble = tmp_path / "trouble"

    def make_fickle(there):
        def fickle(tuples: pa.RecordBatch) -> pa.RecordBatch:
            if "bad" in tuples.column("key").to_pylist() and Path(there).exists():
                raise KeyError("a moment ago")
            return pa.record_batch([tuples.column("key"), pa.array([1] * tuples.num_rows)], ["key", "count"])

        return fickle

    stamps = [1_700_000_000_000 + i for i in range(41)]
    publish(connection, topic, 2, countries(["a", "b"] * 10 + ["bad"] + ["a", "b"] * 10), ms=stamps)
    run = settings("KEY", work=make_fickle(str(trouble)), window=0.5, run_time=600.0, time=time, work_errors="reject")
    topics = list_result_topics(run)
    if fails == "before":
        trouble.touch()
    die_uncommitted(run, lambda report: report.batch.start != report.batch.end)
    rejected = records(connection, topics["rejected"])
    if fails == "before":
        trouble.unlink()
        assert [key for key, _ in rejected] == [f"{topic}-0-10"]
    else:
        trouble.touch()
        assert rejected == []
        with pytest.raises(
            EnvironmentFault, match=r"failed on key 'bad' .*, but didn't when the batch ran before"
        ) as error:
            StreamingJob(run, []).run(spark)
        assert str(error.value).endswith("nothing is lost: mend it and start again")
        trouble.unlink()
    _, reports = drain(run)
    counted = {} if fails == "before" else {"bad": 1}
    assert by_key(final_counts(connection, topics["aggregator"])) == {"a": 20, "b": 20, **counted}
    assert reports[-1].totals.rejected == len(rejected)
    assert dict(records(connection, topics["rejected"])) == dict(rejected)
