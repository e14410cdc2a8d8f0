"""The user's work raises: one line that names the key and the user's own line, or the message is rejected."""

import inspect

import pyarrow as pa
import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from unskew.apps.run.run import Run
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.worker import results
from unskew.errors import EnvironmentFault

pytestmark = pytest.mark.xdist_group("spark-2")


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
    found = list(results(picky, batch))
    assert sum(part.num_rows for part, _ in found) == 6
    failed = [(part.column("key")[0].as_py(), str(error)) for part, error in found if isinstance(error, Exception)]
    assert failed == [("bad1", "'no\\nbad1'"), ("bad2", "'no\\nbad2'")]


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("time", ["batch", "event"])
def test_the_run_fails_in_one_line_or_rejects_the_message(settings, spark, drain, connection, topic, time):
    stamps = [1_700_000_000_000 + i for i in range(41)]
    publish(connection, topic, 2, countries(["a", "b"] * 10 + ["bad"] + ["a", "b"] * 10), ms=stamps)
    run = settings("KEY", work=picky, window=0.5, run_time=600.0, time=time)
    with pytest.raises(EnvironmentFault) as error:
        Run(run, []).run(spark)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"the work failed on key 'bad' ({__file__}:{LINE} in picky: KeyError: ")
    assert line.endswith("nothing is lost: mend it and start again, or give --work-errors reject")
    patient = settings("KEY", work=picky, window=0.5, run_time=600.0, time=time, work_errors="reject")
    _, reports = drain(patient)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {"a": 20, "b": 20}
    totals = reports[-1].totals
    assert (totals.rejected, totals.tuples, totals.routed) == (1, 40, 40)
    [(key, value)] = records(connection, result_topics(run)["rejected"])
    assert key == f"{topic}-0-10"
    assert value["reason"].startswith(f"work: {__file__}:{LINE} in picky: KeyError: ")
