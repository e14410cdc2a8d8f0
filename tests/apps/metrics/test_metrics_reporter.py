"""What a run's reporter makes of its batches: metrics, marks, and their sums in the terminal and in the summary."""

import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import progress, read_page, report, shown
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.driver.listeners import Listeners
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.display import LEGEND, LiveView, summarise_rows
from unskew.apps.metrics.metrics_reporter import MetricsReporter, sample_batch
from unskew.apps.metrics.recovery import LastLag, Recovery
from unskew.apps.metrics.task_reports import PlanSummary
from unskew.apps.metrics.worker_demand import TARGET, WorkerDemand, count_wanted_workers
from unskew.grouping.feedback_loop import Rebalance

ONE = Rebalance(3, 6, 0.25, 12, 2.5, keys=1500, bytes=64_000, batch=7, after=1.25)
RING = Rebalance(4, 7, 0.75, 36, 1.5, batch=8, after=1.2)
#: Without a rebalance, and with each.
BATCHES = [report([1, 3]), replace(report([2, 2]), rebalances=(ONE,)), replace(report([2, 2]), rebalances=(RING,))]


def sample_values(batch, subject):
    return [sample.values for sample in sample_batch(batch) if sample.subject == subject]


def names_of(subject):
    return {metric.name for metric in catalogue.list_metrics(subject)}


def test_all_of_a_rebalance_is_a_metric():
    none, [one], [other] = (sample_values(batch, catalogue.REBALANCE) for batch in BATCHES)
    assert none == []
    assert one == {
        "plan": 3, "keys": 1500, "state": 64_000, "planning": 0.25, "table": 12, "before": 2.5, "after": 1.25,
    }  # fmt: skip
    assert one.keys() == names_of(catalogue.REBALANCE)
    assert one.keys() - other.keys() == {"keys"}, "of a ring nobody counts them"


def test_a_rebalance_is_marked_and_on_the_page(outputs, tmp_path, monkeypatch):
    monitor, marked = MetricsReporter(settings(grouping="MIXED", checkpoint=str(tmp_path)), outputs), []
    write = outputs.write

    def noted(samples, common):
        marked.extend(s for s in samples if s.subject == catalogue.EVENT and s.labels["kind"] == "rebalance")
        write(samples, common)

    monkeypatch.setattr(outputs, "write", noted)
    for batch in BATCHES:
        monitor.batch(batch)
    page = read_page(outputs)
    assert [sample.values["text"] for sample in marked] == [str(ONE), str(RING)]
    assert (page["unskew_rebalance_after_ratio"], page["unskew_rebalance_plan"]) == (1.2, 4)


def test_the_summary_and_the_terminal_add_rebalances_up():
    tally, view = JobTally("MIXED"), LiveView(settings(grouping="MIXED"))
    for batch in BATCHES:
        tally(batch)
        view.batch(batch)
    summary = tally.summary()
    assert (summary.rebalances, summary.moved_keys, summary.planning_seconds) == (2, 1500, 1.0)
    assert "2 rebalances, in batch 8 plan 4:" in " ".join(shown(view).split())
    names = " ".join(name for name, _ in summarise_rows(summary))
    explained = [sentence.partition(":")[0] for sentence in LEGEND.split(". ")]
    assert explained == ["STD_DEV", "DIST_COST", "imbalance", "worker time"]
    assert all(word in names for word in explained), "what the legend explains is in the summary"


def test_a_run_without_an_end_keeps_sums_and_nothing_of_each_batch():
    tally, one, batches = JobTally("MIXED"), report([1, 3]), 200_000
    listeners = Listeners("batches", [tally])
    for number in range(batches):
        listeners(replace(one, rebalances=(Rebalance(number, number, 0.25, 12, 2.5, keys=2),)))
    assert listeners.failures == 0
    assert len(pickle.dumps(tally)) < 2000
    summary = tally.summary()
    assert (summary.rebalances, summary.moved_keys, summary.planning_seconds) == (batches, 2 * batches, batches / 4)


def test_how_a_batch_was_planned_is_a_metric_once_one_is(outputs, tmp_path):
    batch = report([2, 2])
    planned = replace(batch, plan=PlanSummary(waves=3, added=12, split=5, waited=0.04))
    none, [values] = (sample_values(each, catalogue.PLANNER) for each in (batch, planned))
    assert none == []
    assert values == {"waves": 3, "added": 12, "split": 5, "waited": 0.04}
    assert values.keys() == names_of(catalogue.PLANNER)
    monitor = MetricsReporter(settings(grouping="PLANNED", checkpoint=str(tmp_path)), outputs)
    monitor.batch(batch)
    assert not [name for name in read_page(outputs) if "planner" in name]
    monitor.batch(planned)
    page = read_page(outputs)
    assert (page["unskew_planner_waves"], page["unskew_planner_waited_seconds"]) == (3, 0.04)


