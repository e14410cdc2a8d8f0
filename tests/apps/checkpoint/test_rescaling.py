"""Other numbers of workers on the same checkpoint: all counts are exact, also of windows that were open meanwhile."""

import pytest

from tests.apps.conftest import count_by_window, countries, publish, true_counts
from tests.apps.local_settings import settings as local_settings
from unskew.apps.checkpoint.checkpoint import Checkpoint, WorkerHistory
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.preconditions import claim_checkpoint, require_own_checkpoint
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.errors import UsageError
from unskew.operators import Statistics
from unskew.spark.compat import choose_tokens

START, LENGTH = 1_700_000_000_000, 10_000


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize("grouping", ["D_CHOICES", "PLANNED", pytest.param("MIXED", marks=pytest.mark.slow)])
def test_counts_of_windows_that_are_open_meanwhile(grouping, settings, spark, connection, topic):
    keys = [f"Country {i % 97}" for i in range(4_000)]  # so many that each worker has some of them in each batch
    ms = [START + 7 * i for i in range(len(keys))]
    publish(connection, topic, 2, countries(keys), ms=ms)
    found, reports, offsets, started = {}, [], [], []
    for workers, batches in ((6, 2), (3, 3), (8, None)):
        run = settings(grouping, workers=workers, time="event", window=LENGTH / 1000, lateness=1.0, max_tuples=400)
        these: list = []
        left = iter(range(batches or 10_000, 0, -1))

        def count(_, left=left):
            if next(left) == 1:
                started[-1].stop()

        started.append(StreamingJob(run, [these.append, count]))
        offsets.append(Checkpoint(run.checkpoint).next_offsets().get(topic, {}))
        outcome = started[-1].run(spark)
        assert outcome.drained == (batches is None)
        counts = count_by_window(run)
        assert not counts.keys() & found.keys()
        found |= counts
        reports.append(these)
    assert found == true_counts(keys, ms, LENGTH)
    assert reports[-1][-1].totals.routed == reports[-1][-1].totals.tuples == len(keys)
    ends = [before[-1].batch.end[topic] for before in reports[:-1]]
    assert offsets[1:] == ends, "each goes on where the one before it ended"
    assert [len(these[-1].loads) for these in reports] == [6, 3, 8]
    assert len(reports[1][0].loads) == 6, "the first batch has the workers that there were"
    lines = [str(each) for these in reports for report in these for each in report.rebalances if each.workers]
    assert lines == ["rescaled from 6 to 3 workers", "rescaled from 3 to 8 workers"]
    assert PlanStateLog(run.checkpoint).newest().workers == 8


def run_of(checkpoint, workers, grouping="D_CHOICES"):
    of = {"grouping": grouping, "sources": 1, "workers": workers, "checkpoint": str(checkpoint)}
    return Dataflow.of(local_settings(**of, work=Statistics("offset"), window=15.0))


def test_states_that_would_have_to_meet_where_none_did(tmp_path):
    """With one worker nothing is split, and a home that Spark hasn't planned can't come to be."""
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.claim(run_of(tmp_path, 1).identity)
    with pytest.raises(UsageError, match="belongs to a run with statesSplit False, this one has True"):
        checkpoint.claim(run_of(tmp_path, 2).identity, changing=("numWorkers",))
    checkpoint.claim(run_of(tmp_path, 1).identity, changing=("numWorkers",))


def test_another_runs_checkpoint_stays_as_it_is(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    require_own_checkpoint(run_of(tmp_path, 4, "KEY"), checkpoint, {})
    claim_checkpoint(run_of(tmp_path, 4, "KEY"), checkpoint)
    claimed = checkpoint.read_record()
    for refuses in (
        lambda: require_own_checkpoint(run_of(tmp_path, 8, "D_CHOICES"), checkpoint, claimed),
        lambda: claim_checkpoint(run_of(tmp_path, 8, "D_CHOICES"), checkpoint),
    ):
        with pytest.raises(UsageError, match="groupingType"):
            refuses()
    assert checkpoint.read_record() == claimed
    assert PlanStateLog(str(tmp_path)).newest() is None
    require_own_checkpoint(run_of(tmp_path, 8, "KEY"), checkpoint, claimed)
    assert (checkpoint.read_record(), PlanStateLog(str(tmp_path)).newest()) == (claimed, None), (
        "another driver may hold it yet"
    )
    claim_checkpoint(run_of(tmp_path, 8, "KEY"), checkpoint)
    assert PlanStateLog(str(tmp_path)).newest().workers == 4


def test_what_is_noted_of_all_runs():
    history = WorkerHistory.of({}, 10)
    assert history == WorkerHistory(10, 10)
    claimed = {"numWorkers": 10} | history.entries()
    for workers, expected in ((20, WorkerHistory(10, 20)), (5, WorkerHistory(10, 20))):
        history = WorkerHistory.of(claimed, workers)
        assert history == expected
        claimed = {"numWorkers": workers} | history.entries()
    assert WorkerHistory.of({"numWorkers": 10}, 20) == WorkerHistory(10, 20), "the record of a query of keyed_map"


def test_workers_keep_their_tokens():
    for partitions in (1, 4, 10):
        assert all(
            choose_tokens(20, partitions)[:workers] == choose_tokens(workers, partitions) for workers in range(1, 21)
        )
