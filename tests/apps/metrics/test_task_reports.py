"""Reports of tasks at the driver: the newest of each task, and no more than a bound. Without Spark."""

import pytest

from unskew.apps.metrics import task_reports
from unskew.apps.metrics.task_reports import RouterReport, WorkerReport


@pytest.fixture
def merged(monkeypatch):
    """What is kept of workers' reports: (batch, worker, tuples)."""
    monkeypatch.setattr(task_reports, "_MANY", 10)

    def of(given):
        merge, kept = task_reports._ReportMerger(), {}
        for batch, worker, tuples in given:
            kept = merge.addInPlace(kept, {(batch, WorkerReport, worker): WorkerReport(tuples, 0, 0.0)})
            assert len(kept) <= 12
        return {(of, worker) for of, _, worker in kept}

    return of


def test_what_nobody_takes_is_bounded(merged):
    """As of a stream that idles for days, with batches without tuples."""
    kept = merged((batch, worker, 0) for batch in range(100) for worker in range(4))
    assert kept >= {(batch, worker) for batch in (98, 99) for worker in range(4)}
    assert len(kept) <= 10


def test_the_newest_batch_with_tuples_stays(merged):
    """The next plan is made of it, however long the stream idles."""
    kept = merged((batch, worker, 5 * (batch in {3, 7})) for batch in range(50) for worker in range(4))
    assert {of for of, _ in kept} >= {7, 48, 49}
    assert 3 not in {of for of, _ in kept}


def test_the_newest_report_of_each_task_stays(merged):
    """It says what a worker has released, of which the next plan is made, and that worker may not be called again."""
    kept = merged((batch, worker, 0) for batch in range(50) for worker in range(4 if batch in {0, 3} else 2))
    assert {(3, 2), (3, 3)} <= kept
    assert (0, 2) not in kept


def test_a_task_that_runs_again_reports_once():
    merge = task_reports._ReportMerger()
    kept = merge.addInPlace({}, {(3, RouterReport, 0): RouterReport(5, 0.1)})
    kept = merge.addInPlace(kept, {(3, RouterReport, 0): RouterReport(7, 0.2)})
    assert [report.tuples for report in kept.values()] == [7]
