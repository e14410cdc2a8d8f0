"""A rebalance wherever it is shown: as metrics, as a mark, in the terminal, in the summary."""

from dataclasses import replace

import pytest

from tests.apps.local_settings import settings
from tests.apps.metrics.live_view import report, shown
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.display import LEGEND, LiveView, summarise_rows
from unskew.apps.metrics.metrics_reporter import MetricsReporter, sample_batch
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.grouping.feedback_loop import Rebalance

ONE = Rebalance(3, 6, 0.25, 12, 2.5, keys=1500, bytes=64_000, batch=7, after=1.25)
RING = Rebalance(4, 7, 0.75, 36, 1.5, batch=8, after=1.2)


@pytest.fixture
def batches():
    return [report([1, 3]), replace(report([2, 2]), rebalances=(ONE,)), replace(report([2, 2]), rebalances=(RING,))]


def test_all_of_it_is_a_metric(batches):
    one, other = ([s for s in sample_batch(batch) if s.subject == catalogue.REBALANCE] for batch in batches[1:])
    assert [sample.values for sample in one] == [
        {"plan": 3, "keys": 1500, "state": 64_000, "planning": 0.25, "table": 12, "before": 2.5, "after": 1.25}
    ]
    assert one[0].values.keys() == {metric.name for metric in catalogue.list_metrics(catalogue.REBALANCE)}
    assert one[0].values.keys() - other[0].values.keys() == {"keys"}, "of a ring nobody counts them"
    assert not [s for s in sample_batch(batches[0]) if s.subject == catalogue.REBALANCE]


def test_it_is_marked_and_on_the_page(batches, tmp_path, monkeypatch):
    run = settings(grouping="MIXED", checkpoint=str(tmp_path))
    with Outputs(Destinations(prometheus_port=0)) as outputs:
        monitor, marked = MetricsReporter(run, outputs), []
        write = outputs.write

        def noted(samples, common):
            marked.extend(s for s in samples if s.subject == catalogue.EVENT and s.labels["kind"] == "rebalance")
            write(samples, common)

        monkeypatch.setattr(outputs, "write", noted)
        for batch in batches:
            monitor.batch(batch)
        page = {family.name: family.samples[0].value for family in outputs.exporter.collect()}
    assert [sample.values["text"] for sample in marked] == [str(ONE), str(RING)]
    assert page["unskew_rebalance_after_ratio"] == 1.2
    assert page["unskew_rebalance_plan"] == 4


def test_the_summary_and_the_terminal_add_them_up(batches):
    tally = JobTally("MIXED")
    for batch in batches:
        tally(batch)
    summary = tally.summary()
    assert (summary.rebalances, summary.moved_keys, summary.planning_seconds) == (2, 1500, 1.0)
    view = LiveView(settings(grouping="MIXED"))
    for batch in batches:
        view.batch(batch)
    assert "2 rebalances, in batch 8 plan 4:" in " ".join(shown(view).split())


def test_what_the_legend_explains_is_in_the_summary(batches):
    tally = JobTally("MIXED")
    for batch in batches:
        tally(batch)
    names = " ".join(name for name, _ in summarise_rows(tally.summary()))
    explained = [sentence.partition(":")[0] for sentence in LEGEND.split(". ")]
    assert explained == ["STD_DEV", "DIST_COST", "imbalance", "worker time"]
    assert all(word in names for word in explained)