@pytest.mark.parametrize(("trigger", "expected"), [(10.0, (2, 1)), (0.0, (None, None))])
def test_a_batch_with_messages_is_slow_or_within_the_trigger(outputs, tmp_path, trigger, expected):
    monitor = MetricsReporter(settings(checkpoint=str(tmp_path), trigger=trigger), outputs)
    for seconds_ago, end in ((1, 5), (60, 5), (60, 0)):
        done, at = report([2, 3]), round(1000 * (time.time() - seconds_ago))
        of = {"planned_ms": at, "start": {"t": {"0": 0}}, "end": {"t": {"0": end}}}
        monitor.batch(replace(done, batch=replace(done.batch, **of)))
    page = read_page(outputs)
    assert (page.get("unskew_query_batches"), page.get("unskew_query_slow_batches")) == expected


def measured(busy, messages, at=0, number=0):
    """A batch of so many messages, whose workers were busy so long (s)."""
    done = report([1] * len(busy))
    of = {"time_ms": at, "start": {"t": {"0": 10}}, "end": {"t": {"0": 10 + messages - 5, "1": 5}}, "number": number}
    return replace(done, busy=np.array(busy, float), batch=replace(done.batch, **of))


@pytest.mark.parametrize("excess", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("work", [0.1, 0.7, 3.0, 10.5])
def test_the_least_number_of_workers_that_holds_the_rate_is_wanted(work, excess):
    wanted = count_wanted_workers(work, 1.0, excess)
    assert wanted is not None
    busy = {workers: work * (1 / workers + excess) for workers in (wanted, wanted - 1) if workers}
    assert busy[wanted] <= TARGET + 1e-9
    assert all(of > TARGET for workers, of in busy.items() if workers < wanted)


def test_nothing_comes_and_nothing_holds_it():
    assert count_wanted_workers(0, 1.0, 0.5) == 1
    assert count_wanted_workers(10, 0.1, 0.7) is None


def test_costs_are_those_of_the_last_minute():
    demand = WorkerDemand()
    assert demand.count_wanted(5) is None
    demand.add(measured([9, 9], 10))
    demand.add(measured([1, 1], 10, at=61_000))
    demand.add(measured([0, 0], 0, at=62_000))
    assert demand.count_wanted(35) == 10  # 0.2 s each, 7 s a second, evenly
    demand.add(measured([4, 0], 10, at=63_000))
    assert demand.count_wanted(2) == 2  # 0.3 s each, and a third more than the mean at one of them
    assert demand.count_wanted(35) == 2, "no number holds it: the run's own"
    demand.add(measured([1, 1, 1], 10, at=64_000))
    assert demand.count_wanted(0.7) == 1, "of another number of workers"


def test_the_page_has_the_demand_once_arrivals_are_known(outputs, tmp_path):
    monitor = MetricsReporter(settings(checkpoint=str(tmp_path)), outputs)
    for number, end in enumerate((100, 800)):
        monitor.batch(measured([5, 5], 100, number=number))
        monitor.progress(progress([end], seconds=10 * number, batch=number))
    assert read_page(outputs)["unskew_workers_wanted"] == 10  # 70 a second of 0.1 s each


def started(tmp_path, outputs):
    """A run's monitor that has heard of a batch."""
    monitor = MetricsReporter(settings(checkpoint=str(tmp_path)), outputs)
    monitor.batch(report([2, 2]))
    return monitor


def read_recovery(outputs):
    """The page's values of the query: lag, and how long the recovery took."""
    page = read_page(outputs)
    return page["unskew_query_lag"], page.get("unskew_query_recovery_seconds")


def test_a_recovery_is_measured_until_the_lag_of_all_partitions_is_what_it_was(outputs, tmp_path):
    first = started(tmp_path, outputs)
    first.progress(progress([15, 17], [10, 10]))
    assert read_recovery(outputs) == (12, None), "it wasn't restarted"
    again = started(tmp_path, outputs)
    again.progress(progress(None, [20, 20]))
    again.progress(progress([90, 25], [20, 20]))
    assert read_recovery(outputs) == (75, None), "it is behind"
    again.progress(progress([90, 26], [84, 20]))
    lag, seconds = read_recovery(outputs)
    assert lag == 12
    assert 0 < seconds < 60
    again.progress(progress([90, 26], [90, 20]))
    assert read_recovery(outputs) == (6, seconds), "it is measured once"


def test_a_run_of_an_older_version_was_there_before(outputs, tmp_path):
    (tmp_path / "unskew").mkdir()
    started(tmp_path, outputs).progress(progress([10]))
    assert read_recovery(outputs) == (0, None)
    assert LastLag(str(tmp_path)).messages == 0


def test_a_file_that_cannot_be_read_is_none_and_a_lag_that_stays_is_not_written_again(tmp_path):
    (tmp_path / "unskew").mkdir()
    file = tmp_path / "unskew" / "lag.json"
    for damaged in (b"", b"{", b"7", b"{}", b'{"messages": null}', b'{"messages": "many"}'):
        file.write_bytes(damaged)
        last = LastLag(str(tmp_path))
        assert last.messages is None
    last.set(7)
    file.unlink()
    last.set(7)
    assert not file.exists()
    last.set(8)
    assert LastLag(str(tmp_path)).messages == 8
    assert [path.name for path in file.parent.iterdir()] == ["lag.json"]


def test_the_next_run_recovers_to_the_lag_of_the_newest_stop():
    times = iter([100.0, 130.0])
    recovery = Recovery(5, lambda: next(times))
    assert [recovery.after(lag) for lag in (900, 6, 5, 0)] == [None, None, 30.0, None]
    assert Recovery(None).after(0) is None
