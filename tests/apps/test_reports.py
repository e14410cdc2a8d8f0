"""Reports of tasks at the driver: the newest of each task, and no more than a bound. Without Spark."""

from unskew.apps import reports
from unskew.apps.reports import RouterReport, WorkerReport


def test_what_nobody_takes_is_bounded(monkeypatch):
    """As of a stream that idles for days, with batches without tuples."""
    monkeypatch.setattr(reports, "_MANY", 10)
    merge, kept = reports._Merge(), {}
    for batch in range(100):
        for worker in range(4):
            kept = merge.addInPlace(kept, {(batch, WorkerReport, worker): WorkerReport(0, 0, 0.0)})
        assert len(kept) <= 10
        assert sum(of == batch for of, _, _ in kept) == 4
    assert {(98, WorkerReport, worker) for worker in range(4)} <= kept.keys()


def test_a_task_that_runs_again_reports_once():
    merge = reports._Merge()
    kept = merge.addInPlace({}, {(3, RouterReport, 0): RouterReport(5, 0.1)})
    kept = merge.addInPlace(kept, {(3, RouterReport, 0): RouterReport(7, 0.2)})
    assert [report.tuples for report in kept.values()] == [7]


def test_the_newest_batch_with_tuples_stays(monkeypatch):
    """The next plan is made of it, however long the stream idles."""
    monkeypatch.setattr(reports, "_MANY", 10)
    merge, kept = reports._Merge(), {}
    for batch in range(50):
        tuples = 5 if batch in {3, 7} else 0
        for worker in range(4):
            kept = merge.addInPlace(kept, {(batch, WorkerReport, worker): WorkerReport(tuples, 0, 0.0)})
    assert {of for of, _, _ in kept} >= {7, 48, 49}
    assert 3 not in {of for of, _, _ in kept}


def test_the_newest_report_of_each_task_stays(monkeypatch):
    """It says what a worker has released, of which the next plan is made, and that worker may not be called again."""
    monkeypatch.setattr(reports, "_MANY", 10)
    merge, kept = reports._Merge(), {}
    for batch in range(50):
        for worker in range(4 if batch in {0, 3} else 2):
            kept = merge.addInPlace(kept, {(batch, WorkerReport, worker): WorkerReport(0, 0, 0.0)})
    assert {(3, WorkerReport, 2), (3, WorkerReport, 3)} <= kept.keys()
    assert (0, WorkerReport, 2) not in kept
